package codex

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// translator is the pure step from records to events, and the host's side of
// the protocol.
type translator struct {
	emitter
	launch adapters.Launch
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
func (t *translator) State() (json.RawMessage, error) {
	return nativejson.Marshal(t.state) // a call's input is repeated unchanged
}

// Step translates one record.
func (t *translator) Step(r traffic.Record) []event.Event {
	t.Begin(r)
	switch r.Dir {
	case event.DirOut:
		t.decode(r, t.printed)
	case event.DirIn:
		t.decode(r, t.written)
	case event.DirErr:
		t.complained(r.Line)
	case event.DirSig:
		t.signal(r.Line)
	}
	return t.End(r)
}

// Due returns what must be written after the last steps.
func (t *translator) Due() []adapters.Message {
	due := t.due
	t.due = nil
	return due
}

// decode passes a line on, or keeps it as an error event.
func (t *translator) decode(r traffic.Record, next func(*message, []byte) error) {
	if strings.TrimSpace(r.Line) == "" {
		return
	}
	raw := []byte(r.Line)
	m := new(message)
	err := decodeObject(raw, m)
	if err == nil {
		err = next(m, raw)
	}
	if err != nil {
		t.Malformed(r.Dir, err, rawText(r.Line))
	}
}

// printed translates a line of standard output.
func (t *translator) printed(m *message, raw []byte) error {
	switch {
	case m.Method != "" && given(m.ID):
		return t.asked(m, raw)
	case m.Method != "":
		return t.notified(m, raw)
	case m.Type != "":
		return t.execLine(m, raw)
	case given(m.ID) && (given(m.Result) || given(m.Error)):
		return t.responded(m)
	}
	t.Native(event.Main, event.DirOut, "", raw)
	return nil
}

// written translates a line of standard input.
func (t *translator) written(m *message, raw []byte) error {
	switch {
	case m.Type == adapters.PromptType:
		t.prompted(m)
	case m.Method != "" && given(m.ID):
		return t.requested(m)
	case m.Method == "initialized":
	case m.Method == "" && given(m.ID):
		return t.answered(m)
	default:
		t.Native(event.Main, event.DirIn, m.Method, raw)
	}
	return nil
}

// colours are the program's escape codes on standard error.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

func (t *translator) complained(line string) {
	if line = strings.TrimSpace(colours.ReplaceAllString(line, "")); line != "" {
		t.Emit(event.Main, event.Log{Level: "warn", Message: line})
	}
}

// signal translates a record about the process.
func (t *translator) signal(what string) {
	if emit.Fatal(what, "15") { // SIGINT lets the program end by itself
		t.died(what)
		return
	}
	t.LogProcess(what)
	if strings.HasPrefix(what, "start") {
		t.Opening = opening{}
	}
}

// peaceful reports whether the process ended by itself: its input was closed.
func peaceful(how string) bool { return how == "exit 0" || strings.HasPrefix(how, "exit (") }

// died closes what the end of the process leaves open.
func (t *translator) died(how string) {
	midTurn := t.Turn.Busy
	for _, id := range slices.Sorted(maps.Keys(t.Asks)) {
		t.resolve(id, "cancelled")
	}
	t.placeHeld()
	t.endThreads(peaceful(how))
	t.loseHanded()
	t.Opening, t.Turn, t.Clock = opening{}, turn{}, 0
	clear(t.Calls)
	t.Died(how, midTurn)
}

// loseHanded discards the prompts that the process had taken. Those that were
// shown stay in the conversation.
func (t *translator) loseHanded() { t.Handed = nil }
