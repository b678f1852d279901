package claude

import (
	"bytes"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// line emits the content of a transcript line. Most of a transcript is not
// conversation: what the model was given about tools, modes and titles.
func (p *parser) line(conversation string, l *line) {
	if conversation == event.Main {
		conversation = p.sidechain(l)
	}
	switch l.Type {
	case "assistant":
		p.assistant(conversation, l)
	case "user":
		p.userLine(conversation, l)
	case "system":
		p.systemLine(conversation, l)
	case "attachment":
		p.attached(conversation, l)
	case "queue-operation":
		if text := nativejson.String(l.Content); strings.HasPrefix(text, markNotification) {
			p.notification(text)
		}
	default:
		if !slices.Contains(bookkeeping, l.Type) {
			p.Native(conversation, "", l.kind(), bytes.Clone(l.raw))
		}
	}
}

// bookkeeping are line types that are not about the conversation.
var bookkeeping = []string{
	"last-prompt", "mode", "custom-title", "ai-title", "agent-name", "summary", "tag",
	"file-history-snapshot", "permission-mode", "pr-link", "progress",
}

func (p *parser) userLine(conversation string, l *line) {
	l.asked = l.PromptSource != "" && (len(l.Origin) == 0 || string(l.Origin) == "null")
	if l.Message != nil && conversation == event.Main && !l.asked && p.command(l) {
		return
	}
	rest := p.user(conversation, l)
	if rest == nil {
		return
	}
	p.flushCommand(conversation)
	id := l.UUID
	if a := p.Agents[conversation]; a != nil && a.Adopted && !a.Prompted {
		a.Prompted = true
		id = promptOf(conversation)
	}
	p.userMessage(conversation, id, rest)
}

func (p *parser) systemLine(conversation string, l *line) {
	switch l.Subtype {
	case "compact_boundary":
		p.compacted(conversation, l)
	case "local_command":
		text := nativejson.String(l.Content)
		if isCommand(text) {
			p.holdCommand(conversation, prompt{ID: l.UUID, Content: nativejson.Encode(text)})
			return
		}
		p.commandOutput(conversation, l.UUID, untag(text))
	}
}

// attached emits messages that were sent while a turn ran.
func (p *parser) attached(conversation string, l *line) {
	a := l.Attachment
	if a == nil || a.Type != "queued_command" {
		return
	}
	parts := a.Prompt.list
	if text := joinText(parts); a.CommandMode != modePrompt && strings.HasPrefix(text, markNotification) {
		p.notification(text)
		return
	}
	id := a.SourceUUID
	if id == "" {
		id = l.UUID
	}
	p.userMessage(conversation, id, parts)
}
