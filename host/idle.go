package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
)

// Any request to a runner renews its idle lease. It is made this many times in a
// lease, and at least once in renewAtMost.
const (
	renewalsPerLease = 6
	renewAtMost      = 5 * time.Minute
)

// KeepIdleLeases renews the idle leases of the host's agents until ctx ends.
func (h *Host) KeepIdleLeases(ctx context.Context) {
	Every(ctx, min(h.o.IdleLease/renewalsPerLease, renewAtMost), func() {
		h.eachSandbox(ctx, "renew an idle lease", h.renewIdleLease)
	})
}

// CheckHealth looks every HealthEvery whether the agents that the host is connected
// to live, until ctx ends. A sandbox whose agent died between turns is given up by
// its session, which archives it first; one that dies in a turn is the turn's. An
// agent has to be dead twice: the next message may be on its way, and starts it anew.
func (h *Host) CheckHealth(ctx context.Context) {
	dead := map[string]bool{}
	Every(ctx, h.o.HealthEvery, func() {
		var mu sync.Mutex
		found := map[string]bool{}
		h.eachSandbox(ctx, "check the health of an agent", func(ctx context.Context, info sandbox.Info) error {
			if h.healthy(ctx, info) {
				return nil
			}
			mu.Lock()
			found[info.SandboxID] = true
			mu.Unlock()
			if !dead[info.SandboxID] {
				return nil
			}
			h.o.Log.Info("an agent died between turns", "session", info.SessionID, "sandbox", info.SandboxID)
			return h.o.Evict(ctx, info.SessionID, session.EvictRequest{SandboxID: info.SandboxID, Reason: session.EvictUnhealthy})
		})
		dead = found
	})
}

// eachSandbox does something for each sandbox of the host, some at once. One that does
// not answer must not keep the others waiting.
func (h *Host) eachSandbox(ctx context.Context, what string, do func(context.Context, sandbox.Info) error) {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		h.o.Log.Warn(what, "error", err)
	}
	var all sync.WaitGroup
	atOnce := make(chan struct{}, 4)
	for _, info := range infos {
		atOnce <- struct{}{}
		all.Go(func() {
			defer func() { <-atOnce }()
			ctx, cancel := context.WithTimeout(ctx, AckPatience)
			defer cancel()
			if err := do(ctx, info); err != nil {
				// Mostly: no agent was started in it, or its session is busy.
				h.o.Log.Debug(what, "sandbox", info.SandboxID, "error", err)
			}
		})
	}
	all.Wait()
}

// healthy reports whether a sandbox's agent lives, or is none that the host is
// connected to, or does not answer in time.
func (h *Host) healthy(ctx context.Context, info sandbox.Info) bool {
	connected := h.Connected(info.SandboxID)
	if connected == nil {
		return true
	}
	status, err := connected.Conn.Status(ctx)
	if errors.Is(err, runner.ErrClosed) {
		status, err = h.attached(ctx, info)
	}
	return err == nil && status.State == runner.AgentRunning || ctx.Err() != nil
}

// renewIdleLease makes a request to a runner, over the connection that is kept if
// there is one.
func (h *Host) renewIdleLease(ctx context.Context, info sandbox.Info) error {
	if connected := h.Connected(info.SandboxID); connected != nil {
		if _, err := connected.Conn.Status(ctx); err == nil {
			return nil
		}
	}
	_, err := h.attached(ctx, info)
	return err
}

// attached attaches to a runner and leaves it again, and returns how it was.
func (h *Host) attached(ctx context.Context, info sandbox.Info) (runner.Status, error) {
	a, err := h.open(ctx, info)
	if err != nil {
		return runner.Status{}, fmt.Errorf("attach to an idle agent: %w", err)
	}
	if err := h.attach(ctx, a); err != nil {
		return runner.Status{}, errors.Join(err, a.detach())
	}
	return a.Conn.Attached(), a.detach()
}
