package harness

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The arguments with which a test binary runs as one of its own tools, see Tool.
const (
	toolBeat         = "sojourn-test-beat"
	toolNoNamespaces = "sojourn-test-no-namespaces"
)

// Tool is called at the start of a TestMain. If args name a tool, it runs that tool and
// called is true.
func Tool(args []string) (code int, called bool) {
	if len(args) < 3 {
		return 0, false
	}
	var err error
	switch args[1] {
	case toolBeat:
		err = WriteBeats(args[2])
	case toolNoNamespaces:
		err = withoutNamespaces(args[2:])
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, args[1]+":", err)
		return 1, true
	}
	return 0, true
}

// BeatCommand returns a shell command that runs [WriteBeats]. The binary's TestMain
// must call [Tool].
func BeatCommand(path string) (string, error) {
	self, err := os.Executable()
	return self + " " + toolBeat + " " + path, err
}

// NoNamespaces writes a program that runs another one without the right to create
// namespaces, as the default rules of a container do. It returns the setting with which
// StartWorker runs the worker in it.
func (s *Stack) NoNamespaces() (setting string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(s.Dir, "worker-")
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, "#!/bin/sh\nexec '%s' %s '%s' \"$@\"\n", self, toolNoNamespaces, filepath.Join(s.Bin, "sojourn-worker"))
	return workerBin + f.Name(), errors.Join(err, f.Chmod(0o700), f.Close())
}

// OrdinaryUser writes a program that runs the worker as an unprivileged user, to whom
// this process's files look like that user's own. It returns the setting with which
// StartWorker runs the worker in it, or an error if the system doesn't allow that.
func (s *Stack) OrdinaryUser() (setting string, err error) {
	unshare := []string{"unshare", "--user", "--map-user=1000", "--map-group=1000"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(unshare, " "), err, out)
	}
	f, err := os.CreateTemp(s.Dir, "worker-")
	if err != nil {
		return "", err
	}
	bin := cmp.Or(os.Getenv("SOJOURN_WORKER_BIN"), filepath.Join(s.Bin, "sojourn-worker"))
	_, err = fmt.Fprintf(f, "#!/bin/sh\nexec %s '%s' \"$@\"\n", strings.Join(unshare, " "), bin)
	return workerBin + f.Name(), errors.Join(err, f.Chmod(0o700), f.Close())
}

// withoutNamespaces replaces this process by a program for which, and for whose
// children, clone and unshare of a namespace fail with EPERM.
func withoutNamespaces(argv []string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no-new-privileges: %w", err)
	}
	filter := namespaceFilter()
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("set filter: %w", err)
	}
	if !strings.Contains(argv[0], "/") {
		return fmt.Errorf("%s: want a path", argv[0])
	}
	return syscall.Exec(argv[0], argv, os.Environ())
}

func namespaceFilter() []unix.SockFilter {
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS
	const number, firstArgument = 0, 16 // offsets in struct seccomp_data
	deny := func(errno uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		// A filter can't read its arguments, which are in memory; callers fall back to
		// clone.
		equal(unix.SYS_CLONE3, 0, 1), deny(uint32(unix.ENOSYS)),
		equal(unix.SYS_CLONE, 1, 0), equal(unix.SYS_UNSHARE, 0, 3),
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: firstArgument},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: namespaces, Jt: 0, Jf: 1},
		deny(uint32(unix.EPERM)),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
}
