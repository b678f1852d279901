package claude

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// translator is the pure step from records to events.
type translator struct {
	emitter
	launch adapters.Launch
	// line is the one that is being translated; only texts and copies of it are kept.
	line line
	// due is what must be written after the last step.
	due []adapters.Message
}

var _ adapters.Translator = (*translator)(nil)

func newTranslator(l adapters.Launch, raw json.RawMessage) (*translator, error) {
	st := newState()
	if err := emit.LoadState(Name, raw, st, &st.Version, stateVersion); err != nil {
		return nil, err
	}
	return &translator{emitter: newEmitter(st), launch: l}, nil
}

// State returns what the next translator needs to continue.
func (t *translator) State() (json.RawMessage, error) { return json.Marshal(t.state) }

// Step translates one record.
func (t *translator) Step(r traffic.Record) []event.Event {
	t.Begin(r)
	switch r.Dir {
	case event.DirOut:
		t.decode(r, t.printed)
	case event.DirIn:
		t.decode(r, t.written)
	case event.DirErr:
		if strings.TrimSpace(r.Line) != "" {
			t.Emit(event.Main, event.Log{Level: "warn", Message: r.Line})
		}
	case event.DirSig:
		t.signal(r.Line)
	}
	return t.End(r)
}

// decode passes a line on, or keeps it as an error event.
func (t *translator) decode(r traffic.Record, next func(*line, json.RawMessage) error) {
	if strings.TrimSpace(r.Line) == "" {
		return
	}
	raw := []byte(r.Line)
	t.line = line{}
	err := t.line.decode(raw)
	if err == nil {
		err = next(&t.line, raw)
	}
	if err != nil {
		t.Malformed(r.Dir, err, nativejson.Encode(r.Line))
	}
}

// printed translates a line of standard output.
func (t *translator) printed(l *line, raw json.RawMessage) error {
	if l.UUID != "" && slices.Contains(t.Preserved, l.UUID) {
		return nil
	}
	switch l.Type {
	case "stream_event":
		t.stream(l, raw)
	case "assistant":
		t.assistantLine(l)
	case "user":
		t.userLine(l)
	case "system":
		t.systemLine(l, raw)
	case "result":
		t.result(l)
	case "control_request":
		return t.asked(l, raw)
	case "control_response":
		return t.answered(l)
	case "control_cancel_request":
		t.resolve(l.RequestID, "cancelled", "")
	case "keep_alive":
	default:
		t.Native(conversationOf(l), event.DirOut, l.kind(), raw)
	}
	return nil
}

// written translates a line of standard input.
func (t *translator) written(l *line, raw json.RawMessage) error {
	switch l.Type {
	case adapters.PromptType:
		t.handed(&line{Type: "user", Message: &message{Content: l.Text}})
	case "user":
		t.handed(l)
	case "control_request":
		return t.request(l)
	case "control_response":
		return t.decided(l)
	default:
		t.Native(event.Main, event.DirIn, l.kind(), raw)
	}
	return nil
}

func conversationOf(l *line) string {
	if l.Parent == "" {
		return event.Main
	}
	return l.Parent
}

func (t *translator) assistantLine(l *line) {
	conversation := conversationOf(l)
	if isLocal(l) {
		t.localCommand()
	}
	if conversation == event.Main && l.Message != nil && l.Message.Model != synthetic {
		t.turnRuns() // a stream of whole messages does not report requests
	}
	t.assistant(conversation, l)
	if conversation == event.Main && l.Message != nil && l.Message.Model != synthetic {
		t.whole(l.Message.ID)
	}
}

func (t *translator) userLine(l *line) {
	conversation := conversationOf(l)
	if text := l.Message.text(); strings.HasPrefix(text, markPrompt) {
		t.replayed(l, prompt{ID: l.UUID, Content: nativejson.Encode(writtenCommand(text))})
		return
	}
	l.asked = conversation == event.Main && t.expects(l)
	if isLocal(l) && !l.asked {
		t.localCommand()
	}
	rest := t.user(conversation, l)
	if rest == nil {
		t.Turn.Resulted = t.Turn.Resulted || conversation == event.Main && l.hasResult()
		t.afterRemark(l)
		return
	}
	if conversation != event.Main {
		t.userMessage(conversation, l.UUID, rest)
		return
	}
	t.replayed(l, prompt{ID: l.UUID, Content: l.Message.given()})
}

// isLocal reports whether a line is the output of a local command.
func isLocal(l *line) bool {
	if l.Message == nil || l.Parent != "" {
		return false
	}
	if l.Type == "assistant" {
		return l.Message.Model == synthetic && len(l.Error) == 0
	}
	text := l.Message.text()
	if isModelChange(untag(text)) {
		return false // only a control request waits for it
	}
	return strings.HasPrefix(text, markStdout) || strings.HasPrefix(text, markStderr)
}

// afterRemark handles an interruption that was not requested by the control
// protocol: a signal ended the turn, and unfinished blocks are not on disk.
func (t *translator) afterRemark(l *line) {
	if l.Message == nil || t.Turn.Interrupted {
		return
	}
	if joinText(l.Message.parts()) != markInterrupted+"]" {
		return
	}
	for _, o := range t.thread(event.Main).Open {
		t.Lose(event.Main, o.ID, blockType(o.Type))
	}
	t.thread(event.Main).Open = nil
	t.Lose(event.Main, l.UUID, event.BlockSystem)
}
