//go:build !linux

package runner

// BootTime returns zero: leases are counted from their arrival.
func BootTime() BootClock { return BootClock{} }
