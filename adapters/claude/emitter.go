package claude

import (
	"bytes"
	"strconv"

	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// emitter emits events about whole messages. The translator of the live stream
// and the parser of transcripts both use it, so that both make the same
// conversation.
type emitter struct {
	emit.Emitter
	*state
	// started counts what was learned about running subagents.
	started int
}

func newEmitter(st *state) emitter { return emitter{Emitter: emit.Emitter{Agent: Name}, state: st} }

const (
	// synthetic is the model of messages that the program itself writes.
	synthetic = "<synthetic>"
	// noResponse is what the program answers itself when it resumes after a
	// crash; it exists in transcripts only.
	noResponse = "No response requested."
)

// assistant emits the blocks of an assistant line.
func (s *emitter) assistant(conversation string, l *line) {
	if l.Message == nil {
		return
	}
	parts := l.Message.parts()
	if l.Message.Model == synthetic {
		s.synthetic(conversation, l, parts)
		return
	}
	th := s.thread(conversation)
	th.Skill = ""
	s.flushCommand(conversation)
	for i := range parts {
		index := th.next(l.Message.ID)
		id := s.textID(conversation, l, i, len(parts), index)
		th.first(l.Message.ID, id, &parts[i])
		s.assistantPart(conversation, l, &parts[i], id)
	}
	if l.Message.StopReason != nil && l.Message.Usage != nil && conversation == event.Main {
		s.used(th, l.Message.ID, l.Message.Usage.event())
	}
}

// first notes the first block of a message. A text without content makes none.
func (t *thread) first(messageID, textID string, p *part) {
	b := firstBlock{messageID, textID, blockType(p.Type)}
	if b.Type == event.BlockToolUse {
		b.ID = p.ID
	}
	if t.First.Message != messageID && b.Type != "" && b.ID != "" && (b.Type == event.BlockToolUse || p.Text+p.Thinking != "") {
		t.First = b
	}
}

// used writes what a model call took to the first block that it made. Of subagents'
// calls the stream has no final figures.
func (s *emitter) used(th *thread, messageID string, u event.Usage) {
	if b := th.First; messageID != "" && b.Message == messageID {
		s.Upsert(event.Main, event.Block{ID: b.ID, Type: b.Type, Usage: &u})
	}
}

// textID returns the id of a text or thinking block: in the main conversation the
// message's id and the block's position in it, which the stream reports before
// the block is whole; elsewhere the line's uuid. Both are the same on disk.
func (s *emitter) textID(conversation string, l *line, i, n, index int) string {
	if conversation == event.Main && l.Message.ID != "" {
		return l.Message.ID + ":" + strconv.Itoa(index)
	}
	if n > 1 {
		return l.UUID + ":" + strconv.Itoa(i)
	}
	return l.UUID
}

func (s *emitter) assistantPart(conversation string, l *line, p *part, id string) {
	switch {
	case p.Type == "text":
		s.text(conversation, event.BlockAssistantText, id, p.Text, l.Message.Model)
		if conversation != event.Main && p.Text != "" {
			s.thread(conversation).LastText = p.Text
		}
	case p.Type == "thinking":
		s.text(conversation, event.BlockThinking, id, p.Thinking, "")
	case isToolUse(p.Type) && p.ID != "":
		s.toolUse(conversation, p)
	case isToolResult(p.Type) && p.ToolUseID != "":
		s.toolResult(conversation, p, nativeResult{})
	default:
		s.Native(conversation, event.DirOut, "assistant/"+p.Type, bytes.Clone(p.raw))
	}
}

// text emits a whole text or thinking block, unless it is empty.
func (s *emitter) text(conversation string, t event.BlockType, id, text, model string) {
	if text == "" {
		return
	}
	s.Upsert(conversation, event.Block{
		ID: id, Type: t, Status: event.StatusComplete, Content: &text, Model: model,
	})
}

// synthetic emits a message that the program itself wrote: an API error, or the
// output of a local command.
func (s *emitter) synthetic(conversation string, l *line, parts []part) {
	text := joinText(parts)
	failed := l.IsAPIError || len(l.Error) > 0 && string(l.Error) != "null"
	switch {
	case failed:
		s.flushCommand(conversation)
		code := nativejson.String(l.Error)
		if code == "" {
			code = "unknown"
		}
		s.Upsert(conversation, event.Block{
			ID: l.UUID, Type: event.BlockError, Status: event.StatusComplete, Message: &text, Code: code,
		})
	case text == noResponse:
	default:
		s.commandOutput(conversation, l.UUID, text)
	}
}

// userMessage emits a prompt.
func (s *emitter) userMessage(conversation, id string, parts []part) {
	text, rich := joinText(parts), richParts(parts)
	s.Upsert(conversation, event.Block{
		ID: id, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text, Parts: rich,
	})
}

// joinText returns the text of all text parts, one per line.
func joinText(parts []part) string {
	text, first := "", true
	for i := range parts {
		if parts[i].Type != "text" {
			continue
		}
		if !first {
			text += "\n"
		}
		text, first = text+parts[i].Text, false
	}
	return text
}

// richParts returns a message that is more than text, part by part; nil for plain
// text.
func richParts(parts []part) []event.Part {
	plain := true
	out := make([]event.Part, 0, len(parts))
	for i := range parts {
		p := &parts[i]
		plain = plain && p.Type == "text"
		e := event.Part{Type: p.Type, Text: p.Text}
		switch {
		case p.Source != nil:
			e.MediaType, e.Data, e.URL = p.Source.MediaType, p.Source.Data, p.Source.URL
		case p.Type != "text":
			e.Text = string(p.raw)
		}
		out = append(out, e)
	}
	if plain {
		return nil
	}
	return out
}
