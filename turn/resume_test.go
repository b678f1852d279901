package turn

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer"
)

// lossWorld is an execution's stream, and the transcripts of an agent that persists all of
// it at once or none of it.
type lossWorld struct {
	t         *testing.T
	stream    []event.Event
	persisted reducer.Builder
	m         Message
	losses    int
}

func newLossWorld(t *testing.T) *lossWorld {
	w := &lossWorld{t: t, m: Message{ID: "m1", Text: "Deploy it.", BlockIDs: PromptIDs("m1", func(id string) string { return id })}}
	w.server(event.FromServer(event.QueryStarted{Query: event.Query{ExecutionID: "x1"}}, time.Time{}))
	return w
}

func (w *lossWorld) server(events ...event.Event) {
	for _, ev := range events {
		ev.Context.Seq = uint64(len(w.stream)) + 1
		w.stream = append(w.stream, ev)
	}
}

// agent streams a block, and perhaps persists it.
func (w *lossWorld) agent(writes bool, b event.Block) {
	ev := event.Event{Payload: event.BlockUpsert{Block: b}, Context: event.Context{ConversationID: event.Main, Source: event.SourceRunner}}
	w.server(ev)
	if writes {
		w.persisted.Add(ev)
	}
}

func (w *lossWorld) asked(writes bool, m Message) {
	w.agent(writes, event.Block{ID: m.ID, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &m.Text})
}

func (w *lossWorld) calls(writes bool, id string) {
	w.agent(writes, event.Block{
		ID: id, Type: event.BlockToolUse, Status: event.StatusComplete, Execution: event.ExecutionRunning, ToolUseID: id,
		ToolName: "Bash", Input: json.RawMessage(`{"command":"make deploy"}`),
	})
}

// loses decides after a loss, with the stream read again.
func (w *lossWorld) loses(rules ...permission.EffectRule) *Resume {
	w.losses++
	h := NewHistory(Scope{ExecutionID: "x1", MessageID: "m1", BlockIDs: w.m.BlockIDs})
	for _, ev := range w.stream {
		h.Add(ev)
	}
	r := &Resume{Times: w.losses, Why: fmt.Sprintf("loss %d", w.losses)}
	w.server(r.Decide(w.m, "x1", h, w.persisted.State(), rules, time.Unix(int64(w.losses), 0))...)
	return r
}

// marked returns the calls whose effect is unknown by the stream.
func (w *lossWorld) marked() (calls []string) {
	var b reducer.Builder
	for _, ev := range w.stream {
		b.Add(ev)
	}
	for _, block := range b.State().Blocks {
		if effects.Unknown(block) {
			calls = append(calls, block.ToolUseID)
		}
	}
	return calls
}

// The agent is informed of each call once, in the text of its next prompt; also when it
// dies again before or after that.
func TestR52UnknownEffectIsToldOnce(t *testing.T) {
	t.Parallel()
	for _, writes := range []bool{true, false} {
		w := newLossWorld(t)
		w.asked(writes, w.m)
		w.calls(writes, "a")
		r := w.loses()
		require.Equal(t, writes, r.PromptPersisted)
		require.Equal(t, permission.LossContinue, r.Then)
		require.False(t, r.Withholds())
		require.Equal(t, []string{"a"}, w.marked())
		told := r.Prompt(w.m)
		require.Equal(t, 1, strings.Count(told.Text, "(call a)"))
		require.Equal(t, !writes, strings.HasPrefix(told.Text, "Deploy it."))

		// It died before it was prompted: the next one must be informed.
		again := w.loses()
		require.Equal(t, []string{"a"}, w.marked(), "the mark is there")
		told = again.Prompt(w.m)
		require.Equal(t, 1, strings.Count(told.Text, "(call a)"))

		// It died after that, and its transcript has the text: it is not repeated.
		w.asked(true, told)
		w.calls(true, "b")
		again = w.loses()
		require.Equal(t, []string{"a", "b"}, w.marked())
		told = again.Prompt(w.m)
		require.NotContains(t, told.Text, "(call a)")
		require.Equal(t, 1, strings.Count(told.Text, "(call b)"))
		w.asked(true, told)
		require.Empty(t, w.loses().Unknown)
		require.NotContains(t, again.Prompt(w.m).Text, "(call a)")
	}
}

func TestTheStrictestRuleOfAnUnknownEffect(t *testing.T) {
	t.Parallel()
	ask, fail := permission.EffectRule{Tool: "Bash", Match: "make *", Then: permission.LossAsk}, permission.EffectRule{Tool: "*", Then: permission.LossFail}
	for want, rules := range map[permission.OnLoss][]permission.EffectRule{
		permission.LossContinue: nil, permission.LossAsk: {ask, fail}, permission.LossFail: {fail, ask},
	} {
		w := newLossWorld(t)
		w.asked(true, w.m)
		w.calls(true, "a")
		r := w.loses(rules...)
		require.Equal(t, want, r.Then)
		require.Equal(t, want != permission.LossContinue, r.Withholds())
		data, err := json.Marshal(r)
		require.NoError(t, err)
		var kept Resume
		require.NoError(t, json.Unmarshal(data, &kept), "a checkpoint has it")
		require.Equal(t, r.Unknown, kept.Unknown)
	}
	w := newLossWorld(t)
	w.asked(true, w.m)
	require.False(t, w.loses(fail).Withholds(), "no call had started")
	require.False(t, (*Resume)(nil).Withholds())
}

// Calls of an earlier execution are none of this one's.
func TestUnknownEffectsAreOfTheExecution(t *testing.T) {
	t.Parallel()
	w := newLossWorld(t)
	before := w.stream
	w.stream = nil
	w.calls(false, "earlier")
	w.server(before...)
	w.asked(true, w.m)
	require.Empty(t, w.loses().Unknown)
}

// The death of the agent alone marks its calls, without a question to anyone.
func TestUnknownEffectOfADeadAgent(t *testing.T) {
	t.Parallel()
	w := newLossWorld(t)
	w.asked(true, w.m)
	w.calls(true, "a")
	for _, marks := range []int{1, 0} {
		h := NewHistory(Scope{ExecutionID: "x1", MessageID: "m1", BlockIDs: w.m.BlockIDs})
		for _, ev := range w.stream {
			h.Add(ev)
		}
		have := len(w.marked())
		w.server(w.m.Lost(Ending{Exited: true}, h, w.persisted.State(), time.Unix(1, 0))...)
		require.Len(t, w.marked(), have+marks)
	}
}
