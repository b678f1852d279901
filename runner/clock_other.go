//go:build !linux

package runner

// BootTime is zero: leases are counted from their arrival.
func BootTime() BootClock { return BootClock{} }
