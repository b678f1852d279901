package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/children"
	"github.com/sojourn-run/sojourn/workflows/details"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// turn is the running execution.
type turn struct {
	queued session.Queued
	// began is when it was sent to a host; zero while it does not run on one.
	began time.Time
	// live is set while RunTurn is scheduled: controls go to its host; handed once it was.
	live, handed bool
	// after is a sequence number before all its events, and anchor the last block of the
	// main conversation there.
	after  uint64
	anchor string
	// hosts counts those that were lost during it.
	hosts int
	// interrupted is set by the first interrupt, with its reason.
	interrupted bool
	reason      string
	// waiting are the permission requests that wait for a person; parked is set while the
	// turn waits without an agent.
	waiting []string
	parked  bool
	// lost is the last lost host.
	lost *session.Lost
	// asked is set for a turn that an earlier run left in a sandbox, until its RunTurn
	// has returned: the agent may have the message, so an interrupt has to reach it.
	asked bool
	// offers are the messages that it is to be offered, in order, with the one that it is
	// offered now; unsure is set when its agent may lack one that it was offered.
	offers []string
	unsure bool
	// found is how the execution ended, if an earlier run ended it.
	found *session.Result
}

// accept puts a message into the queue and returns its receipt.
func (r *run) accept(m session.Message, hold bool) session.Receipt {
	r.st.Executions++
	rec := session.Receipt{
		SessionID: r.in.SessionID, MessageID: m.ID,
		ExecutionID: fmt.Sprintf("x%d", r.st.Executions), AfterSeq: r.st.LastSeq,
		Digest: m.Digest(),
	}
	r.st.Remember(rec)
	r.st.Queue = r.st.Queue.Add(session.Queued{Message: m, ExecutionID: rec.ExecutionID, Hold: hold})
	r.rearm = r.rearm || r.idling // the session is in use
	workflow.SetCurrentDetails(r.ctx, r.details())
	return rec
}

// known returns the first receipt of a repeated message id.
func (r *run) known(id string) (session.Receipt, bool) {
	for _, rec := range r.st.Receipts {
		if rec.MessageID == id {
			return rec, true
		}
	}
	return session.Receipt{}, false
}

// repeated returns the first receipt of a repeated message. A message with the same id and
// another content is a conflict.
func (r *run) repeated(m session.Message) (rec session.Receipt, again bool, err error) {
	if rec, again = r.known(m.ID); again && rec.Digest != "" && rec.Digest != m.Digest() {
		err = fmt.Errorf("message %s: %w", m.ID, session.ErrConflict)
	}
	return rec, again, err
}

// release lets all held messages in the queue run.
func (r *run) release() {
	for i := range r.st.Queue {
		r.st.Queue[i].Hold = false
	}
}

func (r *run) dequeue() (q session.Queued) {
	q, r.st.Queue = r.st.Queue.Take(r.st.Queue.Next())
	return q
}

// startTurn makes a message the running one.
func (r *run) startTurn(q session.Queued) {
	r.cur = &turn{queued: q, after: r.st.LastSeq, anchor: r.st.LastBlockID, interrupted: q.Cancelled != "", reason: q.Cancelled}
	r.cur.asked = r.takeOverStart() && r.st.Sandbox != nil
	r.st.Aborted = r.st.Aborted || r.cur.interrupted
	if r.st.Title == "" {
		r.st.Title = titleOf(q.Message.Text)
	}
	r.st.LastActivity, r.st.Background, r.idleLooks = workflow.Now(r.ctx), nil, 0
}

// runTurn answers the running message, whatever the outcome. It returns only the error of a
// run that makes way for the next one before the turn is over.
func (r *run) runTurn() error {
	q := r.cur.queued
	r.publish()
	out, err := r.execute(q)
	if errors.Is(err, errMakeWay) {
		return r.nextRun()
	}
	if err != nil {
		out = r.fail(q, err)
	}
	r.addResult(out)
	r.takeBack()
	r.continueLater(out.Result)
	r.catchUps = 0
	r.cur = nil
	r.publish()
	return nil
}

// maxHosts bounds how many hosts an execution may lose: it may be what kills them.
const maxHosts = 3

// execute provides a sandbox and runs the turn in it. When the host is lost the turn is
// resumed on another one.
func (r *run) execute(q session.Queued) (contract.RunTurnOutput, error) {
	for {
		r.cur.unsure = r.cur.unsure || len(r.st.Queue.Offered()) > 0 // another agent was offered that
		if err := r.awaitAnswers(); err != nil {
			return contract.RunTurnOutput{}, err
		}
		out, err := r.attempt(q)
		if err == nil && out.Parked != nil {
			r.park(out)
			continue
		}
		if r.catchUp(r.ctx, err) && r.cur.found == nil {
			continue
		}
		if r.cur.found != nil && err != nil {
			return contract.OutputOf(*r.cur.found), nil
		}
		if r.st.Sandbox == nil || !timeouts.HostLost(err) {
			return out, err
		}
		r.cur.lost = r.cur.lose(session.Lost{Host: r.st.Sandbox.Host, AfterSeq: r.cur.after, Why: timeouts.Reported(err), Ended: r.cur.endedBefore(err)})
		if end := r.cur.lost.Ended; end != nil { // it may have archived nothing of what it answered
			r.st.KeepUnarchived(session.Unarchived{AfterSeq: r.cur.after, Anchor: r.cur.anchor, Epoch: r.st.Sandbox.Epoch}, r.st.Queue.Named(end.MessageIDs)...)
		}
		r.st.LostSandbox, r.st.Sandbox = r.st.Sandbox, nil
		r.publish()
		r.st.Restarts++
		r.cur.hosts++
		// The lost host may still write under its epoch, so take a higher one.
		r.epochUnknown = true
		if r.cur.hosts > maxHosts || r.closing != "" {
			return out, err
		}
	}
}

// takeOverStart stores where the execution started, if the stream has that, and reports
// whether it does.
func (r *run) takeOverStart() bool {
	run := r.running
	if run == nil || run.MessageID != r.cur.queued.Message.ID {
		return false
	}
	r.cur.after, r.cur.anchor = run.AfterSeq, run.Anchor
	return true
}

// attempt runs the turn on one host.
func (r *run) attempt(q session.Queued) (contract.RunTurnOutput, error) {
	var out contract.RunTurnOutput
	if r.st.Sandbox == nil && !r.cur.interrupted {
		if err := r.createSandbox(); err != nil && !r.cur.interrupted {
			return out, err
		}
	}
	if r.cur.interrupted && (!r.cur.asked || r.st.Sandbox == nil) {
		return r.interruptedEarly(q)
	}
	// What the deliverer began before the turn must be written before the turn, which is
	// the stream's only writer from then on.
	if err := workflow.Await(r.ctx, func() bool { return !r.writing }); err != nil {
		return out, err
	}
	switch {
	case r.cur.found != nil:
		return out, errAnswered
	case r.st.Sandbox == nil:
		// The deliverer found that the run was behind.
		return r.attempt(q)
	}
	in := r.turnInput(q)
	if r.st.MinTurn > 0 {
		r.st.MinTurn = in.Turn
	}
	opts := timeouts.Turn(r.st.Sandbox.Host)
	opts.Summary = details.Turn(r.inspect())
	ctx := workflow.WithActivityOptions(r.ctx, opts)
	r.cur.live, r.cur.handed, r.cur.began = true, true, workflow.Now(r.ctx)
	err := r.awaitTurn(ctx, workflow.ExecuteActivity(ctx, contract.ActivityRunTurn, in), &out)
	r.st.WorkMS = r.used().Work.Milliseconds()
	r.cur.live, r.cur.began, r.cur.asked, r.cur.waiting = false, time.Time{}, false, nil
	if err == nil && out.Parked == nil {
		r.noteArchive(in, out)
	}
	return out, err
}

func (r *run) turnInput(q session.Queued) contract.RunTurnInput {
	in := contract.RunTurnInput{
		Agent: r.agent(), Sandbox: *r.st.Sandbox, ExecutionID: q.ExecutionID,
		Turn: r.nextTurn(), Message: q.Message, Anchor: r.st.LastBlockID, LastSeq: r.st.LastSeq,
		Steered: r.st.Queue.Offered(), NoProgressMS: r.in.Options.NoProgressMS, Bounds: *r.bounds(), MaxTicks: cmp.Or(q.Message.MaxTicks, r.st.MaxTicks), Resumes: r.cur.lost, Continues: r.cur.asked, Reset: r.wasReset(),
	}
	if r.takeOverStart() || r.cur.lost != nil {
		in.AfterSeq, in.Anchor = r.cur.after, r.cur.anchor
	}
	if u := r.st.Unarchived; u != nil && u.Epoch < in.Sandbox.Epoch {
		in.Unarchived = u
	}
	return in
}

// noteArchive records from which event on the archive may lack answers if the host is lost.
func (r *run) noteArchive(in contract.RunTurnInput, out contract.RunTurnOutput) {
	if out.ArchiveBehind == "" || in.Unarchived != nil {
		r.st.Unarchived = nil
	}
	if out.ArchiveBehind != "" {
		r.st.KeepUnarchived(session.Unarchived{AfterSeq: cmp.Or(in.AfterSeq, in.LastSeq), Anchor: in.Anchor, Epoch: in.Sandbox.Epoch},
			append([]session.Message{in.Message}, r.st.Queue.Named(out.Result.MessageIDs)...)...)
	}
}

// createSandbox waits for a slot on a host, or until the turn is interrupted.
func (r *run) createSandbox() error {
	ctx, cancel := workflow.WithCancel(r.ctx)
	defer cancel()
	defer r.waitFor(children.AwaitedPlace(r.in))()
	r.stopWaiting = cancel
	done, err := r.alone()
	if err != nil {
		return err
	}
	defer done()
	in := contract.CreateSandboxInput{
		Agent: r.agent(), Restarts: r.st.Restarts, Lost: r.st.LostSandbox, LastSeq: r.st.LastSeq, Reset: r.wasReset(),
	}
	out, err := children.CreateSandbox(ctx, in)
	if err != nil {
		workflow.GetLogger(r.ctx).Warn("no sandbox was made", "error", err)
		r.epochUnknown = true
		return err
	}
	r.st.Sandbox, r.st.LostSandbox, r.st.Evict, r.st.Parts = &out.Sandbox, nil, "", out.Parts
	r.st.Epoch, r.st.LastSeq, r.st.MinTurn, r.epochUnknown, r.unplaced = out.Sandbox.Epoch, out.LastSeq, 0, false, false
	r.st.LastActivity = workflow.Now(r.ctx) // a host took the turn, or took it over
	r.publish()
	return nil
}

// interruptedEarly ends an execution whose agent was never prompted.
func (r *run) interruptedEarly(q session.Queued) (contract.RunTurnOutput, error) {
	res := session.Result{
		ExecutionID: q.ExecutionID, MessageID: q.Message.ID,
		Outcome: session.Interrupted, Reason: r.cur.reason,
	}
	emitted, err := r.emitEnd("interrupted-"+q.ExecutionID, q, res.Ends())
	return emitted.Turn(res), err
}

// fail records an execution that could not be run: in the conversation, in the stream and
// in the result.
func (r *run) fail(q session.Queued, cause error) contract.RunTurnOutput {
	info := timeouts.ErrorInfo(cause)
	out := contract.RunTurnOutput{Result: session.Result{
		ExecutionID: q.ExecutionID, MessageID: q.Message.ID, Outcome: session.Failed, Error: &info,
	}}
	emitted, err := r.emitEnd("failed-"+q.ExecutionID, q, out.Result.FailureBlock(), out.Result.Ends())
	if r.cur.found != nil {
		return contract.OutputOf(*r.cur.found)
	}
	if err != nil {
		workflow.GetLogger(r.ctx).Error("the failure of an execution could not be written", "execution", q.ExecutionID, "error", err)
		return out
	}
	return emitted.Turn(out.Result)
}

// emitEnd ends the running execution, whose agent is not prompted any more: if none ever
// was, the conversation gets the message from here. If its host was lost it may have ended
// already; if it was parked its agent may have taken other messages.
func (r *run) emitEnd(key string, q session.Queued, payloads ...event.Payload) (contract.EmitOutput, error) {
	done, err := r.alone()
	if err != nil {
		return contract.EmitOutput{}, err
	}
	defer done()
	in := contract.EmitInput{Key: key, Anchor: r.st.LastBlockID}
	if r.cur.lost == nil && !r.cur.handed && !r.cur.asked {
		payloads = append([]event.Payload{event.MessageBlock(q.Message.ID, q.Message.Text, q.Message.Parts)}, payloads...)
	}
	for _, p := range payloads {
		in.Events = append(in.Events, event.FromServer(p, workflow.Now(r.ctx)))
	}
	if l := r.cur.lost; l != nil {
		in.Abort = &contract.Abort{
			Agent: r.in.Options.Agent, ExecutionID: q.ExecutionID, MessageID: q.Message.ID, Message: q.Message, AfterSeq: r.cur.after, Ended: l.Ended,
			Parked: l.Parked, Parks: l.Parks, Steered: r.st.Queue.Offered(), Unarchived: r.st.Unarchived,
		}
	}
	out, err := r.emit(r.ctx, in, func() bool { return r.cur.found != nil })
	if err == nil && in.Abort != nil {
		r.st.Unarchived = nil
	}
	return out, err
}

func (r *run) advance(seq uint64, block string) {
	r.st.LastSeq = max(r.st.LastSeq, seq)
	if block != "" {
		r.st.LastBlockID = block
	}
}

// addResult adds an ended execution to the state.
func (r *run) addResult(out contract.RunTurnOutput) {
	st := r.st
	st.Turns++
	r.addUsage(out)
	if st.Unarchived == nil {
		st.ArchiveBehind = ""
	}
	st.ArchiveBehind = cmp.Or(out.ArchiveBehind, out.NotKept, st.ArchiveBehind)
	st.Outcome, st.Failure = out.Result.Outcome, out.Result.Error
	if out.AgentExited {
		st.Restarts++
	}
	r.fold(out.Result)
	r.st.KeepResult(out.Result)
}

// addUsage adds an attempt's usage to the state.
func (r *run) addUsage(out contract.RunTurnOutput) {
	st := r.st
	st.Usage = st.Usage.Add(out.Usage)
	st.CostUSD = event.AddKnown(st.CostUSD, out.CostUSD)
	st.Ticks, st.LastTools = event.AddKnown(st.Ticks, out.Ticks), out.Tools
	st.LastActivity = workflow.Now(r.ctx)
	st.LastBlock = cmp.Or(out.LastBlock, st.LastBlock)
	r.advance(out.LastSeq, out.LastBlockID)
}

// endedBefore returns how the execution had ended by the last heartbeat of the lost host,
// or of an earlier one; nil if it had not.
func (t *turn) endedBefore(err error) *session.Result {
	var timeout *temporal.TimeoutError
	var beat contract.HeartbeatDetails
	if errors.As(err, &timeout) && timeout.HasLastHeartbeatDetails() && timeout.LastHeartbeatDetails(&beat) == nil && beat.Ended != nil {
		return beat.Ended
	}
	if t.lost != nil {
		return t.lost.Ended
	}
	return nil
}
