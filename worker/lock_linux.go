package worker

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// A killed worker's lock may outlive it by a moment: a child that it was just
// starting shares its open files until it calls exec.
const (
	lockPatience = 3 * time.Second
	lockLook     = 20 * time.Millisecond
)

// lockHeld reports whether a process holds the lock. A worker that starts at that
// moment waits until the check is done.
func lockHeld(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// lockFile takes a lock that ends with the process, however it ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(lockPatience)
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		if time.Now().After(deadline) {
			err = errors.New("another worker runs on it")
			break
		}
		time.Sleep(lockLook)
	}
	return nil, errors.Join(err, f.Close())
}
