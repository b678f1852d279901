package runner

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// BootTime reads the clock by which leases are counted; it continues while the
// machine sleeps. Without such a clock the result is zero.
func BootTime() BootClock {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return BootClock{}
	}
	return BootClock{Boot: bootID(), At: time.Duration(ts.Nano())}
}
