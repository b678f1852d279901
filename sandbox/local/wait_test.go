//go:build linux

package local_test

import "time"

// For states that the kernel reaches without a notification.
const (
	waitLong = 20 * time.Second
	waitStep = 2 * time.Millisecond
)
