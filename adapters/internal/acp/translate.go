package acp

import (
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// Step translates one record.
func (t *Translator) Step(r traffic.Record) []event.Event {
	t.Begin(r)
	switch r.Dir {
	case event.DirOut:
		if kind, message, text, ok := fastChunk(r.Line); ok {
			t.textChunk(kind, message, text, r.Line)
			break
		}
		t.decode(r, t.printed)
	case event.DirIn:
		t.decode(r, t.written)
	case event.DirErr:
		if strings.TrimSpace(r.Line) != "" {
			t.emit(event.Log{Level: "warn", Message: r.Line})
		}
	case event.DirSig:
		t.signal(r.Line)
	}
	return t.End(r)
}

// emit adds an event of the main conversation.
func (t *Translator) emit(p event.Payload) { t.Emit(event.Main, p) }

func (t *Translator) upsert(b event.Block) { t.UpsertStamped(event.Main, b) }

func (t *Translator) decode(r traffic.Record, next func(*message, string)) {
	if strings.TrimSpace(r.Line) == "" {
		return
	}
	m, known, err := decode(r.Line)
	switch {
	case err != nil:
		t.Malformed(r.Dir, err, nativejson.Encode(r.Line))
	case !known:
		t.native(r.Dir, "unknown", r.Line)
	default:
		next(m, r.Line)
	}
}

// native keeps what is not known.
func (t *Translator) native(d event.Dir, kind, line string) {
	t.Native(event.Main, d, kind, []byte(line))
}

// printed translates a line of the agent.
func (t *Translator) printed(m *message, line string) {
	switch {
	case m.Method == "session/update" && m.Params.Update != nil:
		t.update(m.Params.Update, line)
	case m.Method == "session/request_permission" && m.Params.ToolCall != nil && !isNull(m.ID):
		t.asked(m, line)
	case m.Method != "" && !isNull(m.ID):
		t.Unserved[key(m.ID)] = m.ID
		t.native(event.DirOut, m.Method, line)
	case m.Method == "" && !isNull(m.ID) && (m.Error != nil || len(m.Result) > 0):
		t.answered(m, line)
	default:
		t.native(event.DirOut, kindOf(m), line)
	}
}

func kindOf(m *message) string {
	if m.Method != "" {
		return m.Method
	}
	return "unknown"
}

// update translates a session/update.
func (t *Translator) update(u *update, line string) {
	switch u.Kind {
	case saidKind, thoughtKind:
		t.chunk(u, line)
	case "user_message_chunk":
		t.userChunk(u)
	case "tool_call", "tool_call_update":
		t.toolUpdate(u, line)
	case "available_commands_update":
		t.Known = make([]string, 0, len(u.Commands))
		for _, c := range u.Commands {
			t.Known = append(t.Known, c.Name)
		}
	case "usage_update":
		t.spent(u.Cost)
	case "current_mode_update":
		mode := u.CurrentModeID
		t.emit(event.OptionsUpdate{PermissionMode: &mode})
	default:
		t.native(event.DirOut, "session/update/"+u.Kind, line)
	}
}

// written translates a line to the agent.
func (t *Translator) written(m *message, line string) {
	switch {
	case m.Type == adapters.PromptType:
		t.prompted("", []Content{{Type: "text", Text: m.Text}})
	case m.Method == "session/cancel":
		if len(t.Turns) > 0 {
			t.Turns[0].Cancelled = true
		}
	case m.Method != "" && !isNull(m.ID):
		t.requested(m)
	case m.Method == "" && !isNull(m.ID):
		t.decided(m)
	default:
		t.native(event.DirIn, kindOf(m), line)
	}
}

// requested records a request of the host.
func (t *Translator) requested(m *message) {
	id := key(m.ID)
	s := sent{Method: m.Method}
	switch m.Method {
	case "initialize":
		t.begin(id)
	case "session/new":
		t.Phase, s.Arg, s.At = opening, noteOf[string](m.Params.Meta, replacesKey), t.Time
	case "session/load", "session/resume":
		t.Phase = opening
		t.loading(m.Params.SessionID, m.Params.Meta)
	case "session/set_model":
		s.Arg = m.Params.ModelID
		t.Asked = s.Arg
	case "session/set_config_option":
		if name, is := m.Params.Value.(string); is && m.Params.ConfigID == t.ModelOption {
			s.Arg, t.Asked = name, name
		}
	case "session/set_mode":
		s.Arg = m.Params.ModeID
	case "session/prompt":
		t.prompted(id, m.Params.Prompt)
	}
	t.Sent[id] = s
}

// answered translates the agent's answer to a request of the host.
func (t *Translator) answered(m *message, line string) {
	id := key(m.ID)
	s, known := t.Sent[id]
	if !known {
		t.native(event.DirOut, "answer", line)
		return
	}
	delete(t.Sent, id)
	switch s.Method {
	case "initialize", "session/new", "session/load", "session/resume":
		if s.Method == "session/new" && m.Error == nil && t.dialect.Parted != nil && t.dialect.Parted(s.At, t.Time) {
			t.Phase, t.Unusable = again, id
			return
		}
		t.opened(s.Method, m)
		if s.Method == "session/new" && m.Error == nil {
			t.replaced(s.Arg)
		}
	case "session/prompt":
		t.promptAnswered(id, m)
	default:
		t.changed(id, s, m)
	}
}

// changed handles the answer to a request that changes a setting.
func (t *Translator) changed(id string, s sent, m *message) {
	if t.settled(id) {
		return
	}
	if m.Error != nil {
		t.emit(event.Error{ErrorInfo: event.ErrorInfo{
			Message: fmt.Sprintf("%s: %s: %s", t.dialect.Agent, s.Method, m.Error.text()), Code: "request_failed",
		}})
		return
	}
	if s.Method == "session/set_model" || s.Method == "session/set_config_option" && s.Arg != "" {
		t.emit(event.OptionsUpdate{Model: &s.Arg})
		t.model(s.Arg)
	}
}

func (t *Translator) model(name string) {
	if name != "" && name != t.Model {
		t.Model = name
		t.emit(event.MetadataUpdate{Model: name})
	}
}

// now returns the time of the record, in Unix milliseconds; 0 if not known.
func (t *Translator) now() int64 {
	if t.Time.IsZero() {
		return 0
	}
	return t.Time.UnixMilli()
}

// since returns the time since then; nil unless both times are known.
func (t *Translator) since(begun int64) *int64 {
	now := t.now()
	if begun == 0 || now < begun {
		return nil
	}
	took := now - begun
	return &took
}

// lose marks a block that is in no file of the agent.
func (t *Translator) lose(id string, typ event.BlockType) {
	t.upsert(event.Block{ID: id, Type: typ, Status: event.StatusError, Metadata: emit.Lost()})
}
