package workflows

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/activities"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// maxTakeUps bounds how often in a row a run finds that it is behind.
const maxTakeUps = 8

// errAnswered says that what was to be written of the running execution is in
// the stream already.
var errAnswered = errors.New("the execution has ended already")

// wasReset says whether an operator's reset made this run. It is for activities'
// inputs only: before the reset's point the run before decided otherwise.
func (r *run) wasReset() bool {
	info := workflow.GetInfo(r.ctx)
	return info.OriginalRunID != "" && info.OriginalRunID != info.WorkflowExecution.RunID
}

func isFenced(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == session.TypeFenced
}

// takeUp brings a run up to date that was refused because the session has come
// further than it knows: it was reset. It says whether to try again.
func (r *run) takeUp(ctx workflow.Context, refused error) bool {
	if !isFenced(refused) || r.takeUps >= maxTakeUps || workflow.GetVersion(ctx, changeTakeUp, workflow.DefaultVersion, 1) < 1 {
		return false
	}
	r.takeUps++
	in := activities.TakeUpInput{
		SessionID: r.in.SessionID, Agent: r.in.Options.Agent, RunID: workflow.GetInfo(ctx).WorkflowExecution.RunID,
		LastSeq: r.st.LastSeq, Anchor: r.st.LastBlockID, Sandbox: r.st.Sandbox,
	}
	ctx = workflow.WithActivityOptions(ctx, writeOptions)
	var out activities.TakeUpOutput
	if err := workflow.ExecuteActivity(ctx, activities.NameTakeUp, in).Get(ctx, &out); err != nil {
		workflow.GetLogger(ctx).Error("the session could not be taken up", "error", err)
		return false
	}
	r.catchUp(out)
	return true
}

// catchUp takes over how far the session has come. Messages that were answered
// are settled with what was said of them and never run again.
func (r *run) catchUp(out activities.TakeUpOutput) {
	st := r.st
	before := st.LastSeq
	st.Epoch, st.Sandbox, st.Floor, r.adrift = out.Epoch, out.Sandbox, out.Turn, false
	st.Executions = max(st.Executions, out.Executions)
	r.advance(out.LastSeq, out.LastBlockID)
	if out.LastBlock != "" {
		st.LastBlock = out.LastBlock
	}
	for _, res := range out.Results {
		r.recallResult(res, before)
	}
	r.running = out.Running
	if run := out.Running; run != nil && !r.awaits(run.MessageID) {
		r.giveUpRunning(*run)
	}
	r.publish()
}

// recallResult settles an execution that a run before this one has ended.
func (r *run) recallResult(res session.Result, before uint64) {
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
		r.remember(session.Receipt{SessionID: r.in.SessionID, MessageID: res.MessageID, ExecutionID: res.ExecutionID, AfterSeq: before})
	}
	r.settle(outputOf(res))
}

// awaits says whether a message is the running one, or waits.
func (r *run) awaits(messageID string) bool {
	if r.cur != nil && r.cur.queued.Message.ID == messageID {
		return true
	}
	return slices.ContainsFunc(r.st.Queue, func(q session.Queued) bool { return q.Message.ID == messageID })
}

// giveUpRunning fails an execution that this run knows no message of: the reset
// left it out. Its agent is given up with its sandbox.
func (r *run) giveUpRunning(run activities.Running) {
	info := event.ErrorInfo{Message: "the session's workflow was reset to before this message, without it", Code: session.TypeTerminated}
	res := session.Result{ExecutionID: run.ExecutionID, MessageID: run.MessageID, Outcome: session.Failed, Error: &info}
	r.remember(session.Receipt{SessionID: r.in.SessionID, MessageID: run.MessageID, ExecutionID: run.ExecutionID, AfterSeq: run.AfterSeq})
	r.settle(outputOf(res))
	r.st.Sandbox, r.running = nil, nil
	q := session.Queued{Message: session.Message{ID: run.MessageID}, ExecutionID: run.ExecutionID}
	r.notify(failureEvents(q, info)...)
}

// outputOf is a turn's output as far as its result tells.
func outputOf(res session.Result) activities.RunTurnOutput {
	out := activities.RunTurnOutput{Result: res}
	if res.Result != nil {
		out.Usage, out.CostUSD = res.Result.Usage, res.Result.CostUSD
	}
	return out
}

// nextTurn is the number that fences the next turn: above all of this epoch.
func (r *run) nextTurn() int { return max(r.st.Turns, r.st.Floor) + 1 }
