package host

import (
	"context"
	"errors"
	"time"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

// PausedChecks is how often per lease Temporal is asked about a paused turn.
const PausedChecks = 8

// KeepPaused renews the lease of a paused turn's agent in the background, while Temporal
// reports the turn as paused: no attempt heartbeats for it meanwhile. This report is as
// good as an acknowledged heartbeat: while Temporal makes it, it has not given up this
// host.
func (h *Host) KeepPaused(sessionID string, conn *runner.Conn) {
	h.Go(func(context.Context) { h.keepPaused(sessionID, conn) })
}

func (h *Host) keepPaused(sessionID string, conn *runner.Conn) {
	for {
		since := runner.BootTime()
		paused, err := h.isPaused(sessionID)
		if err == nil && !paused {
			return
		}
		if err == nil {
			err = conn.LeaseSince(h.ctx, h.o.Lease, since)
		}
		if err != nil {
			h.o.Log.Warn("the lease of a paused turn's agent is not renewed", "session", sessionID, "error", err)
		}
		select {
		case <-time.After(h.o.Lease / PausedChecks):
		case <-conn.Done():
			return
		case <-h.ctx.Done():
			return
		}
	}
}

// isPaused reports whether the session's turn is paused.
func (h *Host) isPaused(sessionID string) (bool, error) {
	ctx, cancel := context.WithTimeout(h.ctx, AckPatience)
	defer cancel()
	d, err := h.o.Temporal.DescribeWorkflowExecution(ctx, sessionID, "")
	if err != nil {
		return false, err
	}
	for _, a := range d.PendingActivities {
		if a.GetActivityType().GetName() == contract.ActivityRunTurn {
			return a.Paused, nil
		}
	}
	return false, nil
}

// KeepAllPaused renews the leases of the agents whose turn is paused, as the previous
// worker did, until the turns are continued.
func (h *Host) KeepAllPaused(ctx context.Context) {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		h.o.Log.Warn("look for paused turns", "error", err)
		return
	}
	for _, info := range infos {
		checkpoint, err := h.Checkpoints.Load(info.SandboxID)
		if err != nil || checkpoint.Open == nil {
			continue
		}
		if paused, err := h.isPaused(info.SessionID); err != nil || !paused {
			continue
		}
		if err := h.attachPaused(ctx, info); err != nil {
			h.o.Log.Warn("the agent of a paused turn is not kept", "session", info.SessionID, "error", err)
		}
	}
}

func (h *Host) attachPaused(ctx context.Context, info sandbox.Info) error {
	a, err := h.open(ctx, info)
	if err != nil {
		return err
	}
	if err := h.attach(ctx, a); err != nil {
		return errors.Join(err, a.detach())
	}
	h.Go(func(context.Context) {
		h.keepPaused(info.SessionID, a.Conn)
		h.detach(info.SandboxID, a)
	})
	return nil
}
