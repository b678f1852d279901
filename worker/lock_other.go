//go:build !linux

package worker

import (
	"errors"
	"os"
)

func lockHeld(string) (bool, error) {
	return false, errors.New("sojourn-worker runs on Linux only")
}

func lockFile(string) (*os.File, error) {
	return nil, errors.New("sojourn-worker holds sandboxes of its own machine, which needs Linux")
}
