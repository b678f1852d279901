// Package nasty creates random event sequences, for property tests of code that folds
// them.
package nasty

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// Generator creates nasty event sequences: with a handful of ids for everything, so
// that they collide, have the wrong order, or refer to the wrong kind of thing or to
// nothing. Every third sequence is narrow: nearly all of it is about one block of one
// subagent with two names.
type Generator struct {
	*rand.Rand
	narrow bool
}

// New creates a generator. Equal seeds produce equal sequences.
func New(seed uint64) Generator {
	return Generator{rand.New(rand.NewPCG(seed, 0x50_4a)), seed%3 == 0}
}

func pick[T any](g Generator, of ...T) T { return of[g.IntN(len(of))] }

func maybe[T any](g Generator, v T) *T {
	if g.IntN(2) == 0 {
		return nil
	}
	return &v
}

// Events returns a sequence of n events.
func (g Generator) Events(n int) []event.Event {
	out := make([]event.Event, n)
	for i := range out {
		out[i] = g.Event(i)
	}
	return out
}

// Event returns the next event of a sequence; i is its index.
func (g Generator) Event(i int) event.Event {
	ctx := event.Context{
		ConversationID: pick(g, "", "main", "main", "t1", "t2", "t3", "a1", "a2"),
		Source:         pick(g, "", event.SourceRunner, event.SourceRunner, event.SourceServer),
		Seq:            uint64(i + 1),
	}
	if g.narrow {
		ctx.ConversationID = pick(g, "a1", "a1", "t1")
	}
	if g.IntN(4) > 0 {
		ctx.Timestamp = time.UnixMilli(1_700_000_000_000 + int64(i)).UTC()
	}
	return event.Event{Payload: g.payload(), Context: ctx}
}

func (g Generator) payload() event.Payload {
	switch g.IntN(16) {
	case 0, 1, 2, 3, 4:
		return event.BlockUpsert{Block: g.block()}
	case 5, 6, 7, 8, 9:
		return event.BlockDelta{BlockID: g.blockID(), Delta: g.text()}
	case 10, 11:
		return event.SubagentSpawned{
			ToolUseID: g.tool(), AgentID: g.agent(), Prompt: g.text(),
			SubagentType: pick(g, "", "reviewer"), Description: pick(g, "", "reviews"),
			ChildSessionID: pick(g, "", "", "child-1"),
		}
	case 12, 13:
		return event.SubagentCompleted{
			ToolUseID: g.tool(), AgentID: g.agent(), Status: pick(g, event.SubagentCompletedOK, event.SubagentFailed, ""),
			Output: maybe(g, g.text()), DurationMS: maybe(g, g.Int64N(3)),
		}
	case 14:
		return event.SessionIdle{}
	default:
		return pick[event.Payload](g,
			event.Log{Level: "info"}, event.SessionClosed{}, event.MetadataUpdate{Model: "m"},
			event.Unknown{Name: "new:thing", Raw: json.RawMessage(`{"a":1}`)},
			event.Native{Line: "x"}, event.FileCreated{})
	}
}

func (g Generator) tool() string {
	if g.narrow {
		return pick(g, "t1", "t1", "a1")
	}
	return pick(g, "", "t1", "t1", "t2", "t3", "main", "a1")
}

func (g Generator) agent() string { return pick(g, "", "", "a1", "a2", "t2") }

func (g Generator) blockID() string {
	if g.narrow {
		return pick(g, "b1", "b1", "b1", "b2")
	}
	return pick(g, "", "b1", "b1", "b2", "b3", "subagent-block-t1", "subagent-block-t2")
}

func (g Generator) text() string {
	return pick(g, "", "x", "hello ", "<&>\u2028", "漢字🙂", "\x00\"\\\n")
}

func (g Generator) block() event.Block {
	b := event.Block{
		ID: g.blockID(),
		Type: pick(g, "", event.BlockUserMessage, event.BlockAssistantText, event.BlockAssistantText, event.BlockThinking,
			event.BlockToolUse, event.BlockToolResult, event.BlockSubagent, event.BlockSystem, event.BlockError,
			event.BlockSkillLoad, "hologram"),
		Status:     pick(g, "", "", event.StatusPending, event.StatusComplete, event.StatusError),
		Source:     pick(g, "", "", event.SourceRunner, event.SourceServer),
		Content:    maybe(g, g.text()),
		Model:      pick(g, "", "", "opus"),
		Summary:    pick(g, nil, nil, new("on it")),
		ToolName:   pick(g, "", "Bash"),
		ToolUseID:  pick(g, "", "", "t1", "t9"),
		Input:      pick[json.RawMessage](g, nil, nil, json.RawMessage(`{"a": "<b>"}`), json.RawMessage(`null`), json.RawMessage(`""`)),
		Execution:  pick(g, "", "", event.ExecutionRunning, event.ExecutionSuccess),
		Output:     pick[json.RawMessage](g, nil, nil, json.RawMessage(`[1, 2]`), json.RawMessage(`null`)),
		IsError:    pick(g, nil, nil, new(bool)),
		DurationMS: pick(g, nil, nil, new(int64)),
		Message:    pick(g, nil, nil, new("m")),
		Name:       pick(g, "", "", "n"),
	}
	if g.IntN(4) == 0 {
		b.Metadata = map[string]json.RawMessage{pick(g, "k", "l"): json.RawMessage(fmt.Sprint(g.IntN(2)))}
	}
	if g.IntN(4) == 0 {
		b.Metadata = map[string]json.RawMessage{"lost": json.RawMessage("true")}
	}
	if g.IntN(6) == 0 {
		b.Parts = []event.Part{{Type: "text", Text: g.text()}}
	}
	if g.IntN(4) == 0 {
		b.Timestamp = time.UnixMilli(1_600_000_000_000 + g.Int64N(2)).UTC()
	}
	return b
}
