package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/stream"
)

// turn is one attempt at one execution.
type turn struct {
	host  *Host
	in    RunTurnInput
	began time.Time
	agent *agent
	// fence is this attempt's right to write.
	fence stream.Fence
	mark  bookmark
	// prompt is where the message lies in the spool; nil until it is written.
	prompt *runner.Ack

	dialogue *adapters.Dialogue
	// behind says that records of an earlier process of the agent are still to
	// be read.
	behind bool
	// exit is the last end of a process that was read.
	exit *exit
	// rested is where the agent was idle last while it was not known yet where
	// the prompt lies.
	rested *rest
	writer *stream.Writer
	out    *stream.Batcher
	// had is how far the attempt before came.
	had  stream.Position
	tale tale

	archiver *archiver
	controls chan control
	left     chan struct{}
	// asked are the agent's open permission requests.
	asked map[string]event.PermissionRequested
	// answered are those that this attempt has answered: to say so again is
	// no fault.
	answered map[string]bool
	waits    waiting
	stop     stopping
	// owned says that the stream may hold blocks of Sojourn's own since the
	// turn began.
	owned bool
	// lastWord is when the agent last made progress, as far as the spool was
	// read; next is the offset up to which it was.
	lastWord time.Time
	next     int64
	// show is what the heartbeat says.
	show  atomic.Pointer[Beat]
	pulse *pulse
}

// RunTurn hands the message to the agent and stays until it is answered. It
// may be attempted again at any point by any worker of the host.
func (h *Host) RunTurn(ctx context.Context, in RunTurnInput) (RunTurnOutput, error) {
	if in.Continues {
		if err := h.awaitPredecessor(ctx, in.Agent.SessionID); err != nil {
			return RunTurnOutput{}, err
		}
	}
	if in.Reset {
		err := notAhead(ctx, h.o.Stream, in.Agent.SessionID, in.LastSeq, func(p event.Payload) bool { return p.EventType() == event.TypeQueryStarted })
		if err != nil {
			return RunTurnOutput{}, crossing(err)
		}
	}
	mark, err := h.settledBookmark(ctx, in)
	if ruined(err) {
		err = h.giveUp(ctx, in, err)
	}
	if err != nil {
		return RunTurnOutput{}, err
	}
	ended := mark.ended(in) != nil
	if ended && !mark.Unarchived {
		return *mark.Output, nil
	}
	again := in.Continues || activity.GetInfo(ctx).Attempt > 1
	t := &turn{
		host: h, in: in, mark: mark, began: time.Now(),
		controls: make(chan control), left: make(chan struct{}),
		asked: map[string]event.PermissionRequested{}, answered: map[string]bool{}, tale: newTale(in.Anchor),
		owned: again, waits: waiting{tell: again},
		fence: stream.Fence{Epoch: in.Sandbox.Epoch, Attempt: attemptOf(in.Turn, int(activity.GetInfo(ctx).Attempt))},
	}
	defer h.enter(t)()
	t.showBeat("starting")
	ctx, t.pulse = h.startPulse(ctx, &t.show)
	defer t.pulse.stop()
	if ended {
		out, err := t.archiveLate(ctx)
		return out, crossing(err)
	}
	out, err := t.run(ctx)
	if ruined(err) || t.stranded(err) {
		err = h.giveUp(ctx, in, err)
	}
	if err != nil {
		return out, t.leave(ctx, err)
	}
	t.letGo(ctx)
	return out, nil
}

// letGo takes the agent off its lease: it waits for the next turn, however long
// that takes.
func (t *turn) letGo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackPatience)
	defer cancel()
	if err := t.pulse.release(ctx); err != nil {
		// The lease ends an agent that could have stayed warm, and no more.
		t.host.o.Log.Warn("the agent's lease is not taken off", "session", t.in.Agent.SessionID, "error", err)
	}
}

// attemptOf orders the attempts of all turns of an epoch: fences must grow
// across turns too. It is the turn that counts and not the execution's id,
// which was given out when the message came: one may go before others.
func attemptOf(turn, attempt int) int { return turn*attemptsOfTurn + attempt }

const attemptsOfTurn = 1_000_000

// turnOf is the turn that an attempt is of.
func turnOf(attempt int) int { return attempt / attemptsOfTurn }

func (t *turn) run(ctx context.Context) (RunTurnOutput, error) {
	defer t.close()
	if t.in.Abandoned != "" && !t.mark.begun(t.in) {
		return RunTurnOutput{}, errNeverBegan
	}
	if err := t.open(ctx); err != nil {
		return RunTurnOutput{}, err
	}
	if t.in.Abandoned != "" {
		if err := t.abandon(ctx); err != nil {
			return RunTurnOutput{}, err
		}
		return t.listen(ctx)
	}
	if t.in.Resumes != nil && !t.mark.begun(t.in) {
		if out, ended, err := t.endedElsewhere(ctx); err != nil || ended {
			return out, err
		}
	}
	if err := t.ask(ctx); err != nil {
		return RunTurnOutput{}, err
	}
	return t.listen(ctx)
}

func (t *turn) close() {
	if t.out == nil {
		return
	}
	if err := t.out.Close(); err != nil {
		t.host.o.Log.Debug("batcher ended", "session", t.in.Agent.SessionID, "error", err)
	}
}

// open takes the stream's fence, and only then the agent.
func (t *turn) open(ctx context.Context) (err error) {
	h := t.host
	if err := t.takeStream(ctx); err != nil {
		return err
	}
	if err := t.pulse.await(ctx); err != nil {
		return err
	}
	if t.agent, err = h.agentIn(ctx, t.in.Agent, t.in.Sandbox.ID, t.in.Sandbox.Epoch, t.reached()); err != nil {
		return err
	}
	t.archiver = h.archiverOf(t.agent)
	if err := t.pulse.hold(ctx, t.agent.conn); err != nil {
		return err
	}
	return t.meet(ctx)
}

// ask says that the query starts and hands the message over, both once.
func (t *turn) ask(ctx context.Context) error {
	err := t.takeUp(ctx)
	if err != nil {
		return err
	}
	if err := t.applyOptions(ctx); err != nil {
		return err
	}
	if err := t.sayBeginning(ctx); err != nil {
		return err
	}
	m := t.in.Message
	prompt := adapters.Prompt{
		MessageID: m.ID, Text: m.Text, Parts: m.Parts,
		Model: t.mark.Model, Permission: adapters.Permission(t.mark.Permission),
	}
	if r := t.mark.Open.Resume; r != nil {
		prompt = r.prompt(prompt)
	}
	return t.dialogue.Say(ctx, t.promptID(), prompt)
}

// sayBeginning says that the query starts, or is resumed; once.
func (t *turn) sayBeginning(ctx context.Context) error {
	if t.has(t.mark.Offset, 0) {
		return nil
	}
	healthy, err := t.health(ctx)
	if err != nil {
		return err
	}
	events := append(t.damages(), healthy...)
	beginning := len(events)
	begun := false
	switch {
	case t.mark.Open.Resume != nil:
		if begun, err = t.resumed(ctx, &events); err != nil {
			return err
		}
	case t.in.Unarchived != nil:
		if err := t.sayWhatIsLost(ctx); err != nil {
			return err
		}
	}
	if !begun {
		events = slices.Insert(events, beginning, own(event.QueryStarted{Query: event.Query{
			ExecutionID: t.in.ExecutionID, MessageIDs: []string{t.in.Message.ID}, Message: cut(t.in.Message.Text, 200),
		}}))
	}
	return t.say(ctx, t.mark.Offset, 0, events...)
}

// takeUp goes on with what the attempts before knew, or notes down what those
// after must know: before the prompt is written, because what runs below the
// agent then is not the turn's.
func (t *turn) takeUp(ctx context.Context) error {
	if t.mark.begun(t.in) {
		if o := t.mark.Open; o.Interrupt != nil {
			t.stop = newStopping(o.Interrupt.Reason, o.InterruptedAt)
		}
		return nil
	}
	running, err := t.agent.conn.Mark(ctx)
	if err != nil {
		return err
	}
	t.mark.Open = &begun{ExecutionID: t.in.ExecutionID, MessageID: t.in.Message.ID, Running: running}
	if lost := t.in.Resumes; lost != nil {
		why := cmp.Or(lost.Why, fmt.Sprintf("the session's host %s was lost in the middle of the turn", lost.Host))
		t.mark.Open.Resume = &resumption{Times: lost.Times, Why: why}
	}
	return t.host.saveBookmark(t.in.Sandbox.ID, t.mark)
}

// applyOptions tells a warm agent what was changed since it was told last; one
// that can't be told is started anew. A fresh one was launched with it.
func (t *turn) applyOptions(ctx context.Context) error {
	changed := t.mark.Open.Options
	model := cmp.Or(changed.Model, t.in.Agent.Model, t.agent.launch.Model)
	permission := cmp.Or(changed.Permission, t.in.Agent.Permission, t.agent.launch.Permission)
	err := t.tellOptions(ctx, model, permission)
	if errors.Is(err, adapters.ErrUnsupported) {
		err = t.startAnew(ctx)
	}
	if err != nil {
		return err
	}
	t.mark.Model, t.mark.Permission = model, string(permission)
	return nil
}

func (t *turn) tellOptions(ctx context.Context, model string, permission adapters.Permission) error {
	if t.agent.fresh {
		return nil
	}
	if t.mark.Model != "" && model != t.mark.Model {
		if err := t.dialogue.Say(ctx, "model-"+t.in.ExecutionID, adapters.SetModel{Model: model}); err != nil {
			return err
		}
	}
	if t.mark.Permission != "" && string(permission) != t.mark.Permission {
		return t.dialogue.Say(ctx, "permission-"+t.in.ExecutionID, adapters.SetPermission{Permission: permission})
	}
	return nil
}

// startAnew ends the agent's process and begins another one for this turn.
func (t *turn) startAnew(ctx context.Context) (err error) {
	h := t.host
	if err := h.stopAgent(ctx, t.agent); err != nil {
		return err
	}
	if t.agent, err = h.agentIn(ctx, t.in.Agent, t.in.Sandbox.ID, t.in.Sandbox.Epoch, t.reached()); err != nil {
		return err
	}
	t.archiver = h.archiverOf(t.agent)
	if err := t.pulse.hold(ctx, t.agent.conn); err != nil {
		return err
	}
	return t.meet(ctx)
}

// say appends events at a place in the spool, unless an attempt before did.
func (t *turn) say(ctx context.Context, offset int64, index int, events ...event.Event) error {
	if t.has(offset, index) {
		return nil
	}
	return t.out.Add(ctx, events, stream.Position{Epoch: t.in.Sandbox.Epoch, Offset: offset, Index: index})
}

// has says whether an attempt before has written what belongs to a place in the
// spool.
func (t *turn) has(offset int64, index int) bool {
	return stream.Position{Epoch: t.in.Sandbox.Epoch, Offset: offset, Index: index}.Compare(t.had) <= 0
}

// since is a sequence number before everything that was said of this execution.
func (t *turn) since() uint64 {
	if t.in.Resumes != nil {
		return t.in.Resumes.AfterSeq
	}
	return cmp.Or(t.in.AfterSeq, t.in.LastSeq)
}

// lostSince is where begins what a lost sandbox may have taken, and the last
// block before it.
func (t *turn) lostSince() (seq uint64, anchor string) {
	if u := t.in.Unarchived; u != nil {
		return min(u.AfterSeq, t.since()), u.Anchor
	}
	return t.since(), t.in.Anchor
}

// listen pumps the agent's records until the turn has ended.
func (t *turn) listen(ctx context.Context) (RunTurnOutput, error) {
	ctx, cancel := context.WithCancel(ctx)
	syncs := newSyncing(t.archiver)
	defer syncs.stop()
	if before := t.mark.Output; before != nil && before.ArchiveBehind != "" {
		syncs.begin(ctx)
	}
	files := t.watchWorkspace(ctx)
	defer files.stop()
	defer cancel()
	records := t.records(ctx)
	look := time.NewTicker(beatEvery)
	defer look.Stop()
	defer t.stop.cancel()
	for {
		select {
		case r, more := <-records:
			if !more {
				return RunTurnOutput{}, errors.Join(ctx.Err(), runner.ErrClosed)
			}
			if errors.Is(r.err, runner.ErrDamaged) {
				if err := t.leftOut(ctx, r.Delivery, r.err); err != nil {
					return RunTurnOutput{}, err
				}
				continue
			}
			if r.err != nil {
				return t.broken(ctx, r.err)
			}
			end, err := t.take(ctx, r.Delivery)
			r.done()
			if err != nil || end != nil {
				if err != nil {
					return RunTurnOutput{}, err
				}
				cancel()
				return t.finish(context.WithoutCancel(ctx), r.Delivery, *end)
			}
		case c := <-t.controls:
			c.reply <- t.control(ctx, c.in)
		case <-t.stop.timer():
			t.escalate(ctx)
		case <-syncs.due():
			syncs.begin(ctx)
		case seen := <-files.seen:
			if err := t.sayFiles(ctx, files.syncer, seen); err != nil {
				return RunTurnOutput{}, err
			}
		case <-look.C:
			t.showBeat("running")
			t.tellWaiting(ctx)
			if err := t.watch(ctx); err != nil {
				return RunTurnOutput{}, err
			}
		case r := <-syncs.done:
			syncs.busy = false
			t.tale.behind = problem(r.err)
			if err := t.sayGrown(ctx, r.grown); err != nil {
				return RunTurnOutput{}, err
			}
		case <-ctx.Done():
			return RunTurnOutput{}, ctx.Err()
		}
	}
}

// archiveEvery is how often new transcript bytes go to the archive while a
// turn runs.
const archiveEvery = 3 * time.Second

// sayGrown tells subscribers that the archive holds more.
func (t *turn) sayGrown(ctx context.Context, grown []archive.TranscriptInfo) error {
	return t.out.Add(ctx, changed(grown), stream.Position{})
}

func problem(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return ""
	}
	return err.Error()
}

// take translates one record and passes on what the stream does not have. It
// gives how the turn ended, when this record ends it.
func (t *turn) take(ctx context.Context, d runner.Delivery) (*ending, error) {
	t.next = d.Next
	t.noteProgress(d.Record)
	events, refused := t.step(ctx, d)
	if refused != nil && !errors.Is(refused, adapters.ErrRefused) {
		return nil, refused
	}
	if n := len(events); n > 0 {
		t.track(events)
		pos := stream.Position{Epoch: t.in.Sandbox.Epoch, Offset: d.Offset, Index: n}
		if pos.Compare(t.had) > 0 {
			t.tellWaiting(ctx)
			if err := t.out.Add(ctx, events, pos); err != nil {
				return nil, err
			}
		}
	}
	var end *ending
	for _, ev := range events {
		t.tale.hear(ev)
		if err := t.permission(ctx, ev); err != nil {
			return nil, err
		}
		if idle, ok := ev.Payload.(event.SessionIdle); ok && t.asks(d) && ev.Context.Conversation() == event.Main {
			end = t.idled(idle)
		} else if ok && t.prompt == nil && ev.Context.Conversation() == event.Main {
			t.rested = &rest{idle: idle, offset: d.Offset}
		}
	}
	if end == nil && t.restedSince() {
		return t.endedUnseen(ctx)
	}
	if end == nil && t.bereft(d) {
		if t.exit.how == runner.EndWithRunner && t.in.Abandoned == "" {
			return t.loseRunner(ctx, d)
		}
		end = t.died(t.exit.how)
	}
	if refused != nil && end == nil {
		return t.turnedDown(ctx, refused)
	}
	return end, nil
}

// bereft says whether the process is gone that was to answer. It may have ended
// while nobody looked: then its end is read before the runner says that the
// prompt had gone to it.
func (t *turn) bereft(d runner.Delivery) bool {
	if how, exited := exitOf(d.Record); exited {
		t.exit = &exit{how: how, offset: d.Offset}
	}
	if t.exit == nil {
		return false
	}
	return t.exit.offset >= t.agent.conn.Attached().StartOffset || t.prompt != nil && t.exit.offset >= t.prompt.Offset
}

// rest is the agent's word that it is idle, and where it lies.
type rest struct {
	idle   event.SessionIdle
	offset int64
}

// restedSince says whether the agent had answered the prompt before its process
// ended, while nobody looked.
func (t *turn) restedSince() bool {
	return t.rested != nil && t.prompt != nil && t.rested.offset >= t.prompt.Offset
}

// endedUnseen ends a turn that a process had answered which is gone. The one
// that was started since is ended too: it was told of a prompt that it does not
// have.
func (t *turn) endedUnseen(ctx context.Context) (*ending, error) {
	if _, err := t.agent.conn.Stop(ctx, runner.Grace{}); err != nil && !errors.Is(err, runner.ErrExited) {
		return nil, fmt.Errorf("stop the agent: %w", err)
	}
	end := t.idled(t.rested.idle)
	end.exited = true
	return end, nil
}

// asks says whether a record comes behind the prompt.
func (t *turn) asks(d runner.Delivery) bool { return t.prompt != nil && d.Offset >= t.prompt.Offset }

// broken is a stream of records that ended under a live turn.
func (t *turn) broken(ctx context.Context, err error) (RunTurnOutput, error) {
	if ctx.Err() != nil {
		// The connection is good, and the next attempt may have it already.
		return RunTurnOutput{}, ctx.Err()
	}
	t.host.forget(t.in.Sandbox.ID)
	return RunTurnOutput{}, fmt.Errorf("session %s: %w", t.in.Agent.SessionID, err)
}
