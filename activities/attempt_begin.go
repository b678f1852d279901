package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// errNeverBegan is of an execution of a terminated session that the sandbox knows
// nothing of.
var errNeverBegan = temporal.NewNonRetryableApplicationError("the execution never began in this sandbox", session.TypeNotFound, nil)

// open takes the stream's fence, and only then the agent.
func (a *attempt) open(ctx context.Context) error {
	if err := a.takeStream(ctx); err != nil {
		return err
	}
	if err := a.heartbeater.AwaitFirst(ctx); err != nil {
		return err
	}
	return a.openAgent(ctx)
}

// openAgent has an agent running, on the lease and with its dialogue open.
func (a *attempt) openAgent(ctx context.Context) (err error) {
	h := a.host
	if a.agent, err = h.Agent(ctx, a.in.Agent, a.in.Sandbox.ID, a.in.Sandbox.Epoch, a.reached()); err != nil {
		return err
	}
	a.archiver = h.archiverOf(a.agent)
	if err := a.heartbeater.Lease(ctx, a.agent.Conn); err != nil {
		return err
	}
	return a.openDialogue(ctx)
}

// openDialogue writes the agent's process its opening, once, and nothing else before
// the records up to there are read.
func (a *attempt) openDialogue(ctx context.Context) error {
	tr, err := a.agent.Adapter.Translator(a.agent.Launch, a.checkpoint.Translator)
	if err != nil {
		return err
	}
	a.dialogue = adapters.NewDialogue(tr, a.write)
	if a.agent.Opened == (runner.Ack{}) {
		if err := a.dialogue.Say(ctx, a.openingID(), adapters.Initialize{}); err != nil {
			return err
		}
	}
	a.machine.Step(turn.Attached{Offset: a.agent.Conn.Attached().StartOffset})
	if a.held = a.agent.Opened.Next > a.checkpoint.Offset; a.held {
		a.dialogue.Hold()
	}
	if a.agent.Fresh && a.agent.Note != "" {
		note := own(event.Log{Level: "info", Message: a.agent.Note})
		return a.out.Add(ctx, []event.Event{note}, stream.Position{})
	}
	return nil
}

func spanOf(ack runner.Ack) turn.Span { return turn.Span{Offset: ack.Offset, Next: ack.Next} }

// openingID is unique for each process of the agent. Whoever started
// the process may have died before its opening was written.
func (a *attempt) openingID() string {
	return fmt.Sprintf("initialize-%d", a.agent.Conn.Attached().RestartCount)
}

// promptID is what the runner knows the prompt by. After a loss it is another
// prompt.
func (a *attempt) promptID() string {
	id := "prompt-" + a.in.Message.ID
	if r := a.checkpoint.Open.Resume; r != nil {
		id += fmt.Sprintf("-resumed-%d", r.Times)
	}
	return id
}

// write hands a message to the runner, which writes it once. A process that exited
// while the agent was idle refuses it: the next attempt asks another process.
func (a *attempt) write(ctx context.Context, m adapters.Message) error {
	ack, err := a.agent.Conn.Input(ctx, m.ID, m.Data)
	if errors.Is(err, runner.ErrExited) && (a.agent.Fresh || a.machine.Prompt != nil) {
		// This process was started or asked in this turn, which ends with it: the
		// records say how.
		return nil
	}
	if err != nil {
		return err
	}
	switch m.ID {
	case a.openingID():
		a.agent.Opened = ack
	case a.promptID():
		a.machine.Step(turn.Prompted{Span: spanOf(ack)})
	}
	return nil
}

// ask says that the query starts and hands the message over, both once.
func (a *attempt) ask(ctx context.Context) error {
	if err := a.begin(ctx); err != nil {
		return err
	}
	if err := a.applyOptions(ctx); err != nil {
		return err
	}
	if err := a.sayBeginning(ctx); err != nil {
		return err
	}
	m := a.checkpoint.Open.Resume.Prompt(a.message())
	return a.dialogue.Say(ctx, a.promptID(), adapters.Prompt{
		MessageID: m.ID, Text: m.Text, Parts: m.Parts, Model: a.checkpoint.Model, Permission: adapters.Permission(a.checkpoint.Permission),
	})
}

// endTerminated ends the agent of an execution whose session's workflow is gone.
// What it wrote until then is still to be read, as that of any agent that exits.
func (a *attempt) endTerminated(ctx context.Context) error {
	// First of all: it must do nothing more.
	if _, err := a.agent.Conn.Stop(ctx, runner.Grace{Stdin: -1}); err != nil && !errors.Is(err, runner.ErrExited) {
		return err
	}
	a.resumeMachine()
	if err := a.sayBeginning(ctx); err != nil {
		return err
	}
	// The runner knows the prompt and says where it is, or it was never written, and
	// isn't now.
	err := a.dialogue.Say(ctx, a.promptID(), adapters.Prompt{MessageID: a.in.Message.ID})
	if err != nil {
		a.host.o.Log.Debug("the message of a terminated session was not asked", "session", a.in.Agent.SessionID, "message", a.in.Message.ID, "error", err)
	}
	return nil
}

// conclude asks nothing: the stream has the execution's end, and the spool is read up
// to it.
func (a *attempt) conclude(context.Context) error {
	a.resumeMachine()
	a.machine.Concluded = a.history.Ending()
	return nil
}

// begin continues with what the attempts before knew, or saves what those after must
// know: before the prompt is written, because what runs below the agent then is not
// the turn's.
func (a *attempt) begin(ctx context.Context) error {
	if a.checkpoint.Began(a.in) {
		a.resumeMachine()
		return nil
	}
	running, err := a.agent.Conn.Mark(ctx)
	if err != nil {
		return err
	}
	a.checkpoint.Open = &host.Execution{ExecutionID: a.in.ExecutionID, MessageID: a.in.Message.ID, Running: running}
	if lost := a.in.Resumes; lost != nil {
		why := cmp.Or(lost.Why, fmt.Sprintf("the session's host %s was lost in the middle of the turn", lost.Host))
		a.checkpoint.Open.Resume = &turn.Resume{Times: lost.Times, Why: why}
	}
	a.resumeMachine()
	return a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// resumeMachine sets the machine to what the checkpoint has of the execution.
func (a *attempt) resumeMachine() {
	o := a.checkpoint.Open
	if o.Resume != nil {
		a.machine.Resumes = o.Resume.Times
	}
	a.machine.Cut = o.Cut
	maps.Copy(a.machine.Answers, o.Answers)
	if o.Interrupt != nil {
		a.machine.ContinueInterrupt(o.Interrupt.Reason, o.InterruptedAt, time.Now())
	}
}

// sayBeginning says that the query starts, or is resumed; once.
func (a *attempt) sayBeginning(ctx context.Context) error {
	beginning := turn.Place{Offset: a.checkpoint.Offset}
	if a.machine.Has(beginning) {
		return nil
	}
	events, err := a.health(ctx)
	if err != nil {
		return err
	}
	events = append(a.damages(), events...)
	resumed, begun, err := a.resumed(ctx)
	if err != nil {
		return err
	}
	if !begun {
		events = append(events, own(event.QueryStarted{Query: event.Query{
			ExecutionID: a.in.ExecutionID, MessageIDs: []string{a.in.Message.ID}, Message: turn.Truncate(a.in.Message.Text, 200),
		}}))
	}
	return a.say(ctx, beginning, slices.Concat(events, resumed)...)
}

// resumed decides how a resumed execution continues, saves that for the attempts
// after this one, and returns the events that say so. begun reports whether the
// query's beginning is in the stream.
func (a *attempt) resumed(ctx context.Context) (events []event.Event, begun bool, err error) {
	r := a.checkpoint.Open.Resume
	if r == nil {
		if a.in.Unarchived == nil {
			return nil, false, nil
		}
		return nil, false, a.sayWhatIsLost(ctx)
	}
	h, err := a.read(ctx, nil)
	if err != nil {
		return nil, false, err
	}
	persisted, err := persistedBy(ctx, a.agent, a.message().BlockIDs, h.Streamed())
	if err != nil {
		return nil, false, fmt.Errorf("look for what can be resumed: %w", err)
	}
	events = r.Decide(a.message(), a.in.ExecutionID, h.History, persisted, time.Now())
	begun = h.Started
	h.DropBlocks()
	a.machine.HasServer = true
	return events, begun, a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// applyOptions tells a warm agent what was changed since it was told last; one
// that can't be told is started anew. A fresh one was launched with it.
func (a *attempt) applyOptions(ctx context.Context) error {
	changed := a.checkpoint.Open.Options
	model := cmp.Or(changed.Model, a.in.Agent.Model, a.agent.Launch.Model)
	permission := cmp.Or(changed.Permission, a.in.Agent.Permission, a.agent.Launch.Policy.Standing)
	err := a.tellOptions(ctx, model, permission)
	if errors.Is(err, adapters.ErrUnsupported) {
		if err = a.host.StopAgent(ctx, a.agent); err == nil {
			err = a.openAgent(ctx)
		}
	}
	if err != nil {
		return err
	}
	a.checkpoint.Model = model
	a.setPolicy(permission)
	return nil
}

func (a *attempt) setPolicy(p adapters.Permission) {
	a.checkpoint.Permission = string(a.mode(p))
	a.machine.Step(turn.PolicyChanged{Policy: a.policy(p)})
}

// policy is that of the session as the turn began over its profile's, with another
// standing answer.
func (a *attempt) policy(standing adapters.Permission) permission.Policy {
	p := a.in.Agent.Policy().Over(a.agent.Launch.Policy)
	p.Standing = standing
	return p
}

// mode is what the agent is told of a standing answer.
func (a *attempt) mode(standing adapters.Permission) adapters.Permission {
	return a.policy(standing).Mode()
}

func (a *attempt) tellOptions(ctx context.Context, model string, permission adapters.Permission) error {
	if a.agent.Fresh {
		return nil
	}
	if a.checkpoint.Model != "" && model != a.checkpoint.Model {
		if err := a.dialogue.Say(ctx, "model-"+a.in.ExecutionID, adapters.SetModel{Model: model}); err != nil {
			return err
		}
	}
	if had := adapters.Permission(a.checkpoint.Permission); had != "" && a.mode(permission) != had {
		return a.dialogue.Say(ctx, "permission-"+a.in.ExecutionID, adapters.SetPermission{Permission: a.mode(permission)})
	}
	return nil
}
