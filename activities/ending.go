package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
)

// ending is how a turn ended.
type ending struct {
	outcome session.Outcome
	stop    string
	failure *event.ErrorInfo
	// exited says that the agent's process is gone.
	exited bool
}

// stopping is an interrupt under way: asked, then terminated, then killed.
type stopping struct {
	asked  bool
	reason string
	steps  int
	clock  *time.Timer
}

// Each step of an interrupt has this long before the next, harder one.
const stopPatience = 10 * time.Second

// newStopping continues an interrupt that was handed over at the given time,
// perhaps by an attempt before: the steps that were due since count as taken,
// so workers that come and go don't put off the next one. That one waits long
// enough for this attempt to read that the agent has stopped.
func newStopping(reason string, at time.Time) stopping {
	since := max(time.Since(at), 0)
	return stopping{
		asked: true, reason: reason, steps: int(since / stopPatience),
		clock: time.NewTimer(max(stopPatience-since%stopPatience, stopPatience/5)),
	}
}

func (s *stopping) timer() <-chan time.Time {
	if s.clock == nil {
		return nil
	}
	return s.clock.C
}

func (s *stopping) cancel() {
	if s.clock != nil {
		s.clock.Stop()
	}
}

// interrupt asks the agent to stop; a repeat is taken and changes nothing.
func (t *turn) interrupt(ctx context.Context, id, reason string) error {
	if t.stop.asked {
		return nil
	}
	if err := t.dialogue.Say(ctx, id, adapters.Interrupt{}); err != nil {
		return err
	}
	now := time.Now()
	t.stop = newStopping(reason, now)
	t.mark.Open.Interrupt, t.mark.Open.InterruptedAt = &Interrupt{Reason: reason}, now.UTC()
	return t.host.saveBookmark(t.in.Sandbox.ID, t.mark)
}

// escalate is called when the agent did not stop in time.
func (t *turn) escalate(ctx context.Context) {
	t.stop.steps++
	var err error
	if t.stop.steps == 1 {
		err = t.agent.conn.Signal(ctx, syscall.SIGTERM)
	} else {
		_, err = t.agent.conn.Stop(ctx, runner.Grace{Stdin: -1, Term: -1})
	}
	if err != nil {
		t.host.o.Log.Warn("escalate an interrupt", "session", t.in.Agent.SessionID, "step", t.stop.steps, "error", err)
	}
	t.stop.clock = time.NewTimer(stopPatience)
}

// idled judges the agent's own word that the turn is over.
func (t *turn) idled(idle event.SessionIdle) *ending {
	switch {
	case t.in.Abandoned != "" && (idle.Interrupted || idle.Error != nil):
		return t.abandoned(idle.StopReason)
	case t.cut() != nil:
		return &ending{outcome: session.Failed, stop: idle.StopReason, failure: t.cut()}
	case idle.Interrupted || t.stop.asked:
		return &ending{outcome: session.Interrupted, stop: idle.StopReason}
	case idle.Error != nil:
		return &ending{outcome: session.Failed, stop: idle.StopReason, failure: idle.Error}
	}
	return &ending{outcome: session.Completed, stop: idle.StopReason}
}

// died judges the end of the agent's process before its turn was over.
func (t *turn) died(how string) *ending {
	if t.in.Abandoned != "" {
		return t.abandoned("killed")
	}
	if failure := t.cut(); failure != nil {
		return &ending{outcome: session.Failed, exited: true, failure: failure}
	}
	if t.stop.asked {
		return &ending{outcome: session.Interrupted, stop: "killed", exited: true}
	}
	msg := fmt.Sprintf("the agent ended in the middle of the turn (%s)", how)
	if said := strings.TrimSpace(t.tale.stderr); said != "" {
		msg += ": " + cut(said, 500)
	}
	return &ending{outcome: session.Failed, exited: true, failure: &event.ErrorInfo{Message: msg, Code: session.TypeAgentFailed}}
}

// exit is the end of an agent's process, as the spool has it.
type exit struct {
	how    string
	offset int64
}

// exitOf reads a record as the end of the agent's process.
func exitOf(r event.Record) (how string, exited bool) {
	if r.Dir != event.DirSig {
		return "", false
	}
	if strings.HasPrefix(r.Line, "exit") || strings.HasPrefix(r.Line, "signal") {
		return r.Line, true
	}
	return "", false
}

// finish writes the end of the turn: the stream first, then the bookmark, so
// that an attempt which dies in between only repeats what can be repeated; the
// archive last, because it may be away.
func (t *turn) finish(ctx context.Context, d runner.Delivery, end ending) (RunTurnOutput, error) {
	if t.stop.asked || end.outcome == session.Interrupted {
		t.sweep(ctx)
	}
	stands, err := t.standingEnd(ctx)
	if err != nil {
		return RunTurnOutput{}, err
	}
	if stands == nil {
		err = t.writeEnd(ctx, d, end)
	}
	if err != nil {
		return RunTurnOutput{}, err
	}
	state, err := t.dialogue.State()
	if err != nil {
		return RunTurnOutput{}, err
	}
	out := t.output(end)
	if stands != nil {
		out.Result = *stands
	}
	t.mark.Offset, t.mark.Translator = d.Next, state
	t.mark.Ended, t.mark.Output, t.mark.Open, t.mark.Unarchived = t.in.ExecutionID, &out, nil, true
	if err := t.host.saveBookmark(t.in.Sandbox.ID, t.mark); err != nil {
		return RunTurnOutput{}, err
	}
	t.beatEnded(ctx)
	if end.exited {
		t.host.forget(t.in.Sandbox.ID)
	}
	if err := t.settle(ctx, d, end); err != nil {
		return RunTurnOutput{}, err
	}
	return t.archived(ctx)
}

// archived archives what an ended turn left, notes that, and gives its output.
func (t *turn) archived(ctx context.Context) (RunTurnOutput, error) {
	if err := t.collectOwn(ctx); err != nil {
		return RunTurnOutput{}, err
	}
	t.archiveEnd(ctx)
	out := *t.mark.Output
	out.LastBlockID = cmp.Or(t.tale.blocks.anchor(len(t.tale.blocks)), out.LastBlockID)
	out.ArchiveBehind, out.LastSeq = t.tale.behind, max(out.LastSeq, t.writer.Tail().LastSeq)
	t.mark.Output, t.mark.Unarchived = &out, false
	return out, t.saveEnded()
}

// archiveLate is for a turn that ended, and whose worker died before it was
// archived.
func (t *turn) archiveLate(ctx context.Context) (out RunTurnOutput, err error) {
	defer t.close()
	if err := t.takeStream(ctx); err != nil {
		return out, err
	}
	if t.agent, err = t.host.find(ctx, t.in.Agent, t.in.Sandbox.ID, t.in.Sandbox.Epoch); err != nil {
		return out, err
	}
	t.archiver, t.owned = t.host.archiverOf(t.agent), true
	return t.archived(ctx)
}

// standingEnd is the end that an attempt before has written, nil for none. When
// the agent has died since, this attempt may have found its end at another place
// of the spool; a message has one end.
func (t *turn) standingEnd(ctx context.Context) (*session.Result, error) {
	if t.fence.Attempt%attemptsOfTurn <= 1 && !t.in.Continues {
		return nil, nil
	}
	if err := t.out.Flush(ctx); err != nil {
		return nil, err
	}
	p, err := readPast(ctx, t.host.o.Stream, TakeUpInput{SessionID: t.in.Agent.SessionID, LastSeq: t.since()})
	if err != nil {
		return nil, err
	}
	for _, r := range p.results {
		if r.MessageID == t.in.Message.ID && r.ExecutionID == t.in.ExecutionID {
			return &r, nil
		}
	}
	return nil, nil
}

// sweep ends the processes that an interrupted turn left running.
func (t *turn) sweep(ctx context.Context) {
	swept, err := t.agent.conn.Sweep(ctx, t.mark.Open.Running)
	if err != nil {
		// An agent that has exited took everything with it.
		t.host.o.Log.Debug("sweep after an interrupt", "session", t.in.Agent.SessionID, "error", err)
		return
	}
	if len(swept.Left) > 0 {
		t.host.o.Log.Warn("processes survived an interrupt", "session", t.in.Agent.SessionID, "left", len(swept.Left))
	}
}

// The last events of a turn stand behind all of their record's. Between
// indexUntold and indexLost each batch has one.
const (
	indexUntold  = 1 << 20
	indexLost    = 1 << 30
	indexFailure = 1<<30 + 1
	indexEnd     = 1<<30 + 2
)

func (t *turn) writeEnd(ctx context.Context, d runner.Delivery, end ending) error {
	if err := t.tellUntold(ctx, d); err != nil {
		return err
	}
	keep := t.keepLost
	if end.exited {
		keep = t.markLost
	}
	if err := keep(ctx, d); err != nil {
		return err
	}
	if end.failure != nil && (end.exited || t.cut() != nil) && t.in.Abandoned == "" {
		block := own(event.BlockUpsert{Block: event.Block{
			ID: "sojourn-" + t.in.Message.ID + "-failed", Type: event.BlockError, Status: event.StatusComplete,
			Source: event.SourceServer, Message: event.Text(end.failure.Message), Code: end.failure.Code,
		}})
		said := []event.Event{block}
		if end.exited {
			said = append(said, t.unhealthy(end.failure.Message)...)
		}
		if err := t.say(ctx, d.Offset, indexFailure, said...); err != nil {
			return err
		}
		t.owned = true
	}
	if err := t.out.Flush(ctx); err != nil {
		return err
	}
	if err := t.say(ctx, d.Offset, indexEnd, own(t.endEvent(end))); err != nil {
		return err
	}
	return t.out.Flush(ctx)
}

func (t *turn) endEvent(end ending) event.Payload {
	q := event.Query{
		ExecutionID: t.in.ExecutionID, MessageIDs: []string{t.in.Message.ID},
		DurationMS: time.Since(t.began).Milliseconds(), Error: end.failure,
	}
	if end.outcome != session.Failed {
		q.Result = t.result(end)
	}
	switch end.outcome {
	case session.Completed:
		return event.QueryCompleted{Query: q}
	case session.Interrupted:
		q.Reason = t.stop.reason
		return event.QueryInterrupted{Query: q}
	}
	return event.QueryFailed{Query: q}
}

func (t *turn) result(end ending) *event.QueryResult {
	r := t.tale.result()
	r.StopReason, r.LastSeq = end.stop, t.writer.Tail().LastSeq
	return &r
}

// historyResponse bounds the answer's text in workflow history.
const historyResponse = 2 << 10

func (t *turn) output(end ending) RunTurnOutput {
	res := session.Result{
		ExecutionID: t.in.ExecutionID, MessageID: t.in.Message.ID, Outcome: end.outcome, Error: end.failure,
	}
	if end.outcome != session.Failed {
		short := shortened(*t.result(end), historyResponse)
		res.Result = &short
	}
	if end.outcome == session.Interrupted {
		res.Reason = t.stop.reason
	}
	return RunTurnOutput{
		Result: res, Usage: t.tale.usage, CostUSD: t.tale.costUSD, LastSeq: t.writer.Tail().LastSeq,
		LastBlockID: t.tale.blocks.anchor(len(t.tale.blocks)), LastBlock: t.tale.last, AgentExited: end.exited,
	}
}

// archiveEnd archives what the turn left, and looks once more behind the turn:
// an agent may write its last lines a moment after it said that it is idle.
func (t *turn) archiveEnd(ctx context.Context) {
	if len(t.mark.Own) > 0 {
		t.archiveOwn(ctx)
		if err := t.saveEnded(); err != nil {
			t.tale.behind = err.Error()
		}
	}
	once, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	grown, err := t.archiver.sync(once)
	if err != nil {
		t.tale.behind = err.Error()
	} else if behind := t.syncWorkspace(once); behind != "" || len(t.mark.Own) == 0 {
		t.tale.behind = behind
	}
	if err := errors.Join(t.sayGrown(ctx, grown), t.out.Flush(ctx)); err != nil {
		t.host.o.Log.Debug("the growth of the archive was not said", "session", t.in.Agent.SessionID, "error", err)
	}
	t.host.after.Go(func() { t.host.lookAgain(t.archiver) })
}

// saveEnded notes what came of an ended turn, unless another turn has written
// the bookmark since: after a reset one may run beside it.
func (t *turn) saveEnded() error {
	h, id := t.host, t.in.Sandbox.ID
	h.marks.Lock()
	defer h.marks.Unlock()
	now, err := h.bookmark(id)
	if err != nil || now.Ended != t.in.ExecutionID || now.Open != nil {
		return err
	}
	return h.replaceBookmark(id, t.mark)
}

// settleTime is when a turn's transcripts are looked at again.
const settleTime = time.Second

// looks bounds how often that is tried: S3 may be away.
const looks = 60

func (h *Host) lookAgain(a *archiver) {
	for range looks {
		select {
		case <-time.After(settleTime):
		case <-h.ctx.Done():
			return
		}
		err := h.look(a)
		if err == nil || errors.Is(err, archive.ErrFenced) {
			return
		}
		h.o.Log.Debug("archive after a turn", "session", a.agent.launch.SessionID, "error", err)
	}
}

func (h *Host) look(a *archiver) error {
	ctx, cancel := context.WithTimeout(h.ctx, archivePatience)
	defer cancel()
	_, err := a.sync(ctx)
	return err
}
