package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/session"
)

const (
	// evictPatience is how long a new sandbox waits for an idle one to be archived
	// and ended. The one that gives way ends all the same.
	evictPatience = 30 * time.Second
	// evictAgain is when a sandbox is asked again whose session was busy.
	evictAgain = 5 * time.Second
	// placeAgain is when a new sandbox is offered again, to any host.
	placeAgain = time.Second
)

// errNoPlace returns a task to the create queue: another host may have a place.
func (h *Host) errNoPlace(why string) error {
	return temporal.NewApplicationErrorWithOptions(
		fmt.Sprintf("waiting for a free place: host %s has %d sandboxes, %s", h.o.ID, h.o.Places.Capacity(), why),
		session.TypeNoSlot, temporal.ApplicationErrorOptions{NextRetryDelay: placeAgain},
	)
}

// takePlace claims a place for a new sandbox. Where all are taken the sandbox
// that has been idle the longest gives way: its own session archives and ends
// it, and refuses if it has anything to do.
func (h *Host) takePlace(ctx context.Context) (*claim, error) {
	for {
		c, idle := h.o.Places.claim()
		if c != nil {
			return c, nil
		}
		if idle == "" {
			return nil, h.errNoPlace("and each is in use")
		}
		if err := h.giveWay(ctx, idle); err != nil {
			h.o.Log.Info("an idle sandbox does not give way", "sandbox", idle, "error", err)
			time.AfterFunc(evictAgain, func() { h.o.Places.rest(idle) })
			if errors.Is(err, context.DeadlineExceeded) {
				return nil, h.errNoPlace(fmt.Sprintf("and %s, which gives way, is not archived yet", idle))
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// giveWay asks a sandbox's session to give it up, and waits until it is gone.
func (h *Host) giveWay(ctx context.Context, sandboxID string) error {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		return fmt.Errorf("give way: %w", err)
	}
	for _, info := range infos {
		if info.SandboxID != sandboxID {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, evictPatience)
		defer cancel()
		if err := h.o.Evict(ctx, info.SessionID, session.EvictRequest{SandboxID: sandboxID, Reason: session.EvictForPlace}); err != nil {
			return err
		}
		return h.o.Places.awaitFree(ctx, sandboxID)
	}
	h.o.Places.free(sandboxID)
	return nil
}
