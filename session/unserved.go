package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
)

// StateVersion is the version of what the workflow carries from run to run (Input and
// State). It is increased when a build from before the change would lose or misread
// something; a field that may be ignored does not count.
const StateVersion = 4

// CheckVersion refuses an input that a newer build wrote. The error shows in the
// workflow's failed task; the session is not changed.
func (in Input) CheckVersion() error {
	if in.Version <= StateVersion {
		return nil
	}
	return fmt.Errorf("session %s has state version %d, this build understands %d: run a worker of a newer build", in.SessionID, in.Version, StateVersion)
}

// UnservedError is a session whose worker fails its workflow task: its build is
// older than the one that the session ran on, or has a defect. The session is not
// changed and continues with a worker that can run it. The request may still be
// done then.
type UnservedError struct {
	// Worker is the identity of the worker that failed; "" when that is not known.
	Worker string
	// Reason is the failure as the worker reported it, truncated.
	Reason string
}

func (e *UnservedError) Error() string {
	if e.Worker == "" {
		return "no worker can run the session now: " + e.Reason
	}
	return fmt.Sprintf("worker %s can't run the session: %s", e.Worker, e.Reason)
}

// Hint returns what can be done, for a command line's second line.
func (e *UnservedError) Hint() string {
	return "run workers of the build that the session ran on last, or a newer one, and try again in some seconds; the session waits and loses nothing"
}

const (
	// unservedLook is how often a request that waits for the session's workflow
	// checks whether a worker can run it.
	unservedLook = time.Second
	// unservedAttempts is how many failures in a row count: the first one may be from
	// a worker that was being replaced.
	unservedAttempts = 3
	// attributesNoticed is how long a workflow task may be refused for its search
	// attributes without being counted as failed: the parts of a Temporal server notice
	// those that were added to a namespace one after another, each within 2 to 10 seconds
	// (system.namespaceCacheRefreshInterval).
	attributesNoticed = 15 * time.Second
	// unservedReason bounds Reason, in bytes.
	unservedReason = 400
)

// whileServed returns a context that ends with an *UnservedError when the
// session's workers fail its workflow task. The caller must call stop, which
// returns err, or that error instead.
func (h *Handle) whileServed(parent context.Context) (ctx context.Context, stop func(err error) error) {
	ctx, cancel := context.WithCancelCause(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		again := time.NewTicker(unservedLook)
		defer again.Stop()
		for {
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
			if fault := h.unserved(ctx); fault != nil {
				cancel(fault)
				return
			}
		}
	}()
	return ctx, func(err error) error {
		if fault := h.refusal(parent, context.Cause(ctx), err); fault != nil {
			err = fmt.Errorf("session %s: %w", h.id, fault)
		}
		cancel(nil)
		<-done
		return err
	}
}

// refusal returns why a request failed if its session has no worker that can run
// it, nil otherwise: what was found while it waited, or, if the task has failed
// for so long that Temporal accepts no request, the session's current state.
func (h *Handle) refusal(ctx context.Context, found, err error) *UnservedError {
	var fault *UnservedError
	var notReady *serviceerror.WorkflowNotReady
	switch {
	case err == nil:
	case errors.As(found, &fault):
	case errors.As(err, &notReady):
		if fault = h.unserved(ctx); fault == nil {
			fault = &UnservedError{Reason: notReady.Message}
		}
	}
	return fault
}

// unserved returns why workers fail the session's workflow task; nil if they
// don't, or if Temporal does not answer.
func (h *Handle) unserved(ctx context.Context) *UnservedError {
	t := h.c.o.Temporal
	d, err := t.DescribeWorkflowExecution(ctx, h.id, "")
	if err != nil || d.GetPendingWorkflowTask().GetAttempt() < unservedAttempts {
		return nil
	}
	// The attempts after the first are not in history: its failure is the last
	// task there.
	var last *historypb.HistoryEvent
	events := t.GetWorkflowHistory(ctx, h.id, d.GetWorkflowExecutionInfo().GetExecution().GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		ev, err := events.Next()
		if err != nil {
			return nil
		}
		switch ev.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
			last = ev
		}
	}
	return failedTask(last, d.GetPendingWorkflowTask().GetScheduledTime().AsTime())
}

// failedTask returns how a workflow task, whose latest attempt was scheduled at the given
// time, failed because its worker can't run it; nil for another failure, which is
// transient, and for none.
func failedTask(first *historypb.HistoryEvent, latest time.Time) *UnservedError {
	failed := first.GetWorkflowTaskFailedEventAttributes()
	switch failed.GetCause() {
	case enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR, enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE:
	case enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SEARCH_ATTRIBUTES:
		if latest.Sub(first.GetEventTime().AsTime()) < attributesNoticed {
			return nil
		}
	default:
		return nil
	}
	return &UnservedError{Worker: failed.GetIdentity(), Reason: cutText(failed.GetFailure().GetMessage(), unservedReason)}
}

// cutText returns a text as one line of at most n bytes.
func cutText(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
