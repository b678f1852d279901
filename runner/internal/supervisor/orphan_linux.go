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

// orphanCheck is how often the supervisor checks whether its agent is still
// wanted. A check is two stat calls. It needs no inotify instance, of which a
// user has few, and it notices the removal of any parent folder.
const orphanCheck = time.Second

// contact is the time of a worker's last request, by the clock that continues
// while the machine sleeps.
type contact struct{ at atomic.Int64 }

func (c *contact) renew() { c.at.Store(int64(runner.BootTime().At)) }

// left returns how much of the idle lease remains.
func (c *contact) left(lease time.Duration) time.Duration {
	return time.Duration(c.at.Load()) + lease - runner.BootTime().At
}

// watchOrphaned ends an agent to which no worker can or will return, until ctx
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
			// A connection that is still open is that of a worker that hangs.
			quit()
			return
		}
	}
}

// note stores why the runner itself ends its agent, for the record of its end.
func (s *Supervisor) note(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endedBecause = why
	s.log.Warn("agent is ended", "why", why)
}

// idleLeft returns how long the agent lives without a worker. A turn's lease, if
// there is one, is shorter and applies alone.
func (s *Supervisor) idleLeft() time.Duration {
	if !s.lease.deadline().IsZero() {
		return s.spec.IdleLease
	}
	return s.contact.left(s.spec.IdleLease)
}

// removed reports whether the folder is no longer at its path. A transient error
// is not a removal.
func (c *control) removed() bool {
	now, err := os.Stat(filepath.Join(c.dir, "lock"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	held, err := c.lock.Stat()
	return err == nil && !os.SameFile(held, now)
}
