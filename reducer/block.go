package reducer

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/internal/normal"
)

// create makes a whole block of a given one whose type is known: what is
// missing comes from the event's context or the type's defaults, never from a
// clock.
func create(given event.Block, ctx event.Context) event.Block {
	b := given
	if b.Status == "" {
		b.Status = event.StatusPending
	}
	if b.Timestamp.IsZero() {
		b.Timestamp = normal.Time(ctx.Timestamp)
	}
	if ctx.Source == event.SourceServer {
		b.Source = event.SourceServer
	}
	return fill(b)
}

// fill sets the fields that the block's type has, and that were not given
// yet, to their empty values.
func fill(b event.Block) event.Block {
	switch b.Type {
	case event.BlockUserMessage, event.BlockAssistantText, event.BlockThinking, event.BlockSkillLoad:
		b.Content = orZero(b.Content)
	case event.BlockToolUse:
		b.Input = orRaw(b.Input, `{}`)
		b.Execution = orPending(b.Execution)
	case event.BlockToolResult:
		b.Output = orRaw(b.Output, `null`)
		b.IsError = orZero(b.IsError)
	case event.BlockSubagent:
		b.Input = orRaw(b.Input, noPrompt)
		b.Output = orRaw(b.Output, `null`)
		b.Execution = orPending(b.Execution)
	case event.BlockSystem, event.BlockError:
		b.Message = orZero(b.Message)
	}
	return b
}

// noPrompt is the input of a subagent block without a prompt.
const noPrompt = `""`

func orZero[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

func orRaw(raw json.RawMessage, empty string) json.RawMessage {
	if raw == nil {
		return json.RawMessage(empty)
	}
	return raw
}

func orPending(x event.Execution) event.Execution {
	if x == "" {
		return event.ExecutionPending
	}
	return x
}

// merge puts the fields given over those of old. It reports whether that made
// a difference; old itself stays as it is, maps and slices included.
func merge(old, given event.Block) (event.Block, bool) {
	m := merging{Block: old}
	give(&m, &m.Type, given.Type)
	give(&m, &m.Status, given.Status)
	give(&m, &m.Source, given.Source)
	give(&m, &m.Model, given.Model)
	give(&m, &m.ToolName, given.ToolName)
	give(&m, &m.ToolUseID, given.ToolUseID)
	give(&m, &m.Execution, given.Execution)
	give(&m, &m.SubagentID, given.SubagentID)
	give(&m, &m.Name, given.Name)
	give(&m, &m.Description, given.Description)
	give(&m, &m.Subtype, given.Subtype)
	give(&m, &m.Code, given.Code)
	give(&m, &m.SkillName, given.SkillName)
	givePointer(&m, &m.Content, given.Content)
	givePointer(&m, &m.Summary, given.Summary)
	givePointer(&m, &m.IsError, given.IsError)
	givePointer(&m, &m.DurationMS, given.DurationMS)
	givePointer(&m, &m.Message, given.Message)
	giveRaw(&m, &m.Input, given.Input)
	giveRaw(&m, &m.Output, given.Output)
	m.giveTimestamp(given.Timestamp)
	m.giveParts(given.Parts)
	m.giveMetadata(given.Metadata)
	if !m.changed {
		return old, false
	}
	return fill(m.Block), true
}

// merging is a block while fields are put over it.
type merging struct {
	event.Block
	changed bool
}

func give[T ~string](m *merging, field *T, v T) {
	if v != "" && *field != v {
		*field, m.changed = v, true
	}
}

func givePointer[T comparable](m *merging, field **T, v *T) {
	if v != nil && (*field == nil || **field != *v) {
		*field, m.changed = v, true
	}
}

func giveRaw(m *merging, field *json.RawMessage, v json.RawMessage) {
	if v != nil && !equalRaw(*field, v) {
		*field, m.changed = v, true
	}
}

func (m *merging) giveTimestamp(t time.Time) {
	if !t.IsZero() && !t.Equal(m.Timestamp) {
		m.Timestamp, m.changed = t, true
	}
}

func (m *merging) giveParts(parts []event.Part) {
	if len(parts) > 0 && !slices.Equal(m.Parts, parts) {
		m.Parts, m.changed = parts, true
	}
}

// giveMetadata merges key by key: one writer's remark must not wipe out
// another's.
func (m *merging) giveMetadata(given map[string]json.RawMessage) {
	owned := false
	for key, v := range given {
		old, has := m.Metadata[key]
		if has && equalRaw(old, v) {
			continue
		}
		if !owned {
			m.Metadata, owned = maps.Clone(m.Metadata), true
			if m.Metadata == nil {
				m.Metadata = make(map[string]json.RawMessage, len(given))
			}
		}
		m.Metadata[key], m.changed = v, true
	}
}

// saidAnew reports whether given begins a block that an agent had said, lost with
// its life, and now says again under the id that its transcript gives it. What
// stood of the first saying is no part of the second.
func saidAnew(old, given event.Block) bool {
	begins := given.Type != "" && (given.Status == event.StatusPending || given.Status == event.StatusComplete)
	return begins && Lost(old) && !Lost(given)
}

// Lost reports whether a block was streamed and is in no transcript of the agent's.
func Lost(b event.Block) bool { return string(b.Metadata["lost"]) == "true" }

// neverSeen reports whether a block that is kept because no transcript has it is
// a text that had said nothing, or a message that is kept under another id.
func neverSeen(b event.Block) bool {
	message := b.Type == event.BlockUserMessage && len(b.Parts) == 0 && (b.Content == nil || *b.Content == "")
	return Lost(b) && b.Source == event.SourceServer && (EmptyText(b) || message)
}

// settle is what idleness does to one block. An empty text that nobody will
// write to any more is dropped.
func settle(b event.Block) (_ event.Block, keep bool) {
	if EmptyText(b) {
		return b, false
	}
	if b.Status == event.StatusPending {
		b.Status = event.StatusComplete
	}
	return b, true
}

// unsettled reports whether idleness would change b.
func unsettled(b event.Block) bool {
	return b.Status == event.StatusPending || EmptyText(b)
}

// EmptyText reports whether a block is a text that says nothing. A thinking block with
// a heading alone says something.
func EmptyText(b event.Block) bool {
	text := b.Type == event.BlockAssistantText || b.Type == event.BlockThinking
	return text && (b.Content == nil || *b.Content == "") && (b.Summary == nil || *b.Summary == "")
}

// normalBlock puts what a block carries into the one form that states hold, so
// that a state survives JSON and equal blocks compare equal.
func normalBlock(b event.Block) event.Block {
	b.Timestamp = normal.Time(b.Timestamp)
	if b.Source != event.SourceServer {
		b.Source = ""
	}
	b.Input, b.Output = normal.Raw(b.Input), normal.Raw(b.Output)
	if len(b.Parts) == 0 {
		b.Parts = nil
	}
	b.Metadata = normalMetadata(b.Metadata)
	return b
}

func normalMetadata(given map[string]json.RawMessage) map[string]json.RawMessage {
	if len(given) == 0 {
		return nil
	}
	out := make(map[string]json.RawMessage, len(given))
	for key, raw := range given {
		out[key] = normal.RawOrNull(raw)
	}
	return out
}

// equalRaw looks through the escaping of <, > and & that an encoder on the
// way may or may not have done.
func equalRaw(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var ea, eb bytes.Buffer
	json.HTMLEscape(&ea, a)
	json.HTMLEscape(&eb, b)
	return a != nil && b != nil && bytes.Equal(ea.Bytes(), eb.Bytes())
}
