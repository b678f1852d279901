package claude

import (
	"encoding/json"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// A slash command is either a prompt in short, which the model answers and
// which keeps its id, or a local command, which the program answers by itself
// and writes down under a new id. Which of the two is known only from what
// follows, so a local command waits for its output and is named after it.

// isCommand says whether the program may take a text for a slash command.
func isCommand(text string) bool { return strings.HasPrefix(text, "/") }

// holdCommand keeps a local command until its output comes.
func (s *scribe) holdCommand(conversation string, p prompt) {
	s.flushCommand(conversation)
	s.thread(conversation).Command = &p
}

// flushCommand writes a held command that got no output.
func (s *scribe) flushCommand(conversation string) {
	th := s.thread(conversation)
	if th.Command == nil {
		return
	}
	p := *th.Command
	th.Command = nil
	s.showCommand(conversation, p, s.promptID(p))
}

// modelChanged begins the trace that a control request for another model
// leaves. It is no part of the conversation, which hears of the model by
// options:update: the program prints it at once, but writes it down with the
// next prompt, so that it would stand elsewhere when it is read back, or
// nowhere.
const modelChanged = "Set model to "

func isModelChange(output string) bool {
	return strings.HasPrefix(strings.TrimSpace(output), modelChanged)
}

func isModelCommand(content json.RawMessage) bool {
	parts, err := decodeParts(content)
	return err == nil && strings.HasPrefix(joinText(parts), "/model")
}

// commandOutput writes the output of a local command, behind the command.
func (s *scribe) commandOutput(conversation, id, text string) {
	th := s.thread(conversation)
	if isModelChange(text) && (th.Command == nil || !isModelCommand(th.Command.Content)) {
		return
	}
	if th.Command != nil {
		s.showCommand(conversation, *th.Command, id+":command")
		th.Command = nil
	}
	// The stream trims what the transcript keeps.
	s.system(conversation, id, "local_command", strings.TrimSpace(text))
}

func (s *scribe) showCommand(conversation string, p prompt, id string) {
	parts, err := decodeParts(p.Content)
	if err != nil || len(parts) == 0 {
		return
	}
	parts[0].Text = s.commandText(parts[0].Text)
	s.userMessage(conversation, id, parts)
}

// commandText is a command as the program writes it down: by its first name,
// with one space before its arguments.
func (s *scribe) commandText(text string) string {
	name, args, _ := strings.Cut(strings.TrimPrefix(text, "/"), " ")
	if known, ok := s.Aliases[name]; ok {
		name = known
	}
	return strings.TrimSpace("/" + name + " " + strings.TrimSpace(args))
}

// writtenCommand reads a command out of a transcript line.
func writtenCommand(text string) string {
	name, _, _ := strings.Cut(after(text, markCommand), "</")
	args, _, _ := strings.Cut(after(text, "<command-args>"), "</command-args>")
	if !strings.HasPrefix(name, "/") {
		name = "/" + name
	}
	return strings.TrimSpace(name + " " + strings.TrimSpace(args))
}

// command writes what a transcript holds of a slash command, and says whether
// the text was one.
func (s *scribe) command(l *line, text string) bool {
	switch {
	case strings.HasPrefix(text, markPrompt):
		s.flushCommand(event.Main)
		s.userMessage(event.Main, l.UUID, []part{{Type: "text", Text: writtenCommand(text)}})
	case strings.HasPrefix(text, markCommand):
		written := writtenCommand(text)
		if strings.HasPrefix(written, "/model ") {
			break // the trace of a control request, not of a message
		}
		s.holdCommand(event.Main, prompt{ID: l.UUID, Content: rawText(written)})
	default:
		return false
	}
	return true
}
