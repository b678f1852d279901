package activities

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/runner"
)

// Temporal is what a host asks of Temporal beside its tasks;
// [go.temporal.io/sdk/client.Client] is one.
type Temporal interface {
	// RecordActivityHeartbeat returns when Temporal has acknowledged the beat.
	RecordActivityHeartbeat(ctx context.Context, taskToken []byte, details ...any) error
	CompleteActivity(ctx context.Context, taskToken []byte, result any, err error) error
	// SignalWorkflow returns when Temporal has accepted the signal.
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// errPaused and errReset are what an attempt fails with that an operator took
// away; the next one is made when the operator lets it.
var (
	errPaused = temporal.NewApplicationError("the turn was paused; its agent goes on", "Paused")
	errReset  = temporal.NewApplicationError("the turn's activity was reset; its agent goes on", "ActivityReset")
)

// takenAway is the error of an attempt that an operator took away; nil for any
// other.
func takenAway(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, activity.ErrActivityPaused):
		return errPaused
	case errors.Is(cause, activity.ErrActivityReset):
		return errReset
	}
	return nil
}

// custodyLooks is how often a paused turn is looked at within a lease.
const custodyLooks = 8

// keepPaused lets the agent of a paused turn live on, for as long as Temporal
// says that the turn is paused: no attempt heartbeats for it meanwhile. What
// Temporal answers is as good as an acknowledged heartbeat: while it says so
// nobody has given up this host.
func (h *Host) keepPaused(sessionID string, conn *runner.Conn) {
	for {
		since := runner.BootTime()
		paused, err := h.paused(sessionID)
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
		case <-time.After(h.o.Lease / custodyLooks):
		case <-conn.Done():
			return
		case <-h.ctx.Done():
			return
		}
	}
}

// paused says whether the session's turn is paused.
func (h *Host) paused(sessionID string) (bool, error) {
	ctx, cancel := context.WithTimeout(h.ctx, ackPatience)
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

// leave gives an attempt's error after it left its agent at work, and sees to
// the agent if nobody else does.
func (a *attempt) leave(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), activity.ErrActivityPaused) && a.agent != nil {
		h, id, conn := a.host, a.in.Agent.SessionID, a.agent.conn
		h.after.Go(func() { h.keepPaused(id, conn) })
	}
	var missing *serviceerror.NotFound
	if errors.As(context.Cause(ctx), &missing) {
		h, id := a.host, a.in.Agent.SessionID
		h.after.Go(func() { h.mourn(id) })
	}
	return toApplicationError(cmp.Or(takenAway(ctx), err))
}
