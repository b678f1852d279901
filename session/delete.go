package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/stream"
)

// Delete deletes a closed session for good: record, transcripts, workspace and messages in
// the archive, its events, and its runs and calls of tools in Temporal, which takes them out of
// lists a moment later. Its child sessions are sessions of their own. After an error it may be called again.
// Errors: ErrNotFound, and ErrBusy for a session that is open.
func (c *Client) Delete(ctx context.Context, id string) error {
	if err := ValidateID("id", id); err != nil {
		return err
	}
	if c.o.Archive == nil || c.o.Stream == nil {
		return fmt.Errorf("delete session %s: archive and stream are both needed", id)
	}
	known, err := c.lookup(ctx, id)
	switch {
	case err != nil:
		return err
	case known.open:
		return fmt.Errorf("delete session %s: it is open, close it first: %w", id, ErrBusy)
	case known.terminated:
		// What cleans up after it would write its record again.
		if err := c.awaitReconciled(ctx, TerminatedRun{SessionID: id, RunID: known.run}); err != nil {
			return err
		}
	}
	if err := c.o.Archive.DeleteSession(ctx, id); err != nil {
		return err
	}
	if err := c.o.Stream.Purge(ctx, id); err != nil {
		return err
	}
	if err = c.deleteToolCalls(ctx, id); err == nil {
		err = c.deleteRuns(ctx, id, known.run)
	}
	if err != nil {
		return c.unavailable(ctx, "delete session "+id, err)
	}
	return c.o.Stream.Changed(ctx, id, stream.ChangeDeleted)
}

// deleteRuns deletes the histories of a session's runs, the newest last: the session is found by
// it after an error. Temporal's index may not have that one yet.
func (c *Client) deleteRuns(ctx context.Context, id, newest string) error {
	runs, err := c.runs(ctx, id)
	if err != nil {
		return err
	}
	runs = slices.DeleteFunc(runs, func(run string) bool { return run == newest })
	if newest != "" {
		runs = append(runs, newest)
	}
	for _, run := range runs {
		if err := c.deleteRun(ctx, &commonpb.WorkflowExecution{WorkflowId: id, RunId: run}); err != nil {
			return err
		}
	}
	return nil
}

// deleteToolCalls deletes the calls of programs' tools, with what was asked and answered.
func (c *Client) deleteToolCalls(ctx context.Context, id string) error {
	calls, err := c.executions(ctx, "WorkflowId STARTS_WITH '"+ToolCallPrefix+id+"/'")
	for _, call := range calls {
		err = errors.Join(err, c.deleteRun(ctx, call))
	}
	return err
}

func (c *Client) deleteRun(ctx context.Context, run *commonpb.WorkflowExecution) error {
	_, err := c.o.Temporal.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: cmp.Or(c.o.Namespace, client.DefaultNamespace), WorkflowExecution: run,
	})
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return nil
	}
	return err
}

// runs returns the ids of a session's runs that Temporal's index has.
func (c *Client) runs(ctx context.Context, id string) (runs []string, err error) {
	all, err := c.executions(ctx, "WorkflowId = '"+id+"' AND WorkflowType = '"+WorkflowType+"'")
	for _, run := range all {
		runs = append(runs, run.GetRunId())
	}
	return runs, err
}

// executions returns what Temporal's index has for a query.
func (c *Client) executions(ctx context.Context, query string) (all []*commonpb.WorkflowExecution, err error) {
	var token []byte
	for more := true; more; more = len(token) > 0 {
		reply, err := c.o.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000, NextPageToken: token, Query: query})
		if err != nil {
			return all, err
		}
		for _, info := range reply.GetExecutions() {
			all = append(all, info.GetExecution())
		}
		token = reply.GetNextPageToken()
	}
	return all, nil
}
