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

// create completes a block whose type is known. Missing fields are set from the event's
// context or the type's defaults, never from a clock.
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

// fill sets the missing fields of the block's type to their empty values.
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

// merge puts the set fields of given over those of old. It reports whether that changed
// anything; old itself is not changed, maps and slices included.
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
	givePointer(&m, &m.Usage, given.Usage)
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

// merging is a block during a merge.
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

// giveMetadata merges key by key, so that one writer does not remove another's
// entries.
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

// recreates reports whether given creates a lost block again: its agent withdrew it, or
// died before it persisted it, and now emits it again under the same id. Nothing of the
// lost block is kept.
func recreates(old, given event.Block) bool {
	begins := given.Type != "" && (given.Status == event.StatusPending || given.Status == event.StatusComplete)
	return begins && Lost(old) && !Lost(given)
}

// Lost reports whether a block was streamed but is in no transcript of the agent.
func Lost(b event.Block) bool { return string(b.Metadata["lost"]) == "true" }

// neverSeen reports whether a block that no transcript has was invisible: an
// empty text, or a message that is kept under another id.
func neverSeen(b event.Block) bool {
	message := b.Type == event.BlockUserMessage && len(b.Parts) == 0 && (b.Content == nil || *b.Content == "")
	return Lost(b) && b.Source == event.SourceServer && (EmptyText(b) || message)
}

// complete applies idleness to one block. An empty text is dropped, since nothing
// will be appended to it any more.
func complete(b event.Block) (_ event.Block, keep bool) {
	if EmptyText(b) {
		return b, false
	}
	if b.Status == event.StatusPending {
		b.Status = event.StatusComplete
	}
	return b, true
}

// incomplete reports whether idleness would change b.
func incomplete(b event.Block) bool {
	return b.Status == event.StatusPending || EmptyText(b)
}

// EmptyText reports whether a block is a text without content. A thinking block
// with a heading is not empty.
func EmptyText(b event.Block) bool {
	text := b.Type == event.BlockAssistantText || b.Type == event.BlockThinking
	return text && (b.Content == nil || *b.Content == "") && (b.Summary == nil || *b.Summary == "")
}

// normalBlock brings a block into the one form that states hold, so that a state
// survives JSON and equal blocks compare equal.
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

// equalRaw ignores whether an encoder escaped <, > and &.
func equalRaw(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var ea, eb bytes.Buffer
	json.HTMLEscape(&ea, a)
	json.HTMLEscape(&eb, b)
	return a != nil && b != nil && bytes.Equal(ea.Bytes(), eb.Bytes())
}
