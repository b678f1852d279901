package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/internal/heartbeat"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// Names of the workflow, and of its activity, which is on session.WatchQueue: it waits for as
// long as the agent works.
const (
	MessageType = "AgentMessage"
	ActivityAsk = "AskSession"
)

// Message is sent to one session each time. The session is made the first time, and reopened
// if it was closed.
type Message struct {
	SessionID string `json:"sessionId"`
	// Options are those with which the session is made. Agent is required.
	Options session.Options `json:"options"`
	// Prompt is what the agent is asked.
	Prompt string `json:"prompt"`
}

// Validate returns an error for the first invalid field.
func (m Message) Validate() error {
	if err := (session.Input{SessionID: m.SessionID, Options: m.Options}).Validate(m.SessionID); err != nil {
		return err
	}
	return session.Message{Text: m.Prompt}.Validate()
}

// AskInput is a message with the id under which it is sent.
type AskInput struct {
	Message
	ID string `json:"id"`
}

// MessageWorkflow sends the message, and waits for its answer: so the schedule's rule for
// overlap is about the agent's work. A failed turn is an application error with the code of
// its failure.
func MessageWorkflow(ctx workflow.Context, m Message) (event.QueryResult, error) {
	if err := m.Validate(); err != nil {
		return event.QueryResult{}, session.ToTemporal(err)
	}
	info := workflow.GetInfo(ctx)
	run := cmp.Or(info.OriginalRunID, info.WorkflowExecution.RunID)
	in := AskInput{Message: m, ID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(info.WorkflowExecution.ID+"\x00"+run)).String()}
	opts := timeouts.Watch
	opts.WaitForCancellation = true // it interrupts the agent
	ctx = workflow.WithActivityOptions(ctx, opts)
	var res session.Result
	if err := workflow.ExecuteActivity(ctx, ActivityAsk, in).Get(ctx, &res); err != nil {
		return event.QueryResult{}, session.Typed(fmt.Errorf("session %s: scheduled message: %w", m.SessionID, timeouts.Failure(err)))
	}
	out := event.QueryResult{}
	if res.Result != nil {
		out = *res.Result
	}
	if err := res.Err(); err != nil {
		typ := session.TypeAgentFailed
		if res.Error != nil {
			typ = cmp.Or(res.Error.Code, typ)
		}
		return out, temporal.NewApplicationError(err.Error(), typ, out)
	}
	return out, nil
}

// Activities are those of schedules. Safe for concurrent use.
type Activities struct {
	Sessions *session.Client
}

// Ask opens the session, sends the message and waits for its answer. A message is sent once,
// however often this is tried.
func (a *Activities) Ask(ctx context.Context, in AskInput) (session.Result, error) {
	defer heartbeat.Keep(ctx)()
	h, err := a.Sessions.Open(ctx, in.SessionID, in.Options)
	if err != nil {
		return session.Result{}, session.ToTemporal(err)
	}
	receipt, err := h.Send(ctx, session.Message{ID: in.ID, Text: in.Prompt})
	if err != nil {
		return session.Result{}, session.ToTemporal(err)
	}
	res, err := await(ctx, h, receipt)
	switch {
	case ctx.Err() != nil:
		return res, abortUnwanted(ctx, h.Execution(receipt))
	case err != nil:
		return res, session.ToTemporal(err)
	}
	return res.Fitting(maxResponseBytes), nil
}

// await waits for a message's answer. One that a limit of its session keeps from running is
// cancelled and fails with the limit: it would hold up the schedule's next ones until a person
// raises it, and be asked late.
func await(ctx context.Context, h *session.Handle, receipt session.Receipt) (session.Result, error) {
	limit, err := jobs.AwaitBegin(ctx, h, receipt.MessageID)
	if err != nil {
		return session.Result{}, err
	}
	if limit == "" {
		return h.Wait(ctx, receipt)
	}
	_, err = h.EditQueue(ctx, session.QueueEdit{MessageID: receipt.MessageID, Cancel: true, Reason: limit})
	if began, ok := errors.AsType[*session.InvalidError](err); ok && began.Field == "messageId" {
		return h.Wait(ctx, receipt) // the limit was raised meanwhile
	}
	return session.Result{
		ExecutionID: receipt.ExecutionID, MessageID: receipt.MessageID, Outcome: session.Interrupted, Reason: limit,
		Error: &event.ErrorInfo{Code: session.TypeLimit, Message: limit},
	}, err
}

// abortUnwanted interrupts the message of an attempt that has ended, if its workflow was
// cancelled or ended: the next one replaces it, or a person wants it no more. The attempt of a
// worker that stops, or that Temporal has given up, leaves it to the next attempt. It returns
// the error of the attempt.
func abortUnwanted(ctx context.Context, e *session.Execution) error {
	ended := ctx.Err()
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortPatience)
	defer cancel()
	unwanted, err := isUnwanted(short, context.Cause(ctx))
	if err == nil && unwanted {
		err = e.Abort(short, "its schedule cancelled it")
	}
	return errors.Join(ended, err)
}

// isUnwanted reports whether no attempt will follow one that ended by the given cause.
func isUnwanted(ctx context.Context, cause error) (bool, error) {
	if temporal.IsCanceledError(cause) {
		return true, nil
	}
	if _, unknown := errors.AsType[*serviceerror.NotFound](cause); !unknown {
		return false, nil
	}
	of := activity.GetInfo(ctx).WorkflowExecution
	d, err := activity.GetClient(ctx).DescribeWorkflowExecution(ctx, of.ID, of.RunID)
	if err != nil {
		return false, fmt.Errorf("workflow %s: %w", of.ID, err)
	}
	return d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// maxResponseBytes bounds the response in the workflow's result, as JSON. The session's
// conversation has all of it.
const maxResponseBytes = 256 << 10

// abortPatience bounds the interrupt of a message that is cancelled.
const abortPatience = 30 * time.Second

// ByName returns the activities of session.WatchQueue by the names under which they are
// registered.
func (a *Activities) ByName() map[string]any { return map[string]any{ActivityAsk: a.Ask} }
