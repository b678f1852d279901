package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/stream"
)

// Execution addresses one execution of a session: a message and its answer. It is two ids
// and holds no resources: dropping it does not affect the execution, and any process finds
// it again with FindExecution. Safe for concurrent use.
type Execution struct {
	h       *Handle
	receipt Receipt
}

// Execution returns the execution of a receipt, which Send returned to this process or to
// another.
func (h *Handle) Execution(r Receipt) *Execution { return &Execution{h: h, receipt: r} }

// FindExecution finds an execution by its id or its message's, while it waits, while it
// runs and after it has ended. Error: a NoMessageError for one that the session never had or has
// dropped: it keeps the last KeptReceipts.
func (h *Handle) FindExecution(ctx context.Context, id string) (*Execution, error) {
	var r Receipt
	if err := h.query(ctx, QueryReceipt, &r, id); err != nil {
		return nil, err
	}
	return h.Execution(r), nil
}

// Receipt returns the execution's ids, and its session's.
func (x *Execution) Receipt() Receipt { return x.receipt }

// Events yields the session's events from the execution's start on, each once and in order;
// those of a message that was handed to the running turn, from its receipt on. The last one
// is the execution's end. Breaking off the loop does not affect the execution.
// An error is the last element: ErrClosed if the session closed without that end, or a gap,
// if the stream no longer has the start; Wait returns the result nevertheless.
func (x *Execution) Events(ctx context.Context) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if _, ended, _ := x.h.purgedResult(ctx, x.receipt); ended {
			gap := &stream.GapError{SessionID: x.h.id, Want: x.receipt.AfterSeq + 1, Purged: true}
			yield(event.Event{}, fmt.Errorf("events of execution %s: %w", x.receipt.ExecutionID, gap))
			return
		}
		begun := x.receipt.Handling == HandlingHanded
		for ev, err := range x.h.Events(ctx, x.receipt.AfterSeq, Follow) {
			if err != nil {
				yield(event.Event{}, fmt.Errorf("events of execution %s: %w", x.receipt.ExecutionID, err))
				return
			}
			_, ended := ResultOf(ev, x.receipt.MessageID)
			begun = begun || ended || x.begins(ev)
			if begun && !yield(ev, nil) || ended {
				return
			}
		}
		yield(event.Event{}, fmt.Errorf("events of execution %s: session %s: %w", x.receipt.ExecutionID, x.h.id, ErrClosed))
	}
}

// begins reports whether an event starts the execution, or folds its message into another
// one.
func (x *Execution) begins(ev event.Event) bool {
	switch p := ev.Payload.(type) {
	case event.QueryStarted:
		return slices.Contains(p.MessageIDs, x.receipt.MessageID)
	case event.MessageFolded:
		return p.MessageID == x.receipt.MessageID
	}
	return false
}

// ExecutionResult is the result of an execution.
type ExecutionResult struct {
	// Response is the last text of the agent, whole.
	Response string `json:"response"`
	// Outputs are the blocks of the main conversation that began in the execution, including
	// its message, in order; nil if the stream no longer has them. They start where a
	// message was folded into another execution.
	Outputs []event.Block `json:"outputs"`
	// Usage is nil for an execution that failed.
	Usage *event.Usage `json:"usage,omitempty"`
	// StopReason is the agent's own reason why it stopped, or max_ticks.
	StopReason string `json:"stopReason,omitempty"`
	// Raw is the end as the session has it.
	Raw Result `json:"raw"`
}

// Wait waits for the execution's end, as Handle.Wait does, and returns its result, with the
// blocks in memory. The error is about the waiting only: Raw.Err returns how the execution
// ended.
func (x *Execution) Wait(ctx context.Context) (ExecutionResult, error) {
	made, begun := newOutputs(), false
	res, err := x.h.Watch(ctx, x.receipt, func(ev event.Event) {
		if begun = begun || x.begins(ev); begun {
			made.add(ev)
		}
	})
	if err != nil {
		return ExecutionResult{}, err
	}
	out := ExecutionResult{Raw: res}
	if begun {
		out.Outputs = made.blocks()
	}
	if r := res.Result; r != nil {
		out.Response, out.Usage, out.StopReason = r.Response, &r.Usage, r.StopReason
	}
	return out, nil
}

// CurrentTick returns the number of the execution's current model call, from 1; nil while
// it does not run, and for an agent that reports none.
func (x *Execution) CurrentTick(ctx context.Context) (*int, error) {
	i, err := x.h.Inspect(ctx)
	if err != nil || i.CurrentExecution != x.receipt.ExecutionID {
		return nil, err
	}
	return i.CurrentTick, nil
}

// Abort ends the execution: it is interrupted while it runs, with the session's children,
// and cancelled while it waits. It has no effect on one that has ended. It returns when the
// session has accepted it.
func (x *Execution) Abort(ctx context.Context, reason string) error {
	interrupt := func() error {
		_, err := x.h.Interrupt(ctx, InterruptRequest{ExecutionID: x.receipt.ExecutionID, Reason: reason})
		return err
	}
	cancel := func() error {
		_, err := x.h.EditQueue(ctx, QueueEdit{MessageID: x.receipt.MessageID, Cancel: true, Reason: reason})
		return err
	}
	var err error
	// The second interrupt is for one that started between the two.
	for _, end := range []func() error{interrupt, cancel, interrupt} {
		var wrong *InvalidError
		if err = end(); !errors.As(err, &wrong) || wrong.Field != "executionId" && wrong.Field != "messageId" {
			return err
		}
	}
	if _, ended := x.h.Result(ctx, x.receipt.ExecutionID); ended == nil {
		return nil
	}
	return err
}

// Queue sends a message to be answered after this execution and those that wait.
func (x *Execution) Queue(ctx context.Context, m Message) (Receipt, error) {
	m.WhenBusy = BusyQueue
	return x.h.Send(ctx, m)
}

// ToolResult is a person's answer to a tool call that waits for it.
type ToolResult struct {
	Approved bool `json:"approved"`
	// Reason is sent to the agent with a denial.
	Reason string `json:"reason,omitempty"`
	// ModifiedArguments replace the tool's input. Default: the agent's input.
	ModifiedArguments json.RawMessage `json:"modifiedArguments,omitempty"`
}

// SubmitToolResult answers a permission request of the execution, by the id in its
// permission:requested event. It returns when the turn has taken it.
func (x *Execution) SubmitToolResult(ctx context.Context, requestID string, r ToolResult) error {
	return x.h.Respond(ctx, RespondRequest{RequestID: requestID, Allow: r.Approved, Message: r.Reason, Input: r.ModifiedArguments})
}
