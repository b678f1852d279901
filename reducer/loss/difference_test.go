package loss

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/nasty"
)

// death is a conversation that an agent streamed and persisted until it died. Of
// each of its conversations the live side and the transcript have a beginning,
// and either may be ahead.
type death struct {
	*rand.Rand
	live, written []event.Event
	// cut is where each transcript ends, as a number of its events.
	cut  map[string]int
	said int
	n    int
}

func newDeath(seed uint64) *death {
	d := &death{Rand: rand.New(rand.NewPCG(seed, 0xd1ff)), cut: map[string]int{}}
	d.said = 20 + d.IntN(40)
	d.speak(event.Main, 1, 12)
	return d
}

// ends reports whether a transcript ends before its next event.
func (d *death) ends(conversation string) bool {
	if _, known := d.cut[conversation]; !known {
		d.cut[conversation] = 1 + d.IntN(25)
	}
	d.cut[conversation]--
	return d.cut[conversation] < 0
}

// say adds an event to both sides, as far as each reaches; whole is the
// transcript's form of it, if it differs.
func (d *death) say(conversation string, p event.Payload, whole ...event.Payload) (isWritten bool) {
	ev := event.Event{Payload: p, Context: event.Context{ConversationID: conversation, Source: event.SourceRunner}}
	if len(d.live) < d.said {
		d.live = append(d.live, ev)
	}
	if d.ends(conversation) {
		return false
	}
	for _, w := range append(whole, p)[:1] {
		ev.Payload = w
		d.written = append(d.written, ev)
	}
	return true
}

// speakOnly adds an event that no transcript has.
func (d *death) speakOnly(conversation string, source event.Source, p event.Payload) {
	if len(d.live) < d.said {
		d.live = append(d.live, event.Event{Payload: p, Context: event.Context{ConversationID: conversation, Source: source}})
	}
}

func (d *death) id(kind string) string {
	d.n++
	return fmt.Sprintf("%s%d", kind, d.n)
}

func upserted(b event.Block) event.Payload { return event.BlockUpsert{Block: b} }

func (d *death) speak(conversation string, depth, acts int) {
	d.say(conversation, upserted(event.Block{ID: d.id("u"), Type: event.BlockUserMessage, Status: event.StatusComplete, Content: new("do")}))
	for range 1 + d.IntN(acts) {
		switch d.IntN(7) {
		case 0, 1:
			d.text(conversation)
		case 2:
			d.tool(conversation)
		case 3:
			if depth < 3 {
				d.subagent(conversation, depth)
			}
		case 4:
			d.notice(conversation)
		case 5:
			d.takeBack(conversation)
		default:
			d.say(conversation, upserted(event.Block{ID: d.id("u"), Type: event.BlockUserMessage, Status: event.StatusComplete, Content: new("more")}))
		}
	}
}

func (d *death) text(conversation string) {
	id := d.id("a")
	whole := event.Block{ID: id, Type: event.BlockAssistantText, Status: event.StatusComplete, Content: new("said it all")}
	begun := whole
	begun.Status, begun.Content = event.StatusPending, new("")
	d.say(conversation, upserted(begun), upserted(whole))
	d.speakOnly(conversation, event.SourceRunner, event.BlockDelta{BlockID: id, Delta: "said "})
	d.speakOnly(conversation, event.SourceRunner, event.BlockDelta{BlockID: id, Delta: "it all"})
	d.speakOnly(conversation, event.SourceRunner, upserted(event.Block{ID: id, Status: event.StatusComplete}))
}

func (d *death) tool(conversation string) {
	id := d.id("t")
	call := event.Block{ID: id, Type: event.BlockToolUse, Status: event.StatusComplete, ToolUseID: id, ToolName: "Bash", Execution: event.ExecutionRunning}
	done := call
	done.Execution = event.ExecutionSuccess
	d.say(conversation, upserted(call), upserted(done))
	d.speakOnly(conversation, event.SourceRunner, upserted(event.Block{ID: id, Execution: event.ExecutionSuccess}))
	d.say(conversation, upserted(event.Block{ID: id + ":result", Type: event.BlockToolResult, Status: event.StatusComplete, ToolUseID: id, Output: json.RawMessage(`"x"`)}))
}

// subagent ends in the transcript where its call is written, as parsers emit it.
func (d *death) subagent(conversation string, depth int) {
	id := d.id("s")
	spawned := event.SubagentSpawned{ToolUseID: id, AgentID: "agent-" + id, Prompt: "do", SubagentType: "mini"}
	isWritten := d.say(conversation, spawned)
	if !isWritten {
		d.cut[id] = 0
	}
	at := len(d.written)
	d.speak(id, depth+1, 4)
	if isWritten && d.IntN(2) == 0 && len(d.written) > at && d.said > len(d.live) {
		return // it works in the background, and its end is never reported
	}
	if isWritten {
		d.written = append(d.written, event.Event{Payload: event.SubagentCompleted{ToolUseID: id, AgentID: "agent-" + id, Status: event.SubagentFailed}})
	}
	d.speakOnly(conversation, event.SourceRunner, event.SubagentCompleted{ToolUseID: id, AgentID: "agent-" + id, Status: event.SubagentFailed})
}

func (d *death) notice(conversation string) {
	d.speakOnly(conversation, event.SourceServer, upserted(event.Block{ID: d.id("n"), Type: event.BlockSystem, Status: event.StatusComplete, Message: new("notice")}))
}

func (d *death) takeBack(conversation string) {
	id := d.id("l")
	d.speakOnly(conversation, event.SourceRunner, upserted(event.Block{ID: id, Type: event.BlockAssistantText, Status: event.StatusPending}))
	if d.IntN(2) == 0 {
		d.speakOnly(conversation, event.SourceRunner, event.BlockDelta{BlockID: id, Delta: "half"})
	}
	d.speakOnly(conversation, event.SourceRunner, upserted(event.Block{ID: id, Type: event.BlockAssistantText, Status: event.StatusError,
		Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")}}))
}

// sides returns what a host finds: transcripts end with an idle agent.
func (d *death) sides() (live, restored reducer.State) {
	return foldAll(d.live...), foldAll(append(d.written, event.Event{Payload: event.SessionIdle{}})...)
}

func forDeaths(t *testing.T, property func(t *testing.T, live, restored reducer.State)) {
	t.Helper()
	t.Parallel()
	for seed := range uint64(600) {
		live, restored := newDeath(seed).sides()
		property(t, live, restored)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// kept returns the events that are for Sojourn's transcript.
func kept(events []event.Event) []event.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool { return e.Context.Source != event.SourceServer })
}

// keptAt puts the server's blocks of one state into another one, each after the block that
// it follows there, as a restore does with Sojourn's transcript. It uses only what was kept
// of a block.
func keptAt(live, restored, kept reducer.State) reducer.State {
	out := reducer.State{Blocks: placed(live.Blocks, restored.Blocks, kept.Blocks)}
	for _, sub := range live.Subagents {
		was := thread(restored, sub.ToolUseID, "")
		blocks := placed(sub.Blocks, was.Blocks, kept.Conversation(sub.ToolUseID))
		if was.ToolUseID != "" {
			sub = was
		}
		sub.Blocks = blocks
		out.Subagents = append(out.Subagents, sub)
	}
	for _, sub := range restored.Subagents {
		if thread(out, sub.ToolUseID, "").ToolUseID == "" {
			out.Subagents = append(out.Subagents, sub)
		}
	}
	return out
}

func placed(live, restored, kept []event.Block) []event.Block {
	out := slices.Clone(restored)
	for i, b := range live {
		if b.Source != event.SourceServer {
			continue
		}
		at := 0
		if i > 0 {
			at = 1 + find(out, live[i-1].ID)
		}
		if k := find(kept, b.ID); k >= 0 {
			b = kept[k]
		}
		out = slices.Insert(out, at, b)
	}
	return out
}

func TestD1Equal(t *testing.T) {
	forDeaths(t, func(t *testing.T, live, restored reducer.State) {
		events := Difference(live, restored, Options{})
		after := foldOnto(live, events)
		require.Equal(t, flat(t, keptAt(after, restored, foldAll(kept(events)...))), flat(t, after))
	})
}

// D1 with the results of calls whose effect is unknown: they are the server's too.
func TestD1EqualWithUnknownEffects(t *testing.T) {
	marked := 0
	forDeaths(t, func(t *testing.T, live, restored reducer.State) {
		var calls effects.Calls
		calls.AddPersisted(live)
		calls.AddPersisted(restored)
		marks := calls.Marks(time.Time{})
		marked += len(marks)
		events := append(Difference(live, restored, Options{}), marks...)
		after := foldOnto(live, events)
		require.Equal(t, flat(t, keptAt(after, restored, foldAll(kept(events)...))), flat(t, after))
		require.Empty(t, Difference(after, restored, Options{}))
		again := effects.Calls{}
		again.AddPersisted(after)
		require.Empty(t, again.Marks(time.Time{}), "once")
	})
	require.Positive(t, marked)
}

// flat returns the parts of a state, one line each.
func flat(t *testing.T, s reducer.State) (out []string) {
	line := func(v any) {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		out = append(out, string(data))
	}
	for _, b := range s.Blocks {
		line(b)
	}
	for _, sub := range s.Subagents {
		blocks := sub.Blocks
		sub.Blocks = nil
		line(sub)
		for _, b := range blocks {
			line(b)
		}
	}
	return out
}

func TestD2NothingForEqualStates(t *testing.T) {
	forDeaths(t, func(t *testing.T, _, restored reducer.State) {
		require.Empty(t, Difference(restored, restored, Options{}))
	})
}

func TestD3Once(t *testing.T) {
	forDeaths(t, func(t *testing.T, live, restored reducer.State) {
		after := foldOnto(live, Difference(live, restored, Options{}))
		require.Empty(t, Difference(after, restored, Options{}))
	})
}

func TestD4TranscriptsStand(t *testing.T) {
	forDeaths(t, func(t *testing.T, live, restored reducer.State) {
		for _, e := range kept(Difference(live, restored, Options{})) {
			if p, ok := e.Payload.(event.BlockUpsert); ok {
				require.Negative(t, find(restored.Conversation(e.Context.Conversation()), p.Block.ID), "%s is in a transcript", p.Block.ID)
			}
		}
	})
}

func TestD5NothingSeenIsLost(t *testing.T) {
	forDeaths(t, func(t *testing.T, live, restored reducer.State) {
		after := foldOnto(live, Difference(live, restored, Options{}))
		seen := func(conversation string, blocks []event.Block) {
			for _, b := range blocks {
				at := find(after.Conversation(conversation), b.ID)
				if reducer.EmptyText(b) {
					continue
				}
				require.GreaterOrEqual(t, at, 0, "%s %s", conversation, b.ID)
				now := after.Conversation(conversation)[at]
				if b.Content != nil {
					require.Contains(t, *now.Content, *b.Content)
				}
			}
		}
		seen(event.Main, live.Blocks)
		for _, sub := range live.Subagents {
			seen(sub.ToolUseID, sub.Blocks)
		}
	})
}

func TestD6TotalAndDeterministic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		g := nasty.New(seed)
		live, restored := foldAll(g.Events(80)...), foldAll(g.Events(60)...)
		before := encode(t, live) + encode(t, restored)
		o := Options{At: time.Unix(1, 0), Asked: []string{"b1"}, AskedAgain: []string{"b2"}}
		first, second := Difference(live, restored, o), Difference(live, restored, o)
		require.Equal(t, first, second, "seed %d", seed)
		require.Equal(t, before, encode(t, live)+encode(t, restored))
		_, err := json.Marshal(foldOnto(live, first))
		require.NoError(t, err)
	}
}

func TestD7NaiveAgrees(t *testing.T) {
	forDeaths(t, func(t *testing.T, live, restored reducer.State) {
		after := foldOnto(live, Difference(live, restored, Options{}))
		require.Equal(t, naiveAfter(event.Main, live, restored), lines(after.Blocks))
		for _, sub := range live.Subagents {
			require.Equal(t, naiveAfter(sub.ToolUseID, live, restored), lines(thread(after, sub.ToolUseID, "").Blocks))
		}
	})
}

// naiveLine is the expected line of a block in a conversation.
type naiveLine struct {
	id     string
	server bool
	lost   bool
}

func lines(blocks []event.Block) (out []naiveLine) {
	for _, b := range blocks {
		out = append(out, naiveLine{b.ID, b.Source == event.SourceServer, string(b.Metadata["lost"]) == "true"})
	}
	return out
}

// naiveAfter is a naive rule: what is in the transcript is kept, what else was streamed is
// the server's, and what the transcript has after everything streamed is last.
func naiveAfter(conversation string, live, restored reducer.State) (out []naiveLine) {
	saved := map[string]bool{}
	for _, b := range restored.Conversation(conversation) {
		saved[b.ID] = true
	}
	seen, last := map[string]bool{}, ""
	for _, b := range live.Conversation(conversation) {
		seen[b.ID] = true
		if line, permanent := naiveLineOf(conversation, b, saved[b.ID]); permanent {
			out = append(out, line)
		}
	}
	for _, b := range restored.Conversation(conversation) {
		if seen[b.ID] {
			last = b.ID
		}
	}
	behind := last == "" && conversation != event.Main
	for _, b := range restored.Conversation(conversation) {
		if behind {
			out = append(out, naiveLine{b.ID, false, false})
		}
		behind = behind || b.ID == last
	}
	return out
}

// naiveLineOf returns the expected line of a streamed block; an empty one that no
// transcript has is dropped.
func naiveLineOf(conversation string, b event.Block, saved bool) (line naiveLine, permanent bool) {
	if saved {
		return naiveLine{b.ID, false, false}, true
	}
	servers := b.Source == event.SourceServer && string(b.Metadata["lost"]) != "true"
	if servers || conversation == event.Main && b.Type == event.BlockUserMessage {
		return naiveLine{b.ID, true, false}, true
	}
	empty := (b.Type == event.BlockAssistantText || b.Type == event.BlockThinking) && *b.Content == ""
	return naiveLine{b.ID, true, true}, !empty
}

// TestThreadWithoutItsCallIsTold: the agent persisted a subagent's thread and
// died before it persisted the call. Subscribers receive the thread, and its end.
func TestThreadWithoutItsCallIsTold(t *testing.T) {
	t.Parallel()
	asked := event.Event{Payload: event.BlockUpsert{Block: block("u1", event.BlockUserMessage, event.StatusComplete, "asked")}}
	inside := event.Event{Payload: text("a1", event.StatusComplete, "done inside"), Context: event.Context{ConversationID: "t1"}}
	live, restored := foldAll(asked), foldAll(asked, inside)
	told := Difference(live, restored, Options{})
	after := foldOnto(live, told)
	require.Len(t, after.Subagents, 1)
	require.Equal(t, "done inside", *after.Subagents[0].Blocks[0].Content)
	require.Equal(t, event.ExecutionError, after.Subagents[0].Status, "it has ended with its agent")
	require.Empty(t, Difference(after, foldOnto(restored, ofTheServer(told)), Options{}), "once")
}

// TestR136UsageOfTheTranscripts: subscribers receive what a block took if only the
// transcripts have it; a block that an agent wrote before its call had ended is no difference.
func TestR136UsageOfTheTranscripts(t *testing.T) {
	t.Parallel()
	took := &event.Usage{InputTokens: 7, OutputTokens: 3}
	said, billed := text("a1", event.StatusComplete, "said"), text("a1", event.StatusComplete, "said")
	billed.Block.Usage = took
	without, with := foldAll(event.Event{Payload: said}), foldAll(event.Event{Payload: billed})
	after := foldOnto(without, Difference(without, with, Options{}))
	require.Equal(t, took, after.Blocks[0].Usage)
	require.Empty(t, Difference(with, without, Options{}))
}

// ofTheServer returns the events that are kept for the restored side.
func ofTheServer(events []event.Event) (out []event.Event) {
	for _, ev := range events {
		if ev.Context.Source == event.SourceServer {
			out = append(out, ev)
		}
	}
	return out
}
