package runner

import "time"

// BootClock is a time of a machine's boot-time clock.
type BootClock struct {
	// Boot is the id of the machine's boot; times of different boots cannot be
	// compared.
	Boot string
	// At is the time since that boot.
	At time.Duration
}
