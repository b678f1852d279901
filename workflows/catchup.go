package workflows

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// The stream wins. A run can be behind its session's stream: an operator reset the workflow
// to an earlier point, or an activity took an epoch and its result was lost. An activity of
// such a run is refused as fenced. The run then does one thing, whatever it was about to
// do: it takes over the session's state from the stream, under a new epoch unless its
// sandbox is live, and retries. A run that may not have its newest epoch, and is behind in
// nothing else, takes a new one with its next write; see epochUnknown.

// maxCatchUps bounds how often in a row a run finds that it is behind.
const maxCatchUps = 8

// errAnswered is the error for a needless write: the stream has the end of the running
// execution.
var errAnswered = errors.New("the execution has ended already")

// wasReset reports whether an operator's reset made this run. It is for activities' inputs
// only: before the reset's point the earlier run decided differently.
func (r *run) wasReset() bool {
	info := workflow.GetInfo(r.ctx)
	return info.OriginalRunID != "" && info.OriginalRunID != info.WorkflowExecution.RunID
}

func isFenced(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == session.TypeFenced
}

// catchUp brings a run up to date whose activity was refused because the run is behind. It
// reports whether to retry.
func (r *run) catchUp(ctx workflow.Context, refused error) bool {
	if !isFenced(refused) || r.catchUps >= maxCatchUps {
		return false
	}
	r.catchUps++
	in := contract.CatchUpInput{
		SessionID: r.in.SessionID, Agent: r.in.Options.Agent, RunID: workflow.GetInfo(ctx).WorkflowExecution.RunID,
		LastSeq: r.st.LastSeq, Anchor: r.st.LastBlockID, Sandbox: r.st.Sandbox, Record: !r.begun && r.in.Reopened,
	}
	ctx = workflow.WithActivityOptions(ctx, timeouts.Write)
	var out contract.CatchUpOutput
	if err := workflow.ExecuteActivity(ctx, contract.ActivityCatchUp, in).Get(ctx, &out); err != nil {
		workflow.GetLogger(ctx).Error("the run could not catch up with its stream", "error", err)
		return false
	}
	r.takeOverStream(out)
	return true
}

// takeOverStream makes the state agree with the stream. Messages that were answered get the
// result that is in the stream and never run again.
func (r *run) takeOverStream(out contract.CatchUpOutput) {
	r.recall(out.Record)
	st := r.st
	before := st.LastSeq
	st.Epoch, st.Sandbox, st.MinTurn, r.epochUnknown = out.Epoch, out.Sandbox, out.MinTurn, false
	st.Executions = max(st.Executions, out.Executions)
	r.advance(out.LastSeq, out.LastBlockID)
	if out.LastBlock != "" {
		st.LastBlock = out.LastBlock
	}
	for _, res := range out.Results {
		r.takeOverResult(res, before)
	}
	r.running = out.Running
	switch run := out.Running; {
	case r.cur != nil && r.takeOverStart():
		r.cur.asked = out.Sandbox != nil
	case run != nil && !r.awaits(run.MessageID):
		r.failUnknown(*run)
	}
	r.publish()
}

// takeOverResult records an execution that an earlier run has ended.
func (r *run) takeOverResult(res session.Result, before uint64) {
	st := r.st
	if slices.ContainsFunc(st.Results, func(k session.Result) bool { return k.MessageID == res.MessageID }) {
		return
	}
	if r.cur != nil && r.cur.queued.Message.ID == res.MessageID {
		r.cur.found = &res
		return
	}
	st.Queue = slices.DeleteFunc(st.Queue, func(q session.Queued) bool { return q.Message.ID == res.MessageID })
	if _, known := r.known(res.MessageID); !known {
		r.st.Remember(session.Receipt{SessionID: r.in.SessionID, MessageID: res.MessageID, ExecutionID: res.ExecutionID, AfterSeq: before})
	}
	r.addResult(contract.OutputOf(res))
}

// awaits reports whether a message is running or queued.
func (r *run) awaits(messageID string) bool {
	return r.cur != nil && r.cur.queued.Message.ID == messageID || r.st.Queue.Find(messageID) >= 0
}

// failUnknown fails a running execution whose message this run never had: the reset left it
// out. Its sandbox is given up, and the agent with it, under a higher epoch.
func (r *run) failUnknown(run contract.Running) {
	info := event.ErrorInfo{Message: "the session's workflow was reset to before this message, without it", Code: session.TypeTerminated}
	res := session.Result{ExecutionID: run.ExecutionID, MessageID: run.MessageID, Outcome: session.Failed, Error: &info}
	r.st.Remember(session.Receipt{SessionID: r.in.SessionID, MessageID: run.MessageID, ExecutionID: run.ExecutionID, AfterSeq: run.AfterSeq})
	r.addResult(contract.OutputOf(res))
	r.st.Sandbox, r.running, r.epochUnknown = nil, nil, true
	r.notify(res.FailureBlock(), res.Ends())
}

// emit appends server events under the run's epoch, or under a new one if its own may not
// be the newest. Any coroutine may call it, with its own ctx. If the stream has what makes it
// needless the error is errAnswered.
func (r *run) emit(ctx workflow.Context, in contract.EmitInput, needless func() bool) (contract.EmitOutput, error) {
	ctx = workflow.WithActivityOptions(ctx, timeouts.Write)
	in.SessionID = r.in.SessionID
	for {
		in.Epoch, in.LastSeq, in.TakeEpoch, in.Reset = r.st.Epoch, r.st.LastSeq, r.epochUnknown, r.wasReset()
		var out contract.EmitOutput
		err := workflow.ExecuteActivity(ctx, contract.ActivityEmit, in).Get(ctx, &out)
		switch {
		case r.catchUp(ctx, err):
			if needless() {
				return out, errAnswered
			}
			in.Anchor = r.st.LastBlockID
			continue
		case err != nil:
			return out, fmt.Errorf("session %s: emit: %w", r.in.SessionID, err)
		case in.TakeEpoch:
			r.st.Epoch, r.epochUnknown = out.Epoch, false
		}
		r.advance(out.LastSeq, out.LastBlockID)
		return out, nil
	}
}

// nextTurn returns the number that fences the next turn: above all of this epoch.
func (r *run) nextTurn() int { return max(r.st.Turns, r.st.MinTurn) + 1 }
