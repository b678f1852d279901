//go:build !linux

package main

import (
	"errors"
	"os"
)

func lockFile(string) (*os.File, error) {
	return nil, errors.New("sojourn-worker holds sandboxes of its own machine, which needs Linux")
}
