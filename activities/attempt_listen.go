package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// listen passes signals to the machine until the turn has ended.
func (a *attempt) listen(ctx context.Context) (contract.RunTurnOutput, error) {
	ctx, cancel := context.WithCancel(ctx)
	syncs := newSyncing(a.archiver)
	defer syncs.stop()
	if before := a.checkpoint.Output; before != nil && before.ArchiveBehind != "" {
		syncs.begin(ctx)
	}
	files := a.watchWorkspace(ctx)
	defer files.stop()
	defer cancel()
	records := a.records(ctx)
	look := time.NewTicker(host.HeartbeatEvery)
	defer look.Stop()
	for {
		a.takePostponed(ctx)
		var end *turn.Finish
		var err error
		select {
		case r, more := <-records:
			if !more {
				return contract.RunTurnOutput{}, errors.Join(ctx.Err(), runner.ErrClosed)
			}
			end, err = a.handleRecord(ctx, r)
		case c := <-a.controls:
			a.takeControl(ctx, c)
		case <-syncs.due():
			syncs.begin(ctx)
		case r := <-syncs.done:
			syncs.busy, a.behind = false, problem(r.err)
			err = a.emitGrown(ctx, r.grown)
		case seen := <-files.seen:
			err = a.emitFileEvents(ctx, files.syncer, seen)
		case <-look.C:
			a.showPhase("running")
			end, err = a.step(ctx, turn.Tick{Now: time.Now()})
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return contract.RunTurnOutput{}, err
		}
		if end != nil {
			cancel()
			return a.finish(context.WithoutCancel(ctx), *end)
		}
	}
}

// emitGrown appends the events about transcripts that have grown in the archive.
func (a *attempt) emitGrown(ctx context.Context, grown []archive.TranscriptInfo) error {
	return a.out.Add(ctx, changed(grown), stream.Position{})
}

func problem(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return ""
	}
	return err.Error()
}

// handleRecord handles the next record, or the error that was delivered instead.
func (a *attempt) handleRecord(ctx context.Context, r delivered) (*turn.Finish, error) {
	span := turn.Span{Offset: r.Offset, Next: r.Next}
	switch {
	case errors.Is(r.err, runner.ErrDamaged):
		a.host.o.Log.Error("a part of the spool is left out", "session", a.in.Agent.SessionID, "sandbox", a.in.Sandbox.ID, "error", r.err)
		return a.step(ctx, turn.Unreadable{Span: span, SandboxID: a.in.Sandbox.ID, Why: r.err.Error(), Now: time.Now()})
	case r.err != nil && ctx.Err() != nil:
		// The connection is good; the next attempt may already use it.
		return nil, ctx.Err()
	case r.err != nil:
		a.host.Disconnect(a.in.Sandbox.ID)
		return nil, fmt.Errorf("session %s: %w", a.in.Agent.SessionID, r.err)
	}
	defer r.done()
	events, err := a.translate(ctx, r.Delivery)
	if err != nil && !errors.Is(err, adapters.ErrRefused) {
		return nil, err
	}
	a.noteUnbilled(events)
	return a.step(ctx, turn.Record{
		Span: span, At: r.Record.TS, Now: time.Now(), Exit: exitOf(r.Delivery), Progress: a.isProgress(r.Record),
		Events: events, Refused: problem(err),
	})
}

// translate translates a record. Input for the agent is held back until the opening of the
// present process was read, and written then.
func (a *attempt) translate(ctx context.Context, d runner.Delivery) ([]event.Event, error) {
	events, err := a.dialogue.Step(ctx, d.Record)
	if err == nil && a.held && d.Next >= a.agent.Opened.Next {
		a.held = false
		err = a.dialogue.Release(ctx)
	}
	if err == nil {
		err = a.interruptSent(ctx)
	}
	return events, err
}

// takeControl answers a control. Changed options wait until it is known what the present
// process can take. A message to steer waits until an attempt that follows another has read
// that the agent has its prompt: until then the agent seems to be starting. An answer waits
// until the attempt has read the request, which an earlier one may have streamed.
func (a *attempt) takeControl(ctx context.Context, c control) {
	if c.in.Options != nil && a.held || c.in.Steer != nil && a.follows && a.machine.Prompt == nil || a.unread(ctx, &c) {
		a.postponed = append(a.postponed, c)
		return
	}
	got := reply{err: a.control(ctx, c.in)}
	if c.in.Usage {
		got.out.Usage, got.out.CostUSD = a.machine.Summary.Usage, a.machine.Summary.CostUSD
	}
	c.reply <- got
}

// takePostponed answers the controls that wait no longer.
func (a *attempt) takePostponed(ctx context.Context) {
	waiting := a.postponed
	a.postponed = nil
	for _, c := range waiting {
		a.takeControl(ctx, c)
	}
}

// unread reports whether an answer is for a request that may still be read: one is unknown
// only when everything is read that the spool held when the answer arrived.
func (a *attempt) unread(ctx context.Context, c *control) bool {
	if c.in.Answer == nil {
		return false
	}
	id := c.in.Answer.RequestID
	_, open := a.machine.Asked[id]
	_, answered := a.machine.Answers[id]
	if open || answered {
		return false
	}
	if c.readTo == 0 {
		status, err := a.agent.Conn.Status(ctx)
		if err != nil {
			return true // the attempt ends by that, and the next one is asked
		}
		c.readTo = status.SpoolEnd
	}
	return a.machine.Read < c.readTo
}

// exitOf returns the exit of the agent's process that a record reports; nil for any other.
func exitOf(d runner.Delivery) *turn.Exit {
	line := d.Record.Line
	if d.Record.Dir != event.DirSig || !strings.HasPrefix(line, "exit") && !strings.HasPrefix(line, "signal") {
		return nil
	}
	return &turn.Exit{How: line, Offset: d.Offset, WithRunner: line == runner.EndWithRunner}
}

// isProgress reports whether a record is the agent's output or its input. Its logs are no
// progress, nor are its keep-alive lines.
func (a *attempt) isProgress(r traffic.Record) bool {
	if r.Dir != event.DirOut && r.Dir != event.DirIn {
		return false
	}
	b, ok := a.agent.Adapter.(adapters.Beating)
	return !ok || r.Dir != event.DirOut || !b.Beats(r.Line)
}

// step passes a signal to the machine and does what it decides. It returns how the turn
// ended, once it has.
func (a *attempt) step(ctx context.Context, s turn.Signal) (*turn.Finish, error) {
	for _, action := range a.machine.Step(s) {
		if f, ends := action.(turn.Finish); ends {
			return &f, nil
		}
		if err := a.do(ctx, action); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// do carries out one action.
func (a *attempt) do(ctx context.Context, action turn.Action) error {
	switch do := action.(type) {
	case turn.Append:
		return a.out.Add(ctx, do.Events, a.position(do.Place))
	case turn.ReportWaiting:
		a.reportWaiting(ctx, do.Requests)
	case turn.TerminateAgent:
		a.escalated(a.agent.Conn.Signal(ctx, syscall.SIGTERM))
	case turn.KillAgent:
		_, err := a.agent.Conn.Stop(ctx, runner.Grace{Stdin: -1, Term: -1})
		a.escalated(err)
	case turn.StopAgent:
		return a.stopAgent(ctx)
	case turn.Save:
		return a.saveInterrupt()
	case turn.CheckSpool:
		return a.checkSpool(ctx)
	case turn.ResumeLater:
		return a.resumeLater(ctx, do)
	case turn.Park:
		return a.beginPark(do)
	default:
		return a.sendToAgent(ctx, action)
	}
	return nil
}

func (a *attempt) stopAgent(ctx context.Context) error {
	if _, err := a.agent.Conn.Stop(ctx, runner.Grace{}); err != nil && !errors.Is(err, runner.ErrExited) {
		return fmt.Errorf("stop the agent: %w", err)
	}
	return nil
}

// sendToAgent carries out an action that sends the agent something, or refuses to.
func (a *attempt) sendToAgent(ctx context.Context, action turn.Action) error {
	switch do := action.(type) {
	case turn.AnswerAgent:
		return a.answer(ctx, do)
	case turn.RefuseAnswer:
		return session.Invalid("requestId", fmt.Sprintf("%q is not open", do.RequestID), "the id of an open request")
	case turn.SteerAgent:
		return a.steer(ctx, do.Message)
	case turn.RefuseSteer:
		return errNotNow
	case turn.InterruptAgent:
		return a.interrupt(ctx, do)
	default:
		return a.doWithheld(ctx, action)
	}
}

// doWithheld carries out an action about a resume that is withheld from the agent.
func (a *attempt) doWithheld(ctx context.Context, action turn.Action) error {
	switch do := action.(type) {
	case turn.SaveAnswer:
		return a.saveAnswer(do.RequestID)
	case turn.AskAgent:
		return a.askAgent(ctx)
	case turn.Emit:
		return a.emitOwn(ctx, do)
	}
	return fmt.Errorf("session %s: nothing is known of the action %T", a.in.Agent.SessionID, action)
}

// answer answers a permission request, and saves what later attempts need and can't read
// elsewhere.
func (a *attempt) answer(ctx context.Context, do turn.AnswerAgent) error {
	if do.By != event.ByPolicy {
		if err := a.saveAnswer(do.RequestID); err != nil {
			return err
		}
	}
	return a.dialogue.Say(ctx, "answer-"+do.RequestID, adapters.Answer{RequestID: do.RequestID, Allow: do.Allow, Message: do.Message, Input: do.Input})
}

func (a *attempt) saveAnswer(requestID string) error {
	if a.checkpoint.Open.Answers == nil {
		a.checkpoint.Open.Answers = map[string]turn.Responded{}
	}
	a.checkpoint.Open.Answers[requestID] = a.machine.Answers[requestID]
	return a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// emitOwn emits server events after those that were appended before.
func (a *attempt) emitOwn(ctx context.Context, do turn.Emit) error {
	var events []event.Event
	for _, p := range do.Payloads {
		events = append(events, fromServer(p))
	}
	if err := a.out.Flush(ctx); err != nil {
		return err
	}
	return a.emit(ctx, do.Key, events)
}

// position returns a place in this sandbox's spool as a position; no position for the zero
// place.
func (a *attempt) position(p turn.Place) stream.Position {
	return stream.Position{Epoch: a.in.Sandbox.Epoch, Offset: p.Offset, Index: p.Index}
}

// appendAt appends events at a place, unless an earlier attempt did.
func (a *attempt) appendAt(ctx context.Context, p turn.Place, events ...event.Event) error {
	if a.machine.Has(p) {
		return nil
	}
	return a.out.Add(ctx, events, a.position(p))
}

func (a *attempt) escalated(err error) {
	if err != nil {
		a.host.o.Log.Warn("escalate an interrupt", "session", a.in.Agent.SessionID, "step", a.machine.Interrupt.Steps, "error", err)
	}
}

// checkSpool checks whether this attempt has read all that the spool holds. An attempt that
// has not, because it has just started or was blocked by the stream, can't judge how long
// the agent has been silent.
func (a *attempt) checkSpool(ctx context.Context) error {
	status, err := a.agent.Conn.Status(ctx)
	if err != nil {
		return fmt.Errorf("session %s: look for the agent's last word: %w", a.in.Agent.SessionID, err)
	}
	_, err = a.step(ctx, turn.SpoolRead{Now: time.Now(), All: a.machine.Read >= status.SpoolEnd})
	return err
}

// errResumed ends an attempt whose agent was lost with its runner; the next one resumes.
var errResumed = temporal.NewApplicationError("the runner died, and its agent with it; the turn is resumed", "RunnerLost")

// resumeLater saves that the agent was killed with its runner, for the next attempt.
func (a *attempt) resumeLater(ctx context.Context, do turn.ResumeLater) error {
	place := turn.Place{Offset: do.Offset, Index: turn.IndexFailure}
	if err := a.appendAt(ctx, place, a.unhealthy(do.Resume.Why)...); err != nil {
		return err
	}
	if err := a.out.Flush(ctx); err != nil {
		return err
	}
	state, err := a.dialogue.State()
	if err != nil {
		return err
	}
	a.checkpoint.Open.Resume = &do.Resume
	a.checkpoint.Offset, a.checkpoint.Translator = do.Next, state
	if err := a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint); err != nil {
		return err
	}
	return errResumed
}

// tellPatience bounds one signal to the workflow: while Temporal is unavailable the turn
// continues, and the signal is sent again with the next tick.
const tellPatience = time.Second

// reportWaiting signals to the workflow which requests wait for a person.
func (a *attempt) reportWaiting(ctx context.Context, requests []string) {
	ctx, cancel := context.WithTimeout(ctx, tellPatience)
	defer cancel()
	at := activity.GetInfo(ctx).WorkflowExecution
	err := a.host.o.Temporal.SignalWorkflow(ctx, at.ID, at.RunID, session.SignalWaiting, session.Waiting{
		ExecutionID: a.in.ExecutionID, Requests: requests,
	})
	if err != nil {
		a.host.o.Log.Warn("signal the workflow what waits for a person", "session", a.in.Agent.SessionID, "error", err)
		return
	}
	a.machine.Step(turn.WaitingTold{Requests: requests})
}
