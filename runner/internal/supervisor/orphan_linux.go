package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sojourn-run/sojourn/runner"
)

// orphanCheck is how often the supervisor checks that its agent is still
// wanted. A check is two stat calls; it needs no inotify instance, of which a
// user has few, and it sees the removal of any folder above its own.
const orphanCheck = time.Second

// contact is when a worker made its last request, by the clock that continues
// while the machine sleeps.
type contact struct{ at atomic.Int64 }

func (c *contact) renew() { c.at.Store(int64(runner.BootTime().At)) }

// left is how much of the idle lease remains.
func (c *contact) left(lease time.Duration) time.Duration {
	return time.Duration(c.at.Load()) + lease - runner.BootTime().At
}

// watchOrphaned ends an agent that no worker can or will return to, until ctx
// ends. quit ends the supervisor at once.
func (s *Supervisor) watchOrphaned(ctx context.Context, quit context.CancelFunc) {
	tick := time.NewTicker(orphanCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch {
		case s.control.removed():
			s.note(fmt.Sprintf("the folder %s was removed", s.control.dir))
			quit()
			return
		case s.idleLeft() < 0 && !s.exited():
			s.note(fmt.Sprintf("no worker for %v", s.spec.IdleLease))
			if err := s.stop(ctx, runner.Grace{}); err != nil {
				s.log.Error("stop the agent", "error", err)
				continue
			}
			// A connection that is still there belongs to a worker that hangs.
			quit()
			return
		}
	}
}

// note keeps why the runner itself ends its agent, for the record of its end.
func (s *Supervisor) note(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endedBecause = why
	s.log.Warn("agent is ended", "why", why)
}

// idleLeft is how long the agent lives on without a worker. A turn's lease,
// while there is one, is shorter and counts alone.
func (s *Supervisor) idleLeft() time.Duration {
	if !s.lease.deadline().IsZero() {
		return s.spec.IdleLease
	}
	return s.contact.left(s.spec.IdleLease)
}

// removed reports whether the folder is no longer at its path. An error that
// may pass is no removal.
func (c *control) removed() bool {
	now, err := os.Stat(filepath.Join(c.dir, "lock"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	held, err := c.lock.Stat()
	return err == nil && !os.SameFile(held, now)
}
