package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/stream"
)

// resumption is how an execution goes on whose agent was lost with its runner
// or with its host: by a rule, decided once. What the agent has in its
// transcript it is told to go on with; what it has not it is asked again.
type resumption struct {
	// Times counts the losses of this execution.
	Times int `json:"times"`
	// Heard says that the message is in the transcript.
	Heard bool `json:"heard"`
	// Why is what was lost, in words.
	Why string `json:"why"`
}

// goOn is what an agent is told that was cut off at its work.
const goOn = "Continue from where you left off. The machine that you worked on was lost in the middle of this turn; " +
	"what was running then has ended, and files may be as they were at the end of the turn before."

// prompt is what the agent is asked, under an id of its own: the first one went
// to a process that is gone.
func (r *resumption) prompt(m adapters.Prompt) adapters.Prompt {
	if !r.Heard {
		return m
	}
	m.MessageID = resumedID(m.MessageID, r.Times)
	m.Text, m.Parts = goOn, nil
	return m
}

func resumedID(messageID string, times int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s resumed %d", messageID, times)).String()
}

// promptIDs are the ids that the blocks of a message may have, whose agent may have
// been asked it again: more than an execution can have, which loses so many hosts
// and runners at most.
func promptIDs(a adapters.Adapter, messageID string) []string {
	inTranscript := func(id string) string { return id }
	if n, ok := a.(adapters.Naming); ok {
		inTranscript = n.BlockID
	}
	ids := []string{messageID, inTranscript(messageID)} // Sojourn's own block of it, and the agent's
	for times := 1; times <= maxResumptions*(maxResumptions+1); times++ {
		ids = append(ids, inTranscript(resumedID(messageID, times)))
	}
	return ids
}

// promptIDs are those of the turn's message.
func (t *turn) promptIDs() []string { return promptIDs(t.agent.adapter, t.in.Message.ID) }

// errResumed ends an attempt whose agent was lost with its runner; the next one
// goes on.
var errResumed = temporal.NewApplicationError("the runner died, and its agent with it; the turn is resumed", "RunnerLost")

// told is what the stream has of this execution.
type told struct {
	live reducer.State
	// started: the query's beginning was said.
	started bool
}

// toldSince reads the execution's part of the stream. What is past the stream's
// retention nobody can tell any more: the part is empty then.
func (t *turn) toldSince(ctx context.Context, after uint64) (told, error) {
	var said told
	fold := reducer.NewBuilder(reducer.State{})
	for ev, err := range t.host.o.Stream.Read(ctx, t.in.Agent.SessionID, after, stream.ReadOptions{}) {
		if errors.Is(err, stream.ErrPurged) {
			t.host.o.Log.Warn("a turn's beginning is past the stream's retention", "session", t.in.Agent.SessionID)
			return told{}, nil
		}
		if err != nil {
			return told{}, fmt.Errorf("read what was said of execution %s: %w", t.in.ExecutionID, err)
		}
		if q, ok := ev.Payload.(event.QueryStarted); ok && q.ExecutionID == t.in.ExecutionID {
			said.started = true
		}
		fold.Add(ev)
	}
	said.live = fold.State()
	return said, nil
}

// takenAway is the part of the conversation that a lost sandbox may have taken:
// what was said of this execution, and of those before that the archive may not
// have whole.
func (t *turn) takenAway(ctx context.Context, said told) (reducer.State, error) {
	since, _ := t.lostSince()
	if since >= t.since() {
		return said.live, nil
	}
	all, err := t.toldSince(ctx, since)
	return all.live, err
}

// asked is the block of the message that an execution is about, as the agent
// said it: the first of its part that was not lost before.
func asked(live reducer.State) (event.Block, bool) {
	for _, b := range live.Blocks {
		if b.Type == event.BlockUserMessage && b.Source != event.SourceServer && !reducer.Lost(b) {
			return b, true
		}
	}
	return event.Block{}, false
}

// written reports whether a message is in the agent's transcript, by one of its
// ids: blocks have the same ids there as they had live.
func written(ids []string, restored reducer.State) bool {
	return slices.ContainsFunc(restored.Blocks, func(b event.Block) bool {
		return b.Type == event.BlockUserMessage && slices.Contains(ids, b.ID)
	})
}

// resumed decides how a resumed execution goes on, keeps that for the attempts
// after this one, and adds the events that say so. begun says whether the
// query's beginning stands in the stream.
func (t *turn) resumed(ctx context.Context, events *[]event.Event) (begun bool, err error) {
	r := t.mark.Open.Resume
	said, err := t.toldSince(ctx, t.since())
	if err != nil {
		return false, err
	}
	whole, err := t.takenAway(ctx, said)
	if err != nil {
		return false, err
	}
	restored, err := t.agent.onDisk(ctx, t.promptIDs(), said.live, whole)
	if err != nil {
		return false, fmt.Errorf("look for what can be resumed: %w", err)
	}
	message, known := asked(said.live)
	r.Heard = written(t.promptIDs(), restored)
	o := reducer.DifferenceOptions{At: time.Now().UTC(), Asked: t.promptIDs()}
	if known && !r.Heard {
		r.Heard = written([]string{message.ID}, restored)
	}
	if known && !r.Heard {
		// Asked again, the agent says the message again, some of them under an
		// id of their own choice.
		o.AskedAgain = message.ID
	}
	changed := reducer.Difference(whole, restored, o)
	t.owned = true
	*events = slices.Concat(*events, changed, []event.Event{r.notice(t.in.ExecutionID, len(changed))})
	return said.started, t.host.saveBookmark(t.in.Sandbox.ID, t.mark)
}

// notice says in the conversation that the turn was cut and goes on.
func (r *resumption) notice(executionID string, changed int) event.Event {
	text := r.Why + "; "
	if r.Heard {
		text += "the agent has the message in its transcript and was told to go on"
	} else {
		text += "the agent had not written the message down and was asked again"
	}
	if changed > 0 {
		text += fmt.Sprintf("; %d blocks were lost or stand otherwise in the transcript", changed)
	}
	return own(event.BlockUpsert{Block: event.Block{
		ID: fmt.Sprintf("sojourn-%s-resumed-%d", executionID, r.Times), Type: event.BlockSystem, Status: event.StatusComplete,
		Source: event.SourceServer, Subtype: "resumed", Message: event.Text(text),
	}})
}

// maxResumptions bounds how often an execution is resumed by itself: something
// in it may be what kills its hosts.
const maxResumptions = 3

// loseRunner notes that the agent was killed with its runner, for the next
// attempt to go on behind d. It gives how the turn ends if that happened too
// often.
func (t *turn) loseRunner(ctx context.Context, d runner.Delivery) (*ending, error) {
	times := 1
	if before := t.mark.Open.Resume; before != nil {
		times = before.Times + 1
	}
	if times > maxResumptions || t.stop.asked {
		return t.died("with its runner"), nil
	}
	if err := t.say(ctx, d.Offset, indexFailure, t.unhealthy("the agent was killed with its runner")...); err != nil {
		return nil, err
	}
	if err := t.out.Flush(ctx); err != nil {
		return nil, err
	}
	state, err := t.dialogue.State()
	if err != nil {
		return nil, err
	}
	t.mark.Open.Resume = &resumption{Times: times, Why: "the agent was killed with its runner"}
	t.mark.Offset, t.mark.Translator = d.Next, state
	if err := t.host.saveBookmark(t.in.Sandbox.ID, t.mark); err != nil {
		return nil, err
	}
	return nil, errResumed
}

// endedElsewhere looks whether an execution had ended already when its host was
// lost, before Temporal heard of its completion: its end stands in the stream, or
// stood there by the host's last heartbeat, and it is not run again. What was said
// and did not reach the archive is marked as lost.
func (t *turn) endedElsewhere(ctx context.Context) (out RunTurnOutput, ended bool, err error) {
	p, err := readPast(ctx, t.host.o.Stream, TakeUpInput{SessionID: t.in.Agent.SessionID, LastSeq: t.since()})
	if err != nil {
		return out, false, err
	}
	result := t.in.Resumes.Ended
	for _, r := range p.results {
		if r.MessageID == t.in.Message.ID && r.ExecutionID == t.in.ExecutionID {
			result = &r
		}
	}
	if result == nil {
		return out, false, nil
	}
	if err := t.sayWhatIsLost(ctx); err != nil {
		return out, false, err
	}
	t.owned = true
	out = RunTurnOutput{Result: *result, LastBlock: p.lastBlock}
	if r := out.Result.Result; r != nil {
		out.Usage, out.CostUSD = r.Usage, r.CostUSD
	}
	t.mark.Ended, t.mark.Output, t.mark.Unarchived = t.in.ExecutionID, &out, true
	if err := t.host.saveBookmark(t.in.Sandbox.ID, t.mark); err != nil {
		return out, false, err
	}
	out, err = t.archived(ctx)
	return out, true, err
}

// sayWhatIsLost makes the conversation say what the transcripts do, of a turn
// whose agent is gone.
func (t *turn) sayWhatIsLost(ctx context.Context) error {
	if err := t.out.Flush(ctx); err != nil {
		return err
	}
	said, err := t.toldSince(ctx, t.since())
	if err != nil {
		return err
	}
	whole, err := t.takenAway(ctx, said)
	if err != nil {
		return err
	}
	restored, err := t.agent.onDisk(ctx, t.promptIDs(), whole)
	if err != nil {
		return fmt.Errorf("look for what was lost: %w", err)
	}
	now := time.Now().UTC()
	events := unsaved(t.promptIDs(), whole, restored, now)
	t.owned = t.owned || len(events) > 0
	if err := t.out.Add(ctx, events, stream.Position{}); err != nil {
		return err
	}
	return t.out.Flush(ctx)
}
