package opencode

import (
	"encoding/json"
	"fmt"
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
	// due must be written and was not returned yet.
	due []adapters.Message
}

var _ adapters.Translator = (*translator)(nil)

func newTranslator(l adapters.Launch, raw json.RawMessage) (*translator, error) {
	st := newState()
	if err := emit.LoadState(Name, raw, st, &st.Version, stateVersion); err != nil {
		return nil, err
	}
	if st.Main == "" {
		st.Main = l.NativeID
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
		if !t.fast(r.Line) {
			t.decode(r, t.printed)
		}
	case event.DirIn:
		t.decode(r, t.asked)
	case event.DirErr:
		if strings.TrimSpace(r.Line) != "" {
			t.Emit(event.Main, event.Log{Level: logLevel(r.Line), Message: r.Line})
		}
	case event.DirSig:
		t.signal(r.Line)
	}
	return t.End(r)
}

// fast translates what can be read without the decoder, and reports whether it
// could.
func (t *translator) fast(line string) bool {
	kind := fastType(line)
	if kind == "message.part.delta" {
		p, ok := fastDelta(line)
		if ok {
			t.delta(&p)
		}
		return ok
	}
	quiet := chatter[kind] || kind == "session.status" && !strings.Contains(line, "retry")
	return quiet && json.Valid([]byte(line))
}

// logLevel parses the agent's own level: its log has everything on one stream. A
// line that is neither of its log nor of a server's start is printed when it
// can't continue ("Error: Unexpected error", "database is locked").
func logLevel(text string) string {
	if strings.Contains(text, "level=ERROR") || strings.Contains(text, "level=WARN") {
		return "warn"
	}
	if strings.Contains(text, "level=") || isBanner(text) {
		return "info"
	}
	return "warn"
}

// decode passes a line on, or keeps it as an error event.
func (t *translator) decode(r traffic.Record, next func(*line, json.RawMessage) error) {
	if strings.TrimSpace(r.Line) == "" {
		return
	}
	raw := []byte(r.Line)
	l, err := decodeLine(raw)
	if err == nil {
		err = next(l, raw)
	}
	switch {
	case err == nil:
	case r.Dir == event.DirOut && isBanner(r.Line):
		t.Emit(event.Main, event.Log{Level: "info", Message: r.Line})
	case isCall(raw):
		t.Native(event.Main, r.Dir, "jsonrpc", raw)
	default:
		t.Malformed(r.Dir, err, nativejson.Encode(r.Line))
	}
}

// isCall recognizes a line of the program's other protocol, which is used in
// another mode and is ignored here.
func isCall(raw json.RawMessage) bool {
	var l struct {
		Version string `json:"jsonrpc"`
	}
	return json.Unmarshal(raw, &l) == nil && l.Version != ""
}

// isBanner recognizes what the server prints when it starts.
func isBanner(text string) bool {
	return strings.HasPrefix(text, readyLine) || strings.HasPrefix(text, "Warning: ") || strings.HasPrefix(text, "timestamp=")
}

// printed translates the agent's output.
func (t *translator) printed(l *line, raw json.RawMessage) error {
	switch {
	case l.isRecorded():
		t.recorded(l)
		return nil
	case l.Type == responseType:
		t.answered(l)
		return nil
	case l.Type == "":
		return fmt.Errorf("field \"type\" is missing")
	case chatter[l.Type]:
		return nil
	case l.Part != nil || l.Type == "error":
		t.headless(l, raw)
		return nil
	}
	return t.event(l, raw)
}

// event translates a server-sent event.
func (t *translator) event(l *line, raw json.RawMessage) error {
	p := l.Properties
	if p == nil || !known(l.Type) {
		t.Native(event.Main, event.DirOut, l.Type, raw)
		return nil
	}
	switch l.Type {
	case "message.part.delta":
		t.delta(p)
	case "message.part.updated":
		return t.partUpdated(p, raw)
	case "message.updated":
		return t.messageUpdated(p)
	case "session.created":
		if p.Info != nil && p.Info.ParentID != "" {
			t.addChild(p.Info.ID, p.Info.ParentID)
		}
	case "session.error":
		t.sessionError(p)
	case "session.status":
		t.sessionStatus(p)
	case "session.idle":
		t.sessionIdle(p.SessionID)
	default:
		t.asks(l.Type, p)
	}
	return nil
}

func (t *translator) delta(p *properties) {
	o := t.Open[p.PartID]
	if o == nil || p.Field != "text" || p.Delta == "" || !o.Type.HasText() {
		return
	}
	o.Said = true
	t.Emit(t.thread(o.Session).Conversation, event.BlockDelta{BlockID: p.PartID, Delta: p.Delta})
}

func (t *translator) messageUpdated(p *properties) error {
	if p.Info == nil || p.Info.ID == "" {
		return fmt.Errorf("field \"properties.info.id\" is missing")
	}
	th := t.thread(p.SessionID)
	m, first := th.learn(p.Info)
	if first && m.Role == "user" {
		t.promptSeen(th)
	}
	if m.Role != "assistant" {
		return nil
	}
	if first {
		t.answerBegins(th, m)
	}
	t.failed(th, m, p.Info.Error)
	if p.Info.Finish != "" && th.Conversation == event.Main {
		t.Turn.StopReason = p.Info.Finish
	}
	return nil
}

// answerBegins is called when an answer begins: the model has responded.
func (t *translator) answerBegins(th *thread, m *message) {
	if th.Conversation != event.Main {
		return
	}
	t.continued(th)
	t.Turn.Active, t.Turn.Running, t.Turn.Rested = true, true, false
	if t.Turn.Early && !t.Turn.Repeated {
		t.Turn.Repeated = true
		t.abort(again + m.ID)
	}
	if m.Model != "" && m.Model != t.Model {
		t.Model = m.Model
		t.Emit(event.Main, event.MetadataUpdate{Model: m.Model})
	}
}

func (t *translator) partUpdated(p *properties, raw json.RawMessage) error {
	q := p.Part
	if q == nil || q.ID == "" || q.MessageID == "" {
		return fmt.Errorf("field \"properties.part\" has no id or messageID")
	}
	if p.Delta != "" && t.Open[q.ID] != nil {
		t.delta(&properties{PartID: q.ID, Field: "text", Delta: p.Delta})
		return nil
	}
	if q.SessionID == "" {
		q.SessionID = p.SessionID
	}
	th := t.thread(q.SessionID)
	m := th.find(q.MessageID)
	if m == nil {
		// Its message is forgotten already, or the stream begins behind it.
		m = &message{ID: q.MessageID, Role: "assistant"}
	}
	t.part(th, m, q, raw)
	return nil
}

// part translates a part in its current state.
func (t *translator) part(th *thread, m *message, p *part, raw json.RawMessage) {
	if m.Role == "user" {
		t.promptPart(th, p, raw)
		return
	}
	switch p.Type {
	case "text", "reasoning":
		t.textPart(th, m, p)
	case "tool":
		m.Called = true
		t.toolPart(th, p, raw)
	case "step-finish":
		t.stepFinish(th, p)
	case "step-start":
		if !th.counted(p.ID) {
			t.Emit(th.Conversation, event.MetadataUpdate{Calls: 1})
		}
	case "snapshot", "patch", "agent":
		// How the agent keeps account of its work.
	case "retry":
		t.retryPart(th, p)
	default:
		t.Native(th.Conversation, event.DirOut, "part/"+p.Type, raw)
	}
}

func (t *translator) promptPart(th *thread, p *part, raw json.RawMessage) {
	switch p.Type {
	case "text", "file", "subtask", "agent":
		if t.addPrompt(th, p) {
			t.showPrompt(th)
		}
		t.promptTaken(th, p.ID)
	case "compaction":
		t.compaction(th, p)
	default:
		t.Native(th.Conversation, event.DirOut, "part/"+p.Type, raw)
	}
}

// textPart emits the beginning and the end of a text; the middle is sent as
// deltas.
func (t *translator) textPart(th *thread, m *message, p *part) {
	if p.Synthetic || p.Ignored {
		return
	}
	if p.Time.End != 0 {
		delete(t.Open, p.ID)
		t.text(th, m, p, event.StatusComplete)
		return
	}
	t.Open[p.ID] = &open{Session: p.SessionID, Type: textType(m, p), Said: p.Text != ""}
	t.text(th, m, p, event.StatusPending)
}

// toolPart emits what is new of a call.
func (t *translator) toolPart(th *thread, p *part, raw json.RawMessage) {
	if p.State == nil {
		t.Native(th.Conversation, event.DirOut, "part/tool", raw)
		return
	}
	c := t.Tools[p.ID]
	if c == nil {
		c = t.toolAppears(th, p)
	}
	if p.State.Status == "pending" {
		return
	}
	if !c.Begun {
		t.toolBegins(th, p, c)
	}
	t.linked(th, p, c)
	if p.State.ended() {
		t.toolEnds(th, p, c)
	}
}

// stepFinish reports the cost of one answer of the model.
func (t *translator) stepFinish(th *thread, p *part) {
	if th.counted(p.ID) {
		return
	}
	m := event.MetadataUpdate{CostUSD: p.Cost}
	m.Usage = p.usage()
	if m.Usage != nil || m.CostUSD != nil {
		t.Emit(th.Conversation, m)
	}
	t.used(th, p)
}

func (t *translator) retryPart(th *thread, p *part) {
	text := "model API error"
	if p.Error != nil {
		text += ": " + p.Error.text()
	}
	t.Emit(th.Conversation, event.Log{Level: "warn", Message: fmt.Sprintf("%s: attempt %d", text, p.Attempt)})
}
