package claude

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// A slash command is either an abbreviated prompt, which the model answers and
// which keeps its id, or a local command, which the program answers itself and
// writes to disk under a new id. Only what follows shows which, so a local
// command waits for its output and is named after it.

// isCommand reports whether the program may treat a text as a slash command: one
// that begins with a path is not one, and neither is a slash alone.
func isCommand(text string) bool {
	name, _ := splitCommand(text)
	return strings.HasPrefix(text, "/") && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != ':' && r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// splitCommand returns the name, without its slash, and the arguments.
func splitCommand(text string) (name, args string) {
	text = strings.TrimPrefix(text, "/")
	if at := strings.IndexFunc(text, unicode.IsSpace); at >= 0 {
		return text[:at], strings.TrimSpace(text[at:])
	}
	return text, ""
}

// commandIn returns the part of a message that the program may treat as a slash
// command: it looks at the last one only. Nil if there is none.
func commandIn(parts []part) *part {
	if n := len(parts); n > 0 && parts[n-1].Type == "text" && isCommand(parts[n-1].Text) {
		return &parts[n-1]
	}
	return nil
}

// holdCommand holds a local command back until its output arrives.
func (s *emitter) holdCommand(conversation string, p prompt) {
	s.flushCommand(conversation)
	s.thread(conversation).Command = &p
}

// flushCommand emits a held command that got no output.
func (s *emitter) flushCommand(conversation string) {
	th := s.thread(conversation)
	if th.Command == nil {
		return
	}
	p := *th.Command
	th.Command = nil
	s.showCommand(conversation, p, s.promptID(p))
}

// modelChanged is the beginning of the trace that a control request for another
// model leaves. It is not part of the conversation, which has the model by
// options:update: the program prints it at once, but writes it to disk with the
// next prompt, so that its place would differ when it is read back.
const modelChanged = "Set model to "

func isModelChange(output string) bool {
	return strings.HasPrefix(strings.TrimSpace(output), modelChanged)
}

func isModelCommand(content json.RawMessage) bool {
	parts, err := decodeParts(content)
	return err == nil && strings.HasPrefix(joinText(parts), "/model")
}

// commandOutput emits the output of a local command, behind the command.
func (s *emitter) commandOutput(conversation, id, text string) {
	th := s.thread(conversation)
	if isModelChange(text) && (th.Command == nil || !isModelCommand(th.Command.Content)) {
		return
	}
	if held := th.Command; held != nil {
		if refuses(text) {
			held.Content = lastPart(held.Content)
		}
		s.showCommand(conversation, *held, id+":command")
		th.Command = nil
	}
	// The stream trims what the transcript keeps.
	s.System(conversation, id, "local_command", strings.TrimSpace(text))
}

// refuses recognizes the answers to commands that the program does not have. It
// writes such a command to disk without what preceded it.
func refuses(output string) bool {
	return strings.HasPrefix(output, "Unknown command: ") || strings.HasSuffix(output, "isn't available in this environment.")
}

func lastPart(content json.RawMessage) json.RawMessage {
	parts, err := decodeParts(content)
	if err != nil || len(parts) < 2 {
		return content
	}
	return nativejson.Encode(parts[len(parts)-1].Text)
}

func (s *emitter) showCommand(conversation string, p prompt, id string) {
	parts, err := decodeParts(p.Content)
	if err != nil || len(parts) == 0 {
		return
	}
	if c := commandIn(parts); c != nil {
		c.Text = s.commandText(c.Text)
	}
	s.userMessage(conversation, id, parts)
}

// commandText returns a command as the program writes it to disk: by its first
// name, with one space before its arguments.
func (s *emitter) commandText(text string) string {
	name, args := splitCommand(text)
	if known, ok := s.Aliases[name]; ok {
		name = known
	}
	return strings.TrimSpace("/" + name + " " + args)
}

// writtenCommand parses a command in a transcript line.
func writtenCommand(text string) string {
	name, _, _ := strings.Cut(after(text, markCommand), "</")
	args, _, _ := strings.Cut(after(text, "<command-args>"), "</command-args>")
	if !strings.HasPrefix(name, "/") {
		name = "/" + name
	}
	return strings.TrimSpace(name + " " + strings.TrimSpace(args))
}

// rawParts returns parts followed by a text, as JSON.
func rawParts(before []part, text string) json.RawMessage {
	out := []byte{'['}
	for i := range before {
		out = append(append(out, before[i].raw...), ',')
	}
	out = append(append(out, `{"type":"text","text":`...), nativejson.Encode(text)...)
	return append(out, '}', ']')
}

// command emits what a transcript has of a slash command, and reports whether the
// text was one.
func (s *emitter) command(l *line) bool {
	parts := l.Message.parts()
	if len(parts) == 0 {
		return false
	}
	last := len(parts) - 1
	text := parts[last].Text
	switch {
	case strings.HasPrefix(text, markPrompt):
		s.flushCommand(event.Main)
		s.userMessage(event.Main, l.UUID, []part{{Type: "text", Text: writtenCommand(text)}})
	case strings.HasPrefix(text, markCommand):
		written := writtenCommand(text)
		if strings.HasPrefix(written, "/model ") {
			break // the trace of a control request, not of a message
		}
		s.holdCommand(event.Main, prompt{ID: l.UUID, Content: rawParts(parts[:last], written)})
	default:
		return false
	}
	return true
}
