package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/sandbox"
)

// Any request to a runner renews its idle lease. It is made this many times in a
// lease, and at least once in renewAtMost.
const (
	renewalsPerLease = 6
	renewAtMost      = 5 * time.Minute
)

// KeepIdleLeases renews the idle leases of the host's agents until ctx ends.
func (h *Host) KeepIdleLeases(ctx context.Context) {
	Every(ctx, min(h.o.IdleLease/renewalsPerLease, renewAtMost), func() { h.renewIdleLeases(ctx) })
}

// renewIdleLeases makes one request to each runner of the host. One that does not
// answer must not cost the others their lease.
func (h *Host) renewIdleLeases(ctx context.Context) {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		h.o.Log.Warn("renew the idle leases", "error", err)
	}
	var all sync.WaitGroup
	atOnce := make(chan struct{}, 4)
	for _, info := range infos {
		atOnce <- struct{}{}
		all.Go(func() {
			defer func() { <-atOnce }()
			if err := h.renewIdleLease(ctx, info); err != nil {
				// Mostly: no agent was started in it, or it has ended.
				h.o.Log.Debug("renew an idle lease", "sandbox", info.SandboxID, "error", err)
			}
		})
	}
	all.Wait()
}

// renewIdleLease makes a request to a runner, over the connection that is kept if
// there is one.
func (h *Host) renewIdleLease(ctx context.Context, info sandbox.Info) error {
	ctx, cancel := context.WithTimeout(ctx, AckPatience)
	defer cancel()
	if connected := h.Connected(info.SandboxID); connected != nil {
		if _, err := connected.Conn.Status(ctx); err == nil {
			return nil
		}
	}
	a, err := h.open(ctx, info)
	if err != nil {
		return fmt.Errorf("renew an idle lease: %w", err)
	}
	return errors.Join(h.attach(ctx, a), a.detach())
}
