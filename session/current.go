package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/stream"
)

// The stream has the end of an execution before the workflow does, and the
// workflow's search attributes are in Temporal's index a moment later still.
// This file makes what a caller reads next no older than the answer it has.

const (
	// statePatience bounds how long AwaitState waits: the answer is final, and no
	// worker may be there.
	statePatience = 10 * time.Second
	// statePoll and statePollMost are the first and the longest pause between two
	// questions to the workflow.
	statePoll     = 5 * time.Millisecond
	statePollMost = 250 * time.Millisecond
)

// AwaitState returns when the session's own state has the end of an execution
// that the stream has: status, totals, and what a new message is checked
// against. Wait does this before it returns; it is for callers that read the end
// in Events. With no worker it returns after 10 seconds.
func (h *Handle) AwaitState(ctx context.Context, executionID string) {
	ctx, cancel := context.WithTimeout(ctx, statePatience)
	defer cancel()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for wait := statePoll; ; wait = min(2*wait, statePollMost) {
		if _, err := h.Result(ctx, executionID); !errors.Is(err, ErrBusy) {
			return
		}
		pause.Reset(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// endTaken reports whether the execution that made the session refuse a message
// as busy has ended, once the workflow has taken its end too.
func (h *Handle) endTaken(ctx context.Context) bool {
	if h.c.o.Stream == nil {
		return false
	}
	now, err := h.Inspect(ctx)
	if err != nil || len(now.Queued) > 0 {
		return false
	}
	if now.CurrentExecution == "" {
		return true
	}
	if !h.hasEnd(ctx, now.CurrentExecution) {
		return false
	}
	h.AwaitState(ctx, now.CurrentExecution)
	return true
}

// endWithin is how many events at most follow the end of a session's last
// execution: what its archiving says, and Sojourn's own notices.
const endWithin = 256

// hasEnd reports whether the end of an execution is among the stream's last
// events.
func (h *Handle) hasEnd(ctx context.Context, executionID string) bool {
	tail, err := h.c.o.Stream.Tail(ctx, h.id)
	if err != nil {
		return false
	}
	from := tail.LastSeq - min(tail.LastSeq, endWithin)
	for ev, err := range h.c.o.Stream.Read(ctx, h.id, from, stream.ReadOptions{}) {
		if err != nil {
			return false
		}
		if q, _, ended := endOf(ev); ended && q.ExecutionID == executionID {
			return true
		}
	}
	return false
}

// describesAtOnce bounds the concurrent requests for the sessions of one page.
const describesAtOnce = 16

// refresh replaces the index's entries of sessions at work by what Temporal has
// of them now. An idle session's entry changes only with a new message.
func (c *Client) refresh(ctx context.Context, listed []*workflowpb.WorkflowExecutionInfo) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(describesAtOnce)
	for i, info := range listed {
		if !atWork(info) {
			continue
		}
		g.Go(func() error {
			id := info.GetExecution()
			d, err := c.o.Temporal.DescribeWorkflowExecution(ctx, id.GetWorkflowId(), id.GetRunId())
			var missing *serviceerror.NotFound
			switch {
			case errors.As(err, &missing):
				return nil
			case err != nil:
				return c.unavailable(fmt.Sprintf("look up session %s", id.GetWorkflowId()), err)
			}
			listed[i] = d.GetWorkflowExecutionInfo()
			return nil
		})
	}
	return g.Wait()
}

// atWork reports whether the index says that a session runs or waits in a turn.
func atWork(info *workflowpb.WorkflowExecutionInfo) bool {
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return false
	}
	var status Status
	if err := attribute(info.GetSearchAttributes(), AttrStatus.GetName(), &status); err != nil {
		return false
	}
	return status != StatusIdle
}
