package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/proc"
	"github.com/sojourn-run/sojourn/sandbox"
)

// agentPipes makes the agent's stdin, stdout and stderr: the supervisor's ends
// and the agent's.
func agentPipes() (ours, theirs [3]*os.File, err error) {
	var all []*os.File
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(all...)
			return ours, theirs, err
		}
		all = append(all, r, w)
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	// Fewer switches between a flooding agent and the pump; a refusal (the user's
	// pipe limit) does no harm.
	_, _ = unix.FcntlInt(theirs[1].Fd(), unix.F_SETPIPE_SZ, 1<<20)
	return ours, theirs, nil
}

func (s *Supervisor) restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved.RestartCount
}

func statSelf() (runner.Process, error) { return proc.Stat(os.Getpid()) }

// findProgram resolves a program by its working directory and the PATH of its
// environment, before anything is started.
func findProgram(name, dir string, env []string) (string, error) {
	if filepath.IsAbs(name) {
		return name, checkProgram(name)
	}
	if strings.Contains(name, "/") {
		p := filepath.Join(dir, name)
		return p, checkProgram(p)
	}
	p, err := sandbox.LookPath(name, sandbox.EnvValue(env, "PATH"))
	if err != nil {
		return "", fmt.Errorf("program %q is not in the agent's PATH: %w", name, err)
	}
	return p, nil
}

func checkProgram(p string) error {
	info, err := os.Stat(p)
	if err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("program %s is not executable", p)
	}
	return nil
}

// programsBeside returns the files with those names in a program's folder.
func programsBeside(path string, names []string) []os.FileInfo {
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	var found []os.FileInfo
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(filepath.Dir(file), name)); err == nil {
			found = append(found, info)
		}
	}
	return found
}

// programFolders returns what must stay visible for the agent's program to run
// although it is in a hidden folder: the folder of the file and of every
// symlink on the way to it, and the package tree of a script.
func programFolders(path string, hide []string) []string {
	var keep []string
	for range 40 {
		dir := filepath.Dir(path)
		if hidesAway(dir, hide) {
			// The folder itself is hidden: only the program may be visible.
			keep = append(keep, path)
		} else {
			keep = append(keep, dir)
		}
		if i := strings.Index(path, "/node_modules/"); i >= 0 {
			keep = append(keep, path[:i+len("/node_modules")])
		}
		target, err := os.Readlink(path)
		if errors.Is(err, unix.EINVAL) || err != nil {
			return keep
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return keep
}

// hidesAway reports whether dir is a hidden folder or contains one.
func hidesAway(dir string, hide []string) bool {
	for _, h := range hide {
		if h == dir || strings.HasPrefix(h, strings.TrimSuffix(dir, "/")+"/") {
			return true
		}
	}
	return false
}
