package supervisor

import (
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// lease is a kernel timer that kills this process, whatever state it is in; the
// agent dies with it by its parent-death signal.
type lease struct {
	mu    sync.Mutex
	made  bool
	timer int32
	until time.Time
}

// sigevent is the kernel's struct sigevent on 64-bit systems.
type sigevent struct {
	value  uint64
	signo  int32
	notify int32
	_      [48]byte
}

type itimerspec struct {
	interval, value unix.Timespec
}

// arm sets the timer, or disarms it for a TTL of 0.
func (l *lease) arm(req wire.Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.make(); err != nil {
		return err
	}
	spec, flags, left := itimerspec{}, uintptr(0), time.Duration(req.TTL)
	if req.TTL > 0 {
		spec.value = unix.NsecToTimespec(req.TTL)
	}
	if now := runner.BootTime(); req.TTL > 0 && req.Boot != "" && req.Boot == now.Boot {
		// The request's time on its way counts against the lease.
		flags = unix.TIMER_ABSTIME
		spec.value = unix.NsecToTimespec(req.Since + req.TTL)
		left = time.Duration(req.Since+req.TTL) - now.At
	}
	_, _, errno := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(l.timer), flags, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("lease: set timer: %w", errno)
	}
	l.until = time.Time{}
	if req.TTL > 0 {
		l.until = time.Now().Add(left).UTC()
	}
	return nil
}

func (l *lease) make() error {
	if l.made {
		return nil
	}
	ev := sigevent{signo: int32(unix.SIGKILL)}
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ev)), uintptr(unsafe.Pointer(&l.timer)))
	if errno != 0 {
		return fmt.Errorf("lease: create timer: %w", errno)
	}
	l.made = true
	return nil
}

func (l *lease) deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}
