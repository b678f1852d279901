package claude

import (
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// Marks by which the program's own user lines are distinguished from what a user
// wrote.
const (
	markInterrupted = "[Request interrupted by user"
	// markRejected is the beginning of the result of a call that was stopped with its
	// turn.
	markRejected     = "The user doesn't want to proceed with this tool use. The tool use was rejected"
	markStdout       = "<local-command-stdout>"
	markStderr       = "<local-command-stderr>"
	markCaveat       = "<local-command-caveat>"
	markCommand      = "<command-name>"
	markPrompt       = "<command-message>"
	markNotification = "<task-notification>"
)

// user emits the content of a user line apart from prompts: results of tools and
// the program's own remarks. It returns the rest: a prompt, or nothing.
func (s *emitter) user(conversation string, l *line) []part {
	parts := l.Message.parts()
	rest := parts[:0:0]
	for i := range parts {
		if isToolResult(parts[i].Type) && parts[i].ToolUseID != "" {
			s.flushCommand(conversation)
			s.toolResult(conversation, &parts[i], l.nativeResult())
			continue
		}
		rest = append(rest, parts[i])
	}
	if len(rest) == 0 || !l.asked && s.remark(conversation, l, joinText(rest)) {
		return nil
	}
	return rest
}

// remark emits a text that the program itself put into a user line, and reports
// whether it was one.
func (s *emitter) remark(conversation string, l *line, text string) bool {
	th := s.thread(conversation)
	switch {
	case strings.HasPrefix(text, markInterrupted):
		s.flushCommand(conversation)
		id := l.UUID
		if conversation != event.Main {
			id = interruptionOf(conversation)
		}
		s.System(conversation, id, "interrupted", text)
	case strings.HasPrefix(text, markStdout), strings.HasPrefix(text, markStderr):
		s.commandOutput(conversation, l.UUID, untag(text))
	case strings.HasPrefix(text, markNotification):
		s.notification(text)
	case l.IsCompactSummary, l.IsSynthetic && th.Compacted:
		th.Compacted = false
		s.System(conversation, l.UUID, "compact_summary", text)
	case (l.IsMeta || l.IsSynthetic) && th.Skill != "":
		s.Upsert(conversation, event.Block{
			ID: l.UUID, Type: event.BlockSkillLoad, Status: event.StatusComplete,
			SkillName: th.Skill, Content: &text,
		})
		th.Skill = ""
	case l.IsMeta, l.IsSynthetic, strings.HasPrefix(text, markCaveat):
		// For the model only: how to read a local command, where to continue.
	case s.agentPrompt(conversation, text):
	default:
		return false
	}
	return true
}

// compacted emits that the model has forgotten the earlier conversation.
func (s *emitter) compacted(conversation string, l *line) {
	s.thread(conversation).Compacted = true
	s.System(conversation, l.UUID, "compact_boundary", "Conversation compacted")
}

// untag returns the text between the first tag and its end.
func untag(text string) string {
	_, text, _ = strings.Cut(text, ">")
	if at := strings.LastIndex(text, "</"); at >= 0 {
		text = text[:at]
	}
	return text
}
