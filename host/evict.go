package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/session"
)

const (
	// evictPatience is how long a new sandbox waits for an idle one to be archived and
	// ended. The eviction continues after that.
	evictPatience = 30 * time.Second
	// evictAgain is when a busy session is asked again for its sandbox, and when that of a
	// new one is evicted in which no turn begins.
	evictAgain = 5 * time.Second
	// slotPatience is how long a new sandbox waits here if no idle one is evicted: mostly one
	// is being ended already. After that another host may have it, and it has lost its place
	// in the queue.
	slotPatience = 5 * time.Second
	// slotAgain is when a new sandbox is offered again, to any host.
	slotAgain = time.Second
)

// errNoSlot returns a task to the create queue: another host may have a slot.
func (h *Host) errNoSlot(why string) error {
	return temporal.NewApplicationErrorWithOptions(
		fmt.Sprintf("waiting for a free slot: host %s %s", h.o.ID, why),
		session.TypeNoSlot, temporal.ApplicationErrorOptions{NextRetryDelay: slotAgain},
	)
}

func (h *Host) errFull(why string) error {
	return h.errNoSlot(fmt.Sprintf("has %d sandboxes, %s", h.Slots.Capacity(), why))
}

// TakeSlot takes a slot for a new sandbox. If all are taken the sandbox that has been idle
// the longest is evicted: its own session archives and ends it, and refuses if it has
// anything to do. The error has the type session.TypeNoSlot if there is no slot now.
func (h *Host) TakeSlot(ctx context.Context) (*Slot, error) {
	defer h.Slots.want()()
	late := time.After(slotPatience)
	for {
		slot, idle, changed := h.Slots.take()
		if slot != nil {
			return slot, nil
		}
		if h.Draining() {
			return nil, h.errNoSlot("is being drained")
		}
		if idle == "" {
			select {
			case <-changed:
				continue
			case <-late:
				return nil, h.errFull("and each is in use or is being ended for another")
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if err := h.evict(ctx, idle); err != nil {
			h.o.Log.Info("an idle sandbox is not evicted", "sandbox", idle, "error", err)
			time.AfterFunc(evictAgain, func() { h.Slots.stays(idle) })
			if errors.Is(err, context.DeadlineExceeded) {
				return nil, h.errFull(fmt.Sprintf("and %s, which gives way, is not archived yet", idle))
			}
			if ctx.Err() == nil {
				h.Slots.refused(idle)
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// evict asks a sandbox's session to give it up, and waits until it has ended.
func (h *Host) evict(ctx context.Context, sandboxID string) error {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		return fmt.Errorf("evict: %w", err)
	}
	for _, info := range infos {
		if info.SandboxID != sandboxID {
			continue
		}
		if commands := h.Background(ctx, info); len(commands) > 0 {
			return fmt.Errorf("evict: commands are at work in the background: %s", strings.Join(commands, ", "))
		}
		ctx, cancel := context.WithTimeout(ctx, evictPatience)
		defer cancel()
		err := h.o.Evict(ctx, info.SessionID, session.EvictRequest{SandboxID: sandboxID, Reason: session.EvictForSlot})
		if err != nil && !errors.Is(err, session.ErrClosed) { // one that closes ends its sandbox
			return err
		}
		return h.Slots.awaitFree(ctx, sandboxID)
	}
	h.Slots.Free(sandboxID)
	return nil
}
