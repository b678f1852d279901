package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// errNeverBegan is the error for an execution of a terminated session that the sandbox has
// no trace of.
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

// openAgent makes sure that an agent runs under a lease, with its dialogue open.
func (a *attempt) openAgent(ctx context.Context) (err error) {
	h := a.host
	if a.agent, err = h.Agent(ctx, a.in.Agent, a.in.Sandbox.ID, a.in.Sandbox.Epoch, a.reached(), a.unfinished()); err != nil {
		return err
	}
	a.archiver, a.machine.Folders = h.archiverOf(a.agent), []string{a.agent.Paths.Workspace, a.agent.Paths.Home}
	a.machine.Prices.Model = cmp.Or(a.checkpoint.Model, a.agent.Launch.Model)
	if err := a.heartbeater.Lease(ctx, a.agent.Conn); err != nil {
		return err
	}
	return a.openDialogue(ctx)
}

// unfinished returns the prompts that agents may have had of this execution, in order; none
// before its first, and none once it has ended.
func (a *attempt) unfinished() []adapters.Unfinished {
	if a.history != nil && a.history.Ended != nil {
		return nil
	}
	resumed, steered := 0, steeredBefore(a.adapter, a.in.Steered)
	switch began := a.checkpoint.Began(a.in); {
	case began && a.checkpoint.Open.Resume != nil:
		resumed, steered = a.checkpoint.Open.Resume.Times, a.checkpoint.Open.Steered
	case began:
		steered = a.checkpoint.Open.Steered
	case a.in.Resumes != nil:
		resumed = a.in.Resumes.Times
	default:
		return nil
	}
	ids := promptIDs(a.adapter, a.in.Message.ID)[1:]
	sent := []adapters.Unfinished{{ID: ids[0], Begins: a.in.Message.Text}}
	for _, id := range ids[1 : 1+resumed] {
		sent = append(sent, adapters.Unfinished{ID: id, Begins: turn.ContinueText}, adapters.Unfinished{ID: id, Begins: permission.WordsHead})
	}
	steers := a.adapter.Info().Capabilities.Steer // a message may have been offered that was not sent
	for _, m := range steered {
		if steers && !m.Refused {
			sent = append(sent, adapters.Unfinished{ID: promptIDs(a.adapter, m.ID)[1], Begins: m.Text})
		}
	}
	return sent
}

// openDialogue writes the opening to the agent's process once, and nothing else until the
// records up to there are read.
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
		note := fromServer(event.Log{Level: "info", Message: a.agent.Note})
		return a.out.Add(ctx, []event.Event{note}, stream.Position{})
	}
	return nil
}

func spanOf(ack runner.Ack) turn.Span { return turn.Span{Offset: ack.Offset, Next: ack.Next} }

// openingID is unique for each process of the session's agents: it is part of the ids of
// permission requests, and an answer may arrive long after the process exited. The worker
// that started the process may have died before it wrote the opening.
func (a *attempt) openingID() string {
	return fmt.Sprintf("initialize-%d-%d", a.in.Sandbox.Epoch, a.agent.Conn.Attached().RestartCount)
}

// promptID is the prompt's input id in the runner. After a loss of the agent the prompt has
// another id.
func (a *attempt) promptID() string { return a.inputID("prompt-" + a.in.Message.ID) }

// inputID changes the id after each loss of the agent.
func (a *attempt) inputID(id string) string {
	if r := a.checkpoint.Open.Resume; r != nil {
		id += fmt.Sprintf("-resumed-%d", r.Times)
	}
	return id
}

// write hands a message to the runner, which writes it once. A process that exited while
// the agent was idle refuses it: the next attempt uses another process.
func (a *attempt) write(ctx context.Context, m adapters.Message) error {
	ack, err := a.agent.Conn.Input(ctx, m.ID, m.Data)
	if errors.Is(err, runner.ErrExited) && (a.agent.Fresh || a.machine.Prompt != nil) {
		// This process was started or prompted in this turn, which ends with it: the
		// records have the reason.
		return nil
	}
	if err != nil {
		return err
	}
	switch m.ID {
	case a.openingID():
		a.agent.Opened = ack
	case a.promptID():
		_, err = a.step(ctx, turn.Prompted{Span: spanOf(ack)})
	}
	return err
}

// ask streams the query's start and hands the message over, both once.
func (a *attempt) ask(ctx context.Context) error {
	if err := a.begin(ctx); err != nil {
		return err
	}
	if err := a.applyOptions(ctx); err != nil {
		return err
	}
	if err := a.emitBeginning(ctx); err != nil {
		return err
	}
	if r := a.checkpoint.Open.Resume; r.Withholds() {
		_, err := a.step(ctx, turn.Withheld{Resume: *r, RequestID: fmt.Sprintf("sojourn-%s-unknown-%d-%d", a.in.ExecutionID, a.in.Sandbox.Epoch, r.Times)})
		return err
	}
	if err := a.askAgent(ctx); err != nil {
		return err
	}
	return a.interruptAgain(ctx)
}

// askAgent sends the message, or after a loss the prompt that resumes it.
func (a *attempt) askAgent(ctx context.Context) error {
	m := a.checkpoint.Open.Resume.Prompt(a.message())
	return a.dialogue.Say(ctx, a.promptID(), a.prompt(m.ID, m.Text, m.Parts))
}

// prompt returns a prompt with the turn's model and permission.
func (a *attempt) prompt(id, text string, parts []event.Part) adapters.Prompt {
	return adapters.Prompt{
		MessageID: id, Text: text, Parts: parts, Model: a.checkpoint.Model, Permission: adapters.Permission(a.checkpoint.Permission),
	}
}

// endTerminated ends the agent of an execution whose session's workflow was ended from
// outside. What it wrote until then is still read, as for any agent that exits.
func (a *attempt) endTerminated(ctx context.Context) error {
	// First, so that it does nothing more.
	if _, err := a.agent.Conn.Stop(ctx, runner.Grace{Stdin: -1}); err != nil && !errors.Is(err, runner.ErrExited) {
		return err
	}
	a.resumeMachine()
	if err := a.emitBeginning(ctx); err != nil {
		return err
	}
	// Either the runner has the prompt and reports its offset, or it was never written and
	// isn't now.
	err := a.dialogue.Say(ctx, a.promptID(), adapters.Prompt{MessageID: a.in.Message.ID})
	if err != nil {
		a.host.o.Log.Debug("the message of a terminated session was not asked", "session", a.in.Agent.SessionID, "message", a.in.Message.ID, "error", err)
	}
	return nil
}

// conclude sends no prompt: the stream has the execution's end, and the spool is read up to
// it.
func (a *attempt) conclude(context.Context) error {
	a.resumeMachine()
	a.machine.Concluded = a.history.Ending()
	return nil
}

// begin continues from what earlier attempts saved, or saves what later ones need: before
// the prompt is written, because the agent's child processes of then are not the turn's.
func (a *attempt) begin(ctx context.Context) error {
	if a.follows = a.checkpoint.Began(a.in); a.follows {
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
		a.checkpoint.Open.Resume = &turn.Resume{
			Times: lost.Times, Parks: lost.Parks, Why: why, Decisions: lost.Parked.MovedTo(a.machine.Folders),
		}
		a.checkpoint.Open.Steered = steeredBefore(a.adapter, a.in.Steered)
	}
	a.resumeMachine()
	return a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// resumeMachine restores the machine from the execution's checkpoint.
func (a *attempt) resumeMachine() {
	o := a.checkpoint.Open
	if o.Resume != nil {
		a.machine.Resume = *o.Resume
	}
	a.machine.Cut, a.machine.Steered = o.Cut, o.Steered
	a.machine.Summary.Resume(o.UsedBefore)
	maps.Copy(a.machine.Answers, o.Answers)
	if o.Interrupt != nil {
		a.machine.ContinueInterrupt(o.Interrupt.Reason, o.InterruptedAt, time.Now())
	}
}

// emitBeginning streams that the query starts or is resumed; once.
func (a *attempt) emitBeginning(ctx context.Context) error {
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
		events = append(events, fromServer(event.QueryStarted{Query: event.Query{
			ExecutionID: a.in.ExecutionID, MessageIDs: []string{a.in.Message.ID}, Message: brief.Truncate(a.in.Message.Text, 200),
		}}))
		events = append(events, a.unbound()...)
	}
	if err := a.appendAt(ctx, beginning, slices.Concat(events, resumed)...); err != nil {
		return err
	}
	return a.saveServer(ctx)
}

// saveServer saves what was kept of a lost host: the stream may be deleted before the turn
// ends.
func (a *attempt) saveServer(ctx context.Context) error {
	if !a.machine.HasServer {
		return nil
	}
	if err := a.collectServer(ctx); err != nil {
		return err
	}
	return a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// unbound warns of a limit of model calls that can't hold, since the agent does not
// report them. A session is refused with one; a message, or a change of its options,
// can't be: what the session's agent is shows only here.
func (a *attempt) unbound() []event.Event {
	var bounds []string
	if a.in.MaxTicks > 0 {
		bounds = append(bounds, "maxTicks")
	}
	if a.in.Limits.ModelCalls > 0 {
		bounds = append(bounds, "limits.modelCalls")
	}
	if len(bounds) == 0 || a.adapter.Info().Capabilities.Ticks {
		return nil
	}
	return []event.Event{fromServer(event.Log{
		Level: "warn", Message: fmt.Sprintf("%s has no effect: %s does not report its model calls", strings.Join(bounds, ", "), a.in.Agent.Name),
	})}
}

// resumed decides how a resumed execution continues, saves that for later attempts, and
// returns the events that show it. begun reports whether the stream has the query's start.
func (a *attempt) resumed(ctx context.Context) (events []event.Event, begun bool, err error) {
	r := a.checkpoint.Open.Resume
	if r == nil {
		if a.in.Unarchived == nil {
			return nil, false, nil
		}
		return nil, false, a.emitLostBefore(ctx)
	}
	h, err := a.read(ctx, nil)
	if err != nil {
		return nil, false, err
	}
	persisted, err := persistedBy(ctx, a.agent, h.History)
	if err != nil {
		return nil, false, fmt.Errorf("look for what can be resumed: %w", err)
	}
	events = r.Decide(a.message(), a.in.ExecutionID, h.History, persisted, a.policy("").Effects, time.Now().UTC())
	a.machine.Steered, _ = a.machine.Steered.Persisted(persisted, h.Refused)
	a.checkpoint.Open.Steered, a.checkpoint.Open.UsedBefore = a.machine.Steered, h.used.Execution
	a.machine.Summary.Resume(h.used.Execution)
	begun = h.Started
	h.DropBlocks()
	a.machine.HasServer, a.machine.Resume = true, *r
	return events, begun, a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// applyOptions sends a warm agent the options that changed since they were last sent; an
// agent that can't change them is restarted. A fresh one was launched with them.
func (a *attempt) applyOptions(ctx context.Context) error {
	changed := a.checkpoint.Open.Options
	model := cmp.Or(changed.Model, a.in.Agent.Model, a.agent.Launch.Model)
	permission := cmp.Or(changed.Permission, a.in.Agent.Permission, a.agent.Launch.Policy.Standing)
	err := a.sendOptions(ctx, model, permission)
	if errors.Is(err, adapters.ErrUnsupported) {
		if err = a.host.StopAgent(ctx, a.agent, runner.Grace{}); err == nil {
			err = a.openAgent(ctx)
		}
	}
	if err != nil {
		return err
	}
	a.setModel(model)
	a.setPolicy(permission)
	return nil
}

func (a *attempt) setModel(model string) {
	a.checkpoint.Model, a.machine.Prices.Model = model, model
}

func (a *attempt) setPolicy(p adapters.Permission) {
	a.checkpoint.Permission = string(a.mode(p))
	a.machine.Step(turn.PolicyChanged{Policy: a.policy(p)})
}

// policy returns the session's policy at the turn's start, over its profile's, with another
// standing answer.
func (a *attempt) policy(standing adapters.Permission) permission.Policy {
	p := a.in.Agent.Policy().Over(a.agent.Launch.Policy)
	p.Standing = standing
	return p
}

// mode returns the permission mode that is sent to the agent for a standing answer.
func (a *attempt) mode(standing adapters.Permission) adapters.Permission {
	return a.policy(standing).Mode()
}

func (a *attempt) sendOptions(ctx context.Context, model string, permission adapters.Permission) error {
	if a.agent.Fresh {
		return nil
	}
	// Not for a change while the turn ran, which must not end its agent.
	if begun := cmp.Or(a.in.Agent.Permission, a.agent.Launch.Policy.Standing); a.mode(begun).Asks() && a.agent.MustRestartToAsk() {
		return fmt.Errorf("ask from now on: %w", adapters.ErrUnsupported)
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
