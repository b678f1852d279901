package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// Reconciler cleans up after sessions whose workflow was ended from outside, and after lost
// hosts.
type Reconciler struct {
	Temporal client.Client
	Stream   *stream.Log
	Archive  *archive.Archive
	// Agents read the archived transcripts of a session whose host is lost.
	Agents adapters.Registry
}

// DescribeTerminated reads from Temporal how a session ended, and from its workflow, which
// answers queries when it is closed too, its final state.
func (r *Reconciler) DescribeTerminated(ctx context.Context, run session.TerminatedRun) (contract.DescribeTerminatedOutput, error) {
	out, err := r.describe(ctx, run)
	return out, toApplicationError(err)
}

func (r *Reconciler) describe(ctx context.Context, run session.TerminatedRun) (out contract.DescribeTerminatedOutput, err error) {
	if out.Termination, err = r.termination(ctx, run); err != nil || out.Termination == "" {
		return out, err
	}
	if out.State, err = r.finalState(ctx, run); err != nil {
		return out, err
	}
	indexed, err := r.children(ctx, run.SessionID)
	if err != nil {
		return out, err
	}
	out.State.Children = append(out.State.Children, indexed...)
	unread, err := r.unread(ctx, run)
	for _, m := range unread {
		if !slices.ContainsFunc(out.State.Waiting, func(known contract.PendingMessage) bool { return known.MessageID == m.MessageID }) {
			out.State.Waiting = append(out.State.Waiting, m)
		}
	}
	return out, err
}

// finalState returns the workflow's final state, or what can be known of it otherwise.
func (r *Reconciler) finalState(ctx context.Context, run session.TerminatedRun) (st contract.FinalState, err error) {
	answer, err := r.Temporal.QueryWorkflow(ctx, run.SessionID, run.RunID, session.QueryFinalState)
	if err == nil {
		return st, answer.Get(&st)
	}
	var failed *serviceerror.QueryFailed
	var early *serviceerror.WorkflowNotReady
	if !errors.As(err, &failed) && !errors.As(err, &early) || busy(failed) {
		return st, err
	}
	return r.initialState(ctx, run)
}

// deadlockCode is the prefix of a worker's error for a workflow that ran longer than its
// deadlock detector allows; see docs.temporal.io/references/errors.
const deadlockCode = "[TMPRL1101]"

// busy reports whether a query failed because its worker was busy: a retry may succeed.
func busy(failed *serviceerror.QueryFailed) bool {
	return failed != nil && strings.Contains(failed.Message, deadlockCode)
}

// unread returns the messages of signals after the last workflow task that completed: the
// workflow was ended before it saw them. A signal that is not a message is left out.
func (r *Reconciler) unread(ctx context.Context, run session.TerminatedRun) (out []contract.PendingMessage, err error) {
	events := r.Temporal.GetWorkflowHistory(ctx, run.SessionID, run.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		ev, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("read the history of session %s: %w", run.SessionID, err)
		}
		if ev.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			out = nil
		}
		signal := ev.GetWorkflowExecutionSignaledEventAttributes()
		if name := signal.GetSignalName(); name != session.SignalMessage && name != session.SignalQueue {
			continue
		}
		m, err := session.MessageOf(ctx, r.Archive, signal.GetInput())
		if invalid := (*session.InvalidError)(nil); errors.As(err, &invalid) {
			continue
		}
		if err != nil {
			return nil, err
		}
		id := cmp.Or(m.ID, fmt.Sprintf("signal-%d", ev.GetEventId()))
		out = append(out, contract.PendingMessage{ExecutionID: "unread-" + id, MessageID: id, Title: brief.Truncate(m.Text, 60)})
	}
	return out, nil
}

// initialState returns the state of a session whose workflow can't answer: it never ran, or
// can't be replayed. It is made from the session's input, and its record if there is one.
func (r *Reconciler) initialState(ctx context.Context, run session.TerminatedRun) (contract.FinalState, error) {
	var made session.Input
	first, err := r.Temporal.GetWorkflowHistory(ctx, run.SessionID, run.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
	if err == nil {
		made, err = session.InputOf(ctx, r.Archive, first.GetWorkflowExecutionStartedEventAttributes().GetInput())
	}
	if err != nil {
		return contract.FinalState{}, fmt.Errorf("read the input of session %s: %w", run.SessionID, err)
	}
	st := contract.FinalState{Unlisted: made.Unlisted()}
	if m := made.First; m != nil {
		st.Waiting = []contract.PendingMessage{{ExecutionID: session.FirstExecution, MessageID: m.ID, Title: brief.Truncate(m.Text, 60)}}
	}
	st.Record, err = r.record(ctx, run.SessionID)
	if errors.Is(err, archive.ErrNotFound) {
		st.Record, err = session.Record{Options: made.Options, Native: 1, Executions: made.Executions, LastSeq: made.LastSeq}, nil
	}
	st.Agent = contract.Agent{SessionID: run.SessionID, Name: made.Options.Agent, Native: max(st.Record.Native, 1)}
	return st, err
}

// children returns the children of a session by Temporal's index, because the session's
// workflow may be unable to answer. The index may lag.
func (r *Reconciler) children(ctx context.Context, id string) (ids []string, err error) {
	page, err := r.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("%s = '%s' AND ExecutionStatus = 'Running'", session.AttrParent.GetName(), id), PageSize: 2 * session.MaxChildren,
	})
	if err != nil {
		return nil, fmt.Errorf("list the children of session %s: %w", id, err)
	}
	for _, info := range page.GetExecutions() {
		ids = append(ids, info.GetExecution().GetWorkflowId())
	}
	return ids, nil
}

// termination returns how a run was ended from outside; "" if it was not, or is no longer
// the session's last.
func (r *Reconciler) termination(ctx context.Context, run session.TerminatedRun) (session.Termination, error) {
	d, err := r.Temporal.DescribeWorkflowExecution(ctx, run.SessionID, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	info := d.GetWorkflowExecutionInfo()
	if info.GetExecution().GetRunId() != run.RunID {
		return "", nil
	}
	return session.TerminationOf(info.GetStatus()), nil
}

func (r *Reconciler) record(ctx context.Context, id string) (session.Record, error) {
	data, err := r.Archive.Session(ctx, id)
	if err != nil {
		return session.Record{}, err
	}
	return session.RecordOf(data)
}

// visibilityLag is how long after its end a workflow may be first listed as ended.
const visibilityLag = 10 * time.Minute

// ReconcileTerminated starts the cleanup of every session that was terminated since
// in.After. A session that is found again is not cleaned up again.
func (r *Reconciler) ReconcileTerminated(ctx context.Context, in contract.ReconcileTerminatedInput) (contract.ReconcileTerminatedOutput, error) {
	out := contract.ReconcileTerminatedOutput{Next: time.Now().UTC().Add(-visibilityLag)}
	query := "WorkflowType = '" + session.WorkflowType + "' AND ExecutionStatus IN ('Terminated', 'Failed', 'TimedOut', 'Canceled')"
	if !in.After.IsZero() {
		query += " AND CloseTime >= '" + in.After.UTC().Format(time.RFC3339) + "'"
	}
	for info, err := range r.list(ctx, query) {
		if err != nil {
			return out, fmt.Errorf("list terminated sessions: %w", err)
		}
		run := session.TerminatedRun{SessionID: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId()}
		if session.ValidateID("id", run.SessionID) != nil {
			continue // Anyone may start a workflow of our type under any id.
		}
		t, err := r.termination(ctx, run)
		if err == nil && t != "" {
			out.Found++
			err = session.Reconcile(ctx, r.Temporal, run)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// list yields the workflows of Temporal's index that match a query. The error ends it.
func (r *Reconciler) list(ctx context.Context, query string) iter.Seq2[*workflowpb.WorkflowExecutionInfo, error] {
	return func(yield func(*workflowpb.WorkflowExecutionInfo, error) bool) {
		var token []byte
		for more := true; more; more = len(token) > 0 {
			page, err := r.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, NextPageToken: token})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, info := range page.GetExecutions() {
				if !yield(info, nil) {
					return
				}
			}
			token = page.GetNextPageToken()
		}
	}
}
