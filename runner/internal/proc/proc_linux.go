// Package proc inspects and ends processes through /proc and pidfds, never by a
// bare pid: the pid may have been reused by another process, so the start time is
// compared first.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner"
)

// Stat reads one process. A process that has ended is an error.
func Stat(pid int) (runner.Process, error) {
	var page [pageBytes]byte
	return stat(strconv.Itoa(pid), page[:])
}

// pageBytes is more than a process's stat has; the kernel returns it in one read.
const pageBytes = 4 << 10

// stat reads with bare system calls: package os takes more than twice the processor time,
// and every turn looks at all processes of the machine.
func stat(pid string, page []byte) (runner.Process, error) {
	path := "/proc/" + pid + "/stat"
	b, err := readOnce(path, page)
	if err != nil {
		return runner.Process{}, &os.PathError{Op: "read", Path: path, Err: err}
	}
	// comm may itself hold blanks and parentheses.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return runner.Process{}, fmt.Errorf("process %s: malformed stat", pid)
	}
	p := runner.Process{Comm: string(b[open+1 : end])}
	var errs [3]error
	p.Pid, errs[0] = strconv.Atoi(pid)
	field := 0
	for value := range bytes.FieldsSeq(b[end+1:]) {
		switch field++; field {
		case 1:
			p.State = string(value)
		case 2:
			p.PPid, errs[1] = strconv.Atoi(string(value))
		case 20:
			p.Start, errs[2] = strconv.ParseUint(string(value), 10, 64)
			return p, errors.Join(errs[:]...)
		}
	}
	return runner.Process{}, fmt.Errorf("process %s: malformed stat", pid)
}

// readOnce fills b, as far as there is so much, by one read.
func readOnce(path string, b []byte) ([]byte, error) {
	fd, err := again(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := again(func() (int, error) { return unix.Read(fd, b) })
	return b[:max(n, 0)], err
}

// again repeats a call that a signal interrupts.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// All lists every process in view.
func All() ([]runner.Process, error) {
	names, err := readNames("/proc")
	if err != nil {
		return nil, err
	}
	all := make([]runner.Process, 0, len(names))
	var page [pageBytes]byte
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		if p, err := stat(name, page[:]); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Below lists the living processes below root, at any depth. Zombies are left
// out, but not the processes below them.
func Below(root int) ([]runner.Process, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	children := map[int][]runner.Process{}
	for _, p := range all {
		children[p.PPid] = append(children[p.PPid], p)
	}
	var below []runner.Process
	queue := []int{root}
	for len(queue) > 0 {
		for _, p := range children[queue[0]] {
			queue = append(queue, p.Pid)
			if p.State != "Z" && p.State != "X" {
				below = append(below, p)
			}
		}
		queue = queue[1:]
	}
	return below, nil
}

// Signal sends a signal to exactly this process. One that has ended is not an
// error.
func Signal(p runner.Process, sig unix.Signal) error {
	_, err := Deliver(p, sig)
	return err
}

// Deliver is [Signal] and also reports whether the process existed; one that has
// exited and is not reaped yet counts as existing.
func Deliver(p runner.Process, sig unix.Signal) (sent bool, err error) {
	fd, err := hold(p)
	if err != nil || fd < 0 {
		return false, err
	}
	defer unix.Close(fd)
	err = unix.PidfdSendSignal(fd, sig, nil, 0)
	return err == nil, ignoreGone(err)
}

// hold opens a pidfd for exactly this process, or returns -1 if it has exited.
func hold(p runner.Process) (int, error) {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		// The pid has become the id of a thread; older kernels report EINVAL.
		return -1, nil
	}
	if err != nil {
		return -1, ignoreGone(err)
	}
	now, err := Stat(p.Pid)
	if err != nil || now.Start != p.Start {
		unix.Close(fd)
		return -1, nil
	}
	return fd, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Dead reports whether the process has ended, reaped or not.
func Dead(p runner.Process) (bool, error) {
	fd, err := hold(p)
	if err != nil || fd < 0 {
		return err == nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	if err != nil {
		return false, fmt.Errorf("look at process %d: %w", p.Pid, err)
	}
	return n > 0, nil
}

// Wait returns when the process is dead (reaped or not), or with ctx's error.
func Wait(ctx context.Context, p runner.Process) error {
	fd, err := hold(p)
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	for ctx.Err() == nil {
		// Short enough that a cancelled context is noticed.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for process %d: %w", p.Pid, err)
		}
		if n > 0 {
			return nil
		}
	}
	return ctx.Err()
}

// End kills every process that list returns, repeatedly until it returns none: a
// dying process may still have started another. It returns the killed processes,
// and those left after the limit.
func End(list func() ([]runner.Process, error), limit time.Duration) (killed, left []runner.Process, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		ps, err := list()
		if err != nil || len(ps) == 0 || ctx.Err() != nil {
			return killed, ps, err
		}
		for _, p := range ps {
			if err := Signal(p, unix.SIGKILL); err != nil {
				return killed, ps, fmt.Errorf("kill process %d: %w", p.Pid, err)
			}
		}
		for _, p := range ps {
			if Wait(ctx, p) == nil {
				killed = append(killed, p)
			}
		}
	}
}

// WithEnv lists the processes whose environment holds the setting NAME=value, as
// far as this user may read them.
func WithEnv(setting string) ([]runner.Process, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	var found []runner.Process
	for _, p := range all {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/environ")
		if err == nil && p.State != "Z" && hasSetting(env, setting) {
			found = append(found, p)
		}
	}
	return found, nil
}

// hasSetting reports whether a process's variables have a setting. A variable
// without a final zero byte is incomplete: the process ended while it was read,
// and the part may look like another sandbox's.
func hasSetting(env []byte, setting string) bool {
	for kv := range bytes.SplitAfterSeq(env, []byte{0}) {
		if string(kv) == setting+"\x00" {
			return true
		}
	}
	return false
}
