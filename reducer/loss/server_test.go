package loss

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
)

// story makes the events of a turn, and what the agent's transcript has of them.
type story struct {
	live []event.Event
	// native are the agent's blocks in the order in which they were created.
	native []event.Event
	open   []string
	lost   map[Ref]bool
	n      int
}

func (s *story) add(source event.Source, p event.Payload) event.Event {
	ev := event.Event{Payload: p, Context: event.Context{
		SessionID: "s", ConversationID: event.Main, Source: source, Seq: uint64(len(s.live) + 1),
	}}
	s.live = append(s.live, ev)
	return ev
}

func (s *story) id(kind string) string {
	s.n++
	return fmt.Sprintf("%s%d", kind, s.n)
}

func (s *story) begin() { s.begun(s.id("text")) }

func (s *story) begun(id string) {
	s.native = append(s.native, s.add(event.SourceRunner, event.BlockUpsert{Block: block(id, event.BlockAssistantText, event.StatusPending, "")}))
	s.open = append(s.open, id)
	s.half(id)
}

// half starts a text that is not empty any more.
func (s *story) half(id string) {
	if s.n%2 == 0 {
		s.add(event.SourceRunner, event.BlockDelta{BlockID: id, Delta: "half of " + id})
	}
}

// tools runs calls in parallel: all calls first, the results in any order.
func (s *story) tools(r *rand.Rand) {
	var results []event.Block
	for range 1 + r.IntN(3) {
		id := s.id("tool")
		s.native = append(s.native, s.add(event.SourceRunner, event.BlockUpsert{Block: event.Block{ID: id, Type: event.BlockToolUse, ToolUseID: id, Status: event.StatusComplete}}))
		results = append(results, event.Block{ID: id + ":result", Type: event.BlockToolResult, ToolUseID: id, Status: event.StatusComplete, Output: json.RawMessage(`"x"`)})
	}
	r.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
	for _, b := range results {
		s.native = append(s.native, s.add(event.SourceRunner, event.BlockUpsert{Block: b}))
		if r.IntN(3) == 0 {
			s.own(r)
		}
	}
}

func (s *story) end(r *rand.Rand, how string) {
	if len(s.open) == 0 {
		return
	}
	at := r.IntN(len(s.open))
	id := s.open[at]
	s.open = slices.Delete(s.open, at, at+1)
	switch how {
	case "whole":
		s.add(event.SourceRunner, event.BlockDelta{BlockID: id, Delta: "said"})
		s.add(event.SourceRunner, event.BlockUpsert{Block: block(id, event.BlockAssistantText, event.StatusComplete, "said")})
	case "empty":
		if s.said(id) {
			s.lose(id)
		}
		s.forget(id)
	case "lost":
		s.lose(id)
	case "again":
		s.lose(id)
		s.keep()
		s.own(r)
		s.begun(id) // under the id that the transcript has too
	}
}

func (s *story) forget(id string) {
	s.native = slices.DeleteFunc(s.native, func(ev event.Event) bool {
		p, ok := ev.Payload.(event.BlockUpsert)
		return ok && p.Block.ID == id
	})
}

// said reports whether a block has content.
func (s *story) said(id string) bool {
	for _, b := range foldAll(s.live...).Blocks {
		if b.ID == id {
			return !reducer.EmptyText(b)
		}
	}
	return false
}

// lose withdraws what the agent streamed.
func (s *story) lose(id string) {
	s.forget(id)
	if s.lost == nil {
		s.lost = map[Ref]bool{}
	}
	s.lost[Ref{event.Main, id}] = true
	s.add(event.SourceRunner, event.BlockUpsert{Block: event.Block{
		ID: id, Type: event.BlockAssistantText, Status: event.StatusError,
		Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")},
	}})
}

// keep turns what is lost into server blocks; a turn folds only that.
func (s *story) keep() {
	lost := slices.DeleteFunc(slices.Clone(s.live), func(ev event.Event) bool { return !s.lost[RefOf(ev)] })
	for _, ev := range Keep(foldAll(lost...), time.Time{}) {
		s.add(event.SourceServer, ev.Payload)
	}
}

func (s *story) own(r *rand.Rand) {
	if r.IntN(3) == 0 {
		id := s.id("child")
		s.add(event.SourceServer, event.SubagentSpawned{ToolUseID: id, AgentID: id})
		if r.IntN(2) == 0 {
			s.add(event.SourceServer, event.SubagentCompleted{ToolUseID: id, AgentID: id, Status: "completed"})
		}
		return
	}
	s.add(event.SourceServer, event.BlockUpsert{Block: event.Block{
		ID: s.id("own"), Type: event.BlockSystem, Status: event.StatusComplete, Source: event.SourceServer, Message: new("notice"),
	}})
}

// newStory returns a turn of random acts. It ends when the agent is idle, or with the
// agent's death, which loses its last output.
func newStory(r *rand.Rand) *story {
	s := &story{}
	for range 3 + r.IntN(25) {
		switch r.IntN(8) {
		case 0, 1:
			s.begin()
		case 2, 3:
			s.end(r, "whole")
		case 4:
			s.end(r, []string{"empty", "lost", "again"}[r.IntN(3)])
		case 5:
			s.tools(r)
		default:
			s.own(r)
		}
	}
	if r.IntN(2) == 0 {
		s.die(r)
	} else {
		for len(s.open) > 0 {
			s.end(r, []string{"whole", "empty"}[r.IntN(2)])
		}
		s.add(event.SourceRunner, event.SessionIdle{})
	}
	s.keep()
	return s
}

func (s *story) die(r *rand.Rand) {
	for len(s.open) > 0 {
		s.end(r, "lost")
	}
	restored := foldAll(whole(s.native[:len(s.native)-r.IntN(len(s.native)+1)])...)
	for _, ev := range Difference(foldAll(s.live...), restored, Options{}) {
		if lost, ok := ev.Payload.(event.BlockUpsert); ok && ev.Context.Source == event.SourceServer {
			s.forget(lost.Block.ID)
		}
		s.add(ev.Context.Source, ev.Payload)
	}
	s.own(r)
}

func fold(t *testing.T, events iter.Seq2[event.Event, error]) reducer.State {
	t.Helper()
	b := reducer.NewBuilder(reducer.State{})
	for ev, err := range events {
		require.NoError(t, err)
		b.Add(ev)
	}
	b.Add(event.Event{Payload: event.SessionIdle{}, Context: event.Context{ConversationID: event.Main}})
	return b.State()
}

func all(events []event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// whole returns blocks as a transcript has them: complete.
func whole(native []event.Event) []event.Event {
	var out []event.Event
	for _, ev := range native {
		p := ev.Payload.(event.BlockUpsert)
		p.Block.Status = event.StatusComplete
		if p.Block.Type == event.BlockAssistantText {
			p.Block.Content = new("said")
		}
		ev.Payload = p
		out = append(out, ev)
	}
	return out
}

// What a restore assembles from the agent's transcript and Sojourn's server
// entries is what subscribers saw, in its order, over several turns: also what
// the agent withdrew or lost.
func TestOwnEntriesKeepTheLiveOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		var live, native []event.Event
		var own []archive.ServerEntry
		anchor, n, seq := "", 0, uint64(0)
		for range 1 + r.IntN(3) {
			s := storyFrom(r, n)
			n = s.n
			c := NewServerBlocks(anchor)
			for i := range s.live {
				seq++
				s.live[i].Context.Seq = seq
				c.Add(s.live[i])
			}
			own = append(own, entriesOf(c)...)
			anchor = c.Last()
			live, native = append(live, s.live...), append(native, s.native...)
		}
		want, got := brief(fold(t, all(live))), brief(fold(t, archive.Merge(all(whole(native)), own)))
		require.Equal(t, want, got, "seed %d", seed)
	}
}

func storyFrom(r *rand.Rand, n int) *story {
	s := newStory(r)
	if n == 0 {
		return s
	}
	rename := func(id string) string { return fmt.Sprintf("%s.%d", id, n) }
	for _, list := range [][]event.Event{s.live, s.native} {
		for i, ev := range list {
			switch p := ev.Payload.(type) {
			case event.BlockUpsert:
				p.Block.ID = rename(p.Block.ID)
				list[i].Payload = p
			case event.BlockDelta:
				p.BlockID = rename(p.BlockID)
				list[i].Payload = p
			case event.SubagentSpawned:
				p.ToolUseID, p.AgentID = rename(p.ToolUseID), rename(p.AgentID)
				list[i].Payload = p
			case event.SubagentCompleted:
				p.ToolUseID, p.AgentID = rename(p.ToolUseID), rename(p.AgentID)
				list[i].Payload = p
			}
		}
	}
	s.n += n
	return s
}

// The end of a subagent whose block is not in this turn can't be an anchor: what follows it
// is anchored to the block before it.
func TestOwnBlockBehindTheEndOfASubagent(t *testing.T) {
	t.Parallel()
	s := &story{}
	s.add(event.SourceRunner, event.BlockUpsert{Block: block("kept", event.BlockAssistantText, event.StatusComplete, "said")})
	s.add(event.SourceServer, event.SubagentCompleted{ToolUseID: "before", Status: event.SubagentFailed})
	s.own(rand.New(rand.NewPCG(1, 2)))
	c := NewServerBlocks("")
	for _, ev := range s.live {
		c.Add(ev)
	}
	entries := entriesOf(c)
	require.NotEmpty(t, entries)
	for _, e := range entries[:2] {
		require.Equal(t, "kept", e.Anchor.AfterBlockID)
	}
}

// A subagent's thread that is read late repeats its start in its own conversation, where
// it creates no block: a server block there is anchored to nothing before the first one.
func TestOwnBlockInAThreadThatRepeatsItsStart(t *testing.T) {
	t.Parallel()
	c := NewServerBlocks("")
	for _, ev := range []event.Event{
		{Payload: event.SubagentSpawned{ToolUseID: "t1"}},
		{Payload: event.SubagentSpawned{ToolUseID: "t1"}, Context: event.Context{ConversationID: "t1"}},
		{Payload: text("first", event.StatusComplete, "said"), Context: event.Context{ConversationID: "t1"}},
		{Payload: lostText("first"), Context: event.Context{ConversationID: "t1", Source: event.SourceServer}},
	} {
		c.Add(ev)
	}
	placed := c.Placed()
	require.Len(t, placed, 1)
	require.Empty(t, placed[0].AfterBlockID)
}

func lostText(id string) event.BlockUpsert {
	b := block(id, event.BlockAssistantText, event.StatusError, "said")
	b.Metadata = map[string]json.RawMessage{"lost": json.RawMessage("true")}
	return event.BlockUpsert{Block: b}
}

// A server block after a block that was lost with its agent is anchored before that one,
// whose id will never be in a transcript.
func TestOwnBlockBehindALostOne(t *testing.T) {
	t.Parallel()
	s := &story{}
	for _, id := range []string{"kept", "gone"} {
		s.native = append(s.native, s.add(event.SourceRunner, event.BlockUpsert{Block: block(id, event.BlockAssistantText, event.StatusComplete, "said")}))
	}
	s.lose("gone")
	s.keep()
	s.add(event.SourceServer, event.BlockUpsert{Block: event.Block{ID: "failed", Type: event.BlockError, Status: event.StatusComplete, Source: event.SourceServer}})
	c := NewServerBlocks("")
	for _, ev := range s.live {
		c.Add(ev)
	}
	entries := entriesOf(c)
	require.Len(t, entries, 2)
	for _, e := range entries {
		require.Equal(t, "kept", e.Anchor.AfterBlockID)
	}
	require.True(t, reducer.Lost(entries[0].Event.Payload.(event.BlockUpsert).Block), "in the order of their places")
}

// TestUnwrittenPromptIsKept: an agent that dies before it has persisted its
// prompt loses nothing of it, and later blocks follow it in the archive too.
func TestUnwrittenPromptIsKept(t *testing.T) {
	t.Parallel()
	var live story
	asked := live.add(event.SourceRunner, event.BlockUpsert{Block: block("u1", event.BlockUserMessage, event.StatusComplete, "asked before")})
	said := live.add(event.SourceRunner, event.BlockUpsert{Block: block("a1", event.BlockAssistantText, event.StatusComplete, "said before")})
	onDisk := []event.Event{asked, said}
	live.add(event.SourceRunner, event.BlockUpsert{Block: block("u2", event.BlockUserMessage, event.StatusComplete, "not written")})
	live.add(event.SourceRunner, event.BlockUpsert{Block: block("a2", event.BlockAssistantText, event.StatusPending, "nor this")})

	state, disk := foldAll(live.live...), foldAll(onDisk...)
	kept := Difference(state, disk, Options{At: time.Unix(1, 0), Asked: []string{"u2"}})
	require.Len(t, kept, 2)
	for _, ev := range kept {
		live.add(event.SourceServer, ev.Payload)
	}
	failed := block("failed", event.BlockError, event.StatusComplete, "")
	failed.Source = event.SourceServer
	live.add(event.SourceServer, event.BlockUpsert{Block: failed})

	// The agent continues in another process, and appends to its transcript.
	later := live.add(event.SourceRunner, event.BlockUpsert{Block: block("u3", event.BlockUserMessage, event.StatusComplete, "asked later")})
	restored := restoredFrom(t, live, append(onDisk, later))
	differences, err := parity.Compare(foldAll(live.live...), restored, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, differences)
	require.Equal(t, event.StatusComplete, restored.Blocks[2].Status, "a message is no lost block")
	require.Empty(t, Difference(foldAll(live.live...), foldAll(append(onDisk, later)...), Options{At: time.Unix(1, 0), Asked: []string{"u3"}}), "once")
}

// TestUnwrittenPromptUnderAnIDOfTheAgents: the next message is sent under the id
// of the one that was not persisted, and both are kept.
func TestUnwrittenPromptUnderAnIDOfTheAgents(t *testing.T) {
	t.Parallel()
	var live story
	onDisk := []event.Event{live.add(event.SourceRunner, event.BlockUpsert{Block: block("n:1", event.BlockUserMessage, event.StatusComplete, "asked before")})}
	live.add(event.SourceRunner, event.BlockUpsert{Block: block("n:2", event.BlockUserMessage, event.StatusComplete, "not written")})
	live.add(event.SourceRunner, event.BlockUpsert{Block: block("n:2:text", event.BlockAssistantText, event.StatusComplete, "nor this")})
	for _, ev := range Difference(foldAll(live.live...), foldAll(onDisk...), Options{At: time.Unix(1, 0), Asked: []string{"m2", "made-of-m2"}, Chosen: map[string]string{"n:2": "m2"}}) {
		live.add(event.SourceServer, ev.Payload)
	}
	failed := block("failed", event.BlockError, event.StatusComplete, "")
	failed.Source = event.SourceServer
	live.add(event.SourceServer, event.BlockUpsert{Block: failed})
	require.Equal(t, []string{"asked before", "nor this", "not written", ""}, contents(foldAll(live.live...)))
	onDisk = append(onDisk,
		live.add(event.SourceRunner, event.BlockUpsert{Block: block("n:2", event.BlockUserMessage, event.StatusComplete, "asked later")}),
		live.add(event.SourceRunner, event.BlockUpsert{Block: block("n:2:text", event.BlockAssistantText, event.StatusComplete, "said later")}))

	restored := restoredFrom(t, live, onDisk)
	require.Equal(t, []string{"asked before", "not written", "", "asked later", "said later"}, contents(restored))
	differences, err := parity.Compare(foldAll(live.live...), restored, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, differences)
}

// TestPromptLostAtTwoResumptions: a message that was to be sent again, and was
// not because the next host was lost too, is kept, and is in both conversations
// once.
func TestPromptLostAtTwoResumptions(t *testing.T) {
	t.Parallel()
	var live story
	resume := func(o Options) {
		o.At, o.Asked, o.Chosen = time.Unix(1, 0), []string{"m1"}, map[string]string{"n:1": "m1"}
		for _, ev := range Difference(foldAll(live.live...), reducer.State{}, o) {
			live.add(event.SourceServer, ev.Payload)
		}
	}
	live.add(event.SourceRunner, event.BlockUpsert{Block: block("n:1", event.BlockUserMessage, event.StatusComplete, "asked")})
	live.add(event.SourceRunner, event.BlockUpsert{Block: block("n:1:text", event.BlockAssistantText, event.StatusComplete, "begun")})
	resume(Options{AskedAgain: []string{"n:1"}})
	resume(Options{})

	restored := restoredFrom(t, live, nil)
	require.ElementsMatch(t, []string{"asked", "begun"}, contents(foldAll(live.live...)))
	differences, err := parity.Compare(foldAll(live.live...), restored, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, differences)
}

// restoredFrom returns the conversation that the archive has: what is on disk,
// and what the server added live.
func restoredFrom(t *testing.T, live story, onDisk []event.Event) reducer.State {
	t.Helper()
	c := NewServerBlocks("")
	for _, ev := range live.live {
		c.Add(ev)
	}
	var merged []event.Event
	for ev, err := range archive.Merge(each(onDisk), entriesOf(c)) {
		require.NoError(t, err)
		merged = append(merged, ev)
	}
	return foldAll(merged...)
}

func contents(s reducer.State) (out []string) {
	for _, b := range s.Blocks {
		text := ""
		if b.Content != nil {
			text = *b.Content
		}
		out = append(out, text)
	}
	return out
}

// brief returns the main conversation, a block a line.
func brief(s reducer.State) (out []string) {
	for _, b := range s.Blocks {
		line, err := json.Marshal(b)
		out = append(out, fmt.Sprint(string(line), err))
	}
	return out
}

// entriesOf returns what activities archive of server blocks.
func entriesOf(s ServerBlocks) (out []archive.ServerEntry) {
	for _, p := range s.Placed() {
		out = append(out, archive.ServerEntry{
			ID:     fmt.Sprintf("s%d", p.Event.Context.Seq),
			Anchor: archive.Anchor{ConversationID: p.ConversationID, AfterBlockID: p.AfterBlockID}, Event: p.Event,
		})
	}
	return out
}

// A message that was sent while the agent worked is not the execution's, whether the agent chose
// the id of the execution's own or not (found by chaos: it was kept in its place).
func TestPromptsOfOneExecution(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		blocks []string
		want   map[string]string
	}{
		"named":  {[]string{"m1", "m2"}, map[string]string{}},
		"chosen": {[]string{"n:1", "n:2"}, map[string]string{"n:1": "m1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := new(story), NewPrompts([]string{"m1"})
			p.Add(s.add(event.SourceServer, event.QueryStarted{Query: event.Query{ExecutionID: "x1", MessageIDs: []string{"m1"}}}))
			for _, id := range c.blocks {
				p.Add(s.add(event.SourceRunner, event.BlockUpsert{Block: event.Block{ID: id, Type: event.BlockUserMessage}}))
			}
			require.Equal(t, c.want, p.Chosen())
		})
	}
}
