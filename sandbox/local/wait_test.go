//go:build linux

package local_test

import "time"

// For states that the kernel reaches by itself and tells nobody.
const (
	waitLong = 20 * time.Second
	waitStep = 2 * time.Millisecond
)
