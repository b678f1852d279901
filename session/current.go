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

// The stream has the end of an execution before the workflow does, and Temporal's
// index of search attributes lags further behind. This file ensures that what a
// caller reads next is no older than the answer it has.

const (
	// statePatience is how long AwaitState waits for a worker that does not answer: the
	// execution's result is final. A busy one may take longer than one try of Temporal's SDK,
	// which is ten seconds.
	statePatience = 30 * time.Second
	// statePoll and statePollMost are the first and the longest pause between two
	// queries of the workflow. Up to statePollSoon they double, then they are a quarter of
	// what was waited already: who waits for Claude Code, which writes its transcript a
	// tenth of a second after its answer, does not wait as long again.
	statePoll     = 5 * time.Millisecond
	statePollSoon = 20 * time.Millisecond
	statePollMost = 250 * time.Millisecond
)

// AwaitState returns when the session's own state has the end of an execution
// that the stream has: status, totals, and the data that a new message is
// validated against. Wait does this before it returns; it is for callers that
// read the end in Events. It waits neither for a worker that answers nothing for
// 30 seconds, nor for a session that was terminated.
func (h *Handle) AwaitState(ctx context.Context, executionID string) {
	began := time.Now()
	for wait := statePoll; h.isBusyWith(ctx, executionID); wait = min(2*wait, max(statePollSoon, time.Since(began)/4), statePollMost) {
		if wait == statePollMost && h.live(ctx) != nil {
			return // it would answer so for ever
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// isBusyWith reports whether the session says that an execution has not ended.
func (h *Handle) isBusyWith(ctx context.Context, executionID string) bool {
	ctx, cancel := context.WithTimeout(ctx, statePatience)
	defer cancel()
	_, err := h.Result(ctx, executionID)
	return errors.Is(err, ErrBusy)
}

// AwaitIdle returns when nothing runs in the session and no message is queued to
// run, with the session as it is then. Children may be running. The client needs
// a stream. Errors: ErrClosed, and ErrPaused if a limit keeps queued messages
// from running.
func (h *Handle) AwaitIdle(ctx context.Context) (Snapshot, error) {
	for {
		now, err := h.Inspect(ctx)
		switch {
		case err != nil:
			return Snapshot{}, err
		case now.Status == StatusClosed:
			return now.Snapshot, fmt.Errorf("session %s: %w", h.id, ErrClosed)
		case now.CurrentExecution != "":
			_, err = h.AwaitEnd(ctx, now.CurrentExecution)
		case now.Status == StatusPaused:
			return now.Snapshot, fmt.Errorf("session %s: %w: %s", h.id, ErrPaused, now.WaitsFor)
		case now.Phase == phaseIdle:
			return now.Snapshot, nil
		default:
			err = sleep(ctx, statePollMost)
		}
		if err != nil {
			return Snapshot{}, fmt.Errorf("wait until session %s is idle: %w", h.id, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AwaitEnd is like Wait for an execution with its id, or with the id of one of its
// messages. Error: a NoMessageError for one that the session does not have.
func (h *Handle) AwaitEnd(ctx context.Context, id string) (Result, error) {
	res, err := h.Result(ctx, id)
	if errors.Is(err, ErrBusy) {
		x, err := h.FindExecution(ctx, id)
		if err != nil {
			return Result{}, err
		}
		return h.Wait(ctx, x.receipt) // the end may be in the stream already, before what the session has last
	}
	if err != nil {
		return Result{}, err
	}
	return h.whole(ctx, 0, res)
}

// endTaken reports whether the execution for which the session refused a message
// as busy has ended, once the workflow has recorded its end too.
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
// execution: those of archiving, and Sojourn's notices.
const endWithin = 256

// hasEnd reports whether the end of an execution is among the stream's last events.
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

// refresh returns the index's entries of a page. Those of open sessions, and of a run that is
// not the latest, are what Temporal has of the session's newest run now: the run in the index
// may have continued as new, and the index may be behind by a whole turn.
func (c *Client) refresh(ctx context.Context, page []*workflowpb.WorkflowExecutionInfo, latest map[string]string) ([]*described, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(describesAtOnce)
	now := make([]*described, len(page))
	for i, info := range page {
		now[i] = &described{WorkflowExecutionInfo: info}
		id := info.GetExecution()
		open := info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		if !open && latest[id.GetWorkflowId()] == id.GetRunId() {
			continue
		}
		g.Go(func() error {
			d, err := c.o.Temporal.DescribeWorkflowExecution(ctx, id.GetWorkflowId(), "")
			var missing *serviceerror.NotFound
			switch {
			case errors.As(err, &missing):
				return nil
			case err != nil:
				return c.unavailable(ctx, fmt.Sprintf("look up session %s", id.GetWorkflowId()), err)
			}
			now[i] = d
			return nil
		})
	}
	return now, g.Wait()
}
