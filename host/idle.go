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

// Any request to a runner renews its idle lease. One is sent this many times in a lease,
// and at least once in renewAtMost.
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

// CheckHealth checks every HealthEvery whether the host's agents live, until ctx ends.
// If an agent died between turns, its session gives the sandbox up and archives it first;
// one that dies in a turn is handled by the turn. An agent must be found dead twice in a
// row: the next message may be on its way, and restarts it. A check needs no agent.
func (h *Host) CheckHealth(ctx context.Context) {
	dead := map[string]bool{}
	Every(ctx, h.o.HealthEvery, func() {
		var mu sync.Mutex
		found := map[string]bool{}
		h.eachSandbox(ctx, "check the health of an agent", func(ctx context.Context, info sandbox.Info) error {
			if h.isChecked(info.SandboxID) || h.healthy(ctx, info) {
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

// eachSandbox calls do for each sandbox of the host, some concurrently. A sandbox that does
// not answer must not delay the others.
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

// healthy reports whether a sandbox's agent lives; also true if it had none yet, or its
// runner does not answer in time.
func (h *Host) healthy(ctx context.Context, info sandbox.Info) bool {
	if !h.hadAgent(info.SandboxID) {
		return true
	}
	var status runner.Status
	err := h.ask(ctx, info, func(c *runner.Conn) (err error) {
		status, err = c.Status(ctx)
		return err
	})
	return err == nil && status.State == runner.AgentRunning || ctx.Err() != nil
}

// hadAgent reports whether an agent was started in a sandbox, by this worker or by one before.
func (h *Host) hadAgent(sandboxID string) bool {
	if h.Connected(sandboxID) != nil {
		return true
	}
	c, err := h.Checkpoints.Load(sandboxID)
	return err == nil && c.Offset > 0
}

// renewIdleLease makes a request to a runner.
func (h *Host) renewIdleLease(ctx context.Context, info sandbox.Info) error {
	return h.ask(ctx, info, func(c *runner.Conn) error {
		_, err := c.Status(ctx)
		return err
	})
}

// Release takes a sandbox's agent off its lease. No heartbeat may renew it meanwhile.
func (h *Host) Release(ctx context.Context, sandboxID string) error {
	sb, err := h.o.Provider.Open(ctx, sandboxID)
	if err != nil {
		return fmt.Errorf("release: sandbox %s: %w", sandboxID, err)
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return fmt.Errorf("release: sandbox %s: %w", sandboxID, err)
	}
	err = h.ask(ctx, info, func(c *runner.Conn) error { return c.Lease(ctx, 0) })
	if errors.Is(err, runner.ErrExited) || errors.Is(err, runner.ErrClosed) {
		return nil // no agent lives there
	}
	return err
}

// ask sends a sandbox's runner a request, over the kept connection if that works, else over
// a new one.
func (h *Host) ask(ctx context.Context, info sandbox.Info, question func(*runner.Conn) error) error {
	if kept := h.Connected(info.SandboxID); kept != nil && question(kept.Conn) == nil {
		return nil
	}
	a, err := h.open(ctx, info)
	if err != nil {
		return fmt.Errorf("attach to an idle agent: %w", err)
	}
	if err := h.attach(ctx, a); err != nil {
		return errors.Join(err, a.detach())
	}
	return errors.Join(question(a.Conn), a.detach())
}
