package main

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process, however it ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another worker runs on it")
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
