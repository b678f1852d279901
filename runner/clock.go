package runner

import "time"

// BootClock is a moment of a machine's boot-time clock.
type BootClock struct {
	// Boot is the id of the machine's boot; moments of different boots cannot
	// be compared.
	Boot string
	// At is the time since that boot.
	At time.Duration
}
