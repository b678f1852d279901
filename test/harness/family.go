package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Seen is a process as /proc shows it. Zombies are left out.
type Seen struct {
	PID, PPID int
	// Comm and Cmdline are its name and its arguments, separated by blanks.
	Comm, Cmdline string
	// Mark is the sandbox folder in its environment; empty if there is none or if this
	// user may not read it.
	Mark string
	// Start distinguishes it from a later process with the same id.
	Start string
}

// String implements fmt.Stringer, for messages.
func (s Seen) String() string {
	return fmt.Sprintf("%d (%s) below %d: %s", s.PID, s.Comm, s.PPID, s.Cmdline)
}

// AllSeen returns every living process.
func AllSeen() ([]Seen, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []Seen
	for _, dir := range names {
		s, err := look1(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if s.PID != 0 {
			all = append(all, s)
		}
	}
	return all, nil
}

// look1 reads one process. It returns the zero value for a zombie.
func look1(dir string) (Seen, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Seen{}, err
	}
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	fields := strings.Fields(string(raw[end+1:]))
	if open < 0 || len(fields) < 20 {
		return Seen{}, fmt.Errorf("%s/stat: malformed", dir)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return Seen{}, nil
	}
	s := Seen{Comm: string(raw[open+1 : end]), Start: fields[19]}
	s.PID, _ = strconv.Atoi(filepath.Base(dir))
	s.PPID, _ = strconv.Atoi(fields[1])
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return Seen{}, err
	}
	s.Cmdline = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
	env, _ := os.ReadFile(filepath.Join(dir, "environ"))
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(kv, []byte("SOJOURN_SANDBOX=")); ok {
			s.Mark = string(value)
		}
	}
	return s, nil
}

// Family returns the processes of the sandboxes whose folders begin with a path: those
// with their mark and all their descendants. If a pid is given, it adds that worker
// process and its descendants.
func Family(sandboxes string, worker int) ([]Seen, error) {
	all, err := AllSeen()
	if err != nil {
		return nil, err
	}
	in := map[int]bool{}
	var family []Seen
	for grown := true; grown; {
		grown = false
		for _, s := range all {
			if in[s.PID] || s.PID != worker && !strings.HasPrefix(s.Mark, sandboxes) && !in[s.PPID] {
				continue
			}
			in[s.PID], grown = true, true
			family = append(family, s)
		}
	}
	return family, nil
}

// SignalSeen sends a signal to those of the processes that are still alive.
func SignalSeen(sig syscall.Signal, ps ...Seen) error {
	var errs []error
	for _, p := range ps {
		now, err := look1(filepath.Join("/proc", strconv.Itoa(p.PID)))
		if err != nil || now.Start != p.Start {
			continue
		}
		if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("%v to %v: %w", sig, p, err))
		}
	}
	return errors.Join(errs...)
}
