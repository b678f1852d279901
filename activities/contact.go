package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/sandbox"
)

// A worker shows the runners of its host that it is there this many times in an
// idle lease, and at least once in contactAtMost.
const (
	contactsPerLease = 6
	contactAtMost    = 5 * time.Minute
)

// keepContact renews the idle leases of the host's agents until ctx ends.
func (h *Host) keepContact(ctx context.Context) {
	every(ctx, min(h.o.IdleLease/contactsPerLease, contactAtMost), func() { h.contactAll(ctx) })
}

// contactAll makes one request to each runner of the host. One that does not
// answer must not cost the others their contact.
func (h *Host) contactAll(ctx context.Context) {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		h.o.Log.Warn("contact the runners", "error", err)
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, info := range infos {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := h.contact(ctx, info); err != nil {
				// Mostly: no agent was started in it, or it has ended.
				h.o.Log.Debug("contact a runner", "sandbox", info.SandboxID, "error", err)
			}
		})
	}
	all.Wait()
}

// contact makes a request to a runner, over the warm connection if there is one.
func (h *Host) contact(ctx context.Context, info sandbox.Info) error {
	ctx, cancel := context.WithTimeout(ctx, ackPatience)
	defer cancel()
	h.mu.Lock()
	warm := h.agents[info.SandboxID]
	h.mu.Unlock()
	if warm != nil {
		if _, err := warm.conn.Status(ctx); err == nil {
			return nil
		}
	}
	sb, err := h.o.Provider.Open(ctx, info.SandboxID)
	if err != nil {
		return fmt.Errorf("contact a runner: %w", err)
	}
	a := &agent{sb: sb, paths: info.Paths, env: info.Env, epoch: info.Epoch}
	return errors.Join(h.attach(ctx, a), a.detach())
}
