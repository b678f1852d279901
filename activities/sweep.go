package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
)

// SweepEvery is the interval at which a host looks for orphaned sandboxes.
const SweepEvery = time.Minute

// Watch sweeps the host, renews the idle leases of its agents and checks their health,
// periodically, and keeps alive the agents of paused turns that an earlier worker kept,
// until ctx ends.
func (h *Host) Watch(ctx context.Context) {
	var idle sync.WaitGroup
	idle.Go(func() { h.KeepIdleLeases(ctx) })
	idle.Go(func() { h.CheckHealth(ctx) })
	idle.Go(func() { h.Renew(ctx) })
	defer idle.Wait()
	h.KeepAllPaused(ctx)
	host.Every(ctx, SweepEvery, func() {
		if err := h.Sweep(ctx); err != nil && ctx.Err() == nil {
			h.o.Log.Warn("sweep", "error", err)
		}
	})
}

// Sweep ends the host's orphaned sandboxes: those of closed or unknown sessions, those
// fenced by a later epoch, and those that an earlier worker was making when it died. A
// session whose workflow was ended from outside is reconciled first.
func (h *Host) Sweep(ctx context.Context) error {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		return fmt.Errorf("sweep host %s: %w", h.o.ID, err)
	}
	var errs []error
	for _, info := range infos {
		if err := h.sweepOne(ctx, info); err != nil {
			errs = append(errs, fmt.Errorf("sweep sandbox %s: %w", info.SandboxID, err))
		}
	}
	if tidier, ok := h.o.Provider.(sandbox.Tidier); ok {
		left := tidier.Tidy(ctx)
		h.mu.Lock()
		h.left = left
		h.mu.Unlock()
		errs = append(errs, left)
	}
	return errors.Join(errs...)
}

// leftovers returns what the last sweep could not remove, a sentence each.
func (h *Host) leftovers() (sentences []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left == nil {
		return nil
	}
	for line := range strings.Lines(h.left.Error()) {
		sentences = append(sentences, strings.TrimSpace(brief.Truncate(line, leftShown)))
	}
	return sentences
}

func (h *Host) sweepOne(ctx context.Context, info sandbox.Info) error {
	if info.SessionID == "" {
		// Its record is damaged: no caller can find it any more.
		return h.drop(ctx, info)
	}
	// In this order: an epoch that is taken later is not missed.
	found, err := h.statusOf(ctx, info.SessionID)
	if err != nil {
		return err
	}
	newest, err := h.o.Archive.Epoch(ctx, info.SessionID)
	if err != nil {
		return err
	}
	switch {
	case info.Epoch < newest:
		// It is fenced: nothing in it can be written any more.
		return h.drop(ctx, info)
	case found.awaits && !h.madeHere(info.SandboxID):
		// An earlier worker died while it made this one, and the attempt that makes another
		// may wait for its slot.
		return h.drop(ctx, info)
	case found.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, found.status == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		return nil
	case session.TerminationOf(found.status) != "":
		return h.reconcile(ctx, session.TerminatedRun{SessionID: info.SessionID, RunID: found.run})
	}
	_, err = h.endSandbox(ctx, contract.EndSandboxInput{
		Agent: contract.Agent{SessionID: info.SessionID, Name: info.Labels["agent"], Native: 1}, Reason: "unowned",
		Sandbox: session.Sandbox{Host: h.o.ID, ID: info.SandboxID, Provider: info.Provider, Epoch: info.Epoch},
	})
	return err
}

// owner is the state of the workflow of a sandbox's session.
type owner struct {
	// status is 0 if Temporal has no such workflow.
	status enumspb.WorkflowExecutionStatus
	run    string
	// awaits reports whether it waits for a sandbox to be made, so it has none.
	awaits bool
}

func (h *Host) statusOf(ctx context.Context, sessionID string) (owner, error) {
	d, err := h.o.Temporal.DescribeWorkflowExecution(ctx, sessionID, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return owner{}, nil
	}
	if err != nil {
		return owner{}, err
	}
	info := d.GetWorkflowExecutionInfo()
	found := owner{status: info.GetStatus(), run: info.GetExecution().GetRunId()}
	for _, a := range d.GetPendingActivities() {
		found.awaits = found.awaits || a.GetActivityType().GetName() == contract.ActivityCreateSandbox
	}
	return found, nil
}

// madeHere reports whether this process made a sandbox.
func (h *Host) madeHere(sandboxID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.made[sandboxID]
}

func (h *Host) drop(ctx context.Context, info sandbox.Info) error {
	sb, err := h.o.Provider.Open(ctx, info.SandboxID)
	if errors.Is(err, sandbox.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	h.o.Log.Warn("a sandbox that nobody owns is ended", "sandbox", info.SandboxID)
	h.Disconnect(info.SandboxID)
	return h.terminate(ctx, sb)
}

func (h *Host) reconcile(ctx context.Context, d session.TerminatedRun) error {
	if h.o.Reconcile == nil {
		return nil
	}
	return h.o.Reconcile(ctx, d)
}

// reconcilePatience bounds the start of a cleanup, which the next sweep can also do.
const reconcilePatience = 10 * time.Second
