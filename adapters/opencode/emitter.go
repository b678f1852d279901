package opencode

import (
	"encoding/json"
	"hash/fnv"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// emitter emits events about messages and their parts. The translator of the live
// stream and the parser of databases both use it, so that both make the same
// conversation.
type emitter struct {
	emit.Emitter
	*state
}

func newEmitter(st *state) emitter { return emitter{Emitter: emit.Emitter{Agent: Name}, state: st} }

// failed emits the failure of a message, once.
func (s *emitter) failed(th *thread, m *message, e *apiError) {
	if e == nil || m.Failed {
		return
	}
	m.Failed, m.Aborted = true, e.Name == aborted
	text := e.text()
	b := event.Block{ID: m.ID + ":error", Type: event.BlockError, Status: event.StatusComplete, Message: &text, Code: e.code()}
	if e.Name == aborted {
		b.Type, b.Code, b.Subtype = event.BlockSystem, "", "interrupted"
	}
	s.Upsert(th.Conversation, b)
}

// The adapter chooses the ids of a prompt's parts, so that its block has the id of the
// host's message: these are their prefixes. They sort before the agent's own. ofSteered
// is that of a message handed to an agent at work: the calls that ran then ran on.
const (
	ofPrompt  = "prt_000sojourn_"
	ofSteered = "prt_001sojourn_"
)

// hostMessage returns the host's message that a part is of, if the adapter chose its id.
func hostMessage(partID string) (id string, chosen bool) {
	if id, chosen = strings.CutPrefix(partID, ofPrompt); !chosen {
		id, chosen = strings.CutPrefix(partID, ofSteered)
	}
	return id, chosen && id != ""
}

// promptID returns the id of a prompt's block: that of the host's message, or the
// agent's own.
func promptID(p *part) string {
	if id, chosen := hostMessage(p.ID); chosen {
		return id
	}
	return p.MessageID
}

// addPrompt adds a part of a user's message, and reports whether that changes the
// block.
func (s *emitter) addPrompt(th *thread, p *part) bool {
	if p.Synthetic || p.Ignored || p.Type == "agent" {
		return false
	}
	u := th.User
	if u == nil || u.MessageID != p.MessageID {
		u = &prompt{MessageID: p.MessageID, Block: promptID(p)}
		th.User = u
	}
	for _, id := range u.Seen {
		if id == p.ID {
			return false
		}
	}
	u.Seen = append(u.Seen, p.ID)
	switch p.Type {
	case "text":
		u.addText(p.Text)
	case "subtask":
		u.addText(p.Prompt)
	case "file":
		u.Rich = true
		u.Parts = append(u.Parts, filePart(p))
	}
	return true
}

func (u *prompt) addText(text string) {
	if u.Text != "" {
		u.Text += "\n"
	}
	u.Text += text
	u.Parts = append(u.Parts, event.Part{Type: "text", Text: text})
}

// filePart returns an attachment; its data is in a data URL.
func filePart(p *part) event.Part {
	out := event.Part{Type: "file", Text: p.Filename, MediaType: p.MIME, URL: p.URL}
	if strings.HasPrefix(p.MIME, "image/") {
		out.Type, out.Text = "image", ""
	}
	if data, found := strings.CutPrefix(p.URL, "data:"+p.MIME+";base64,"); found {
		out.URL, out.Data = "", data
	}
	return out
}

// showPrompt emits the message as far as its parts have arrived.
func (s *emitter) showPrompt(th *thread) {
	u := th.User
	text := u.Text
	b := event.Block{ID: u.Block, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text}
	if u.Rich {
		b.Parts = append(b.Parts, u.Parts...)
	}
	s.Upsert(th.Conversation, b)
}

// compaction emits that the model forgets the earlier conversation.
func (s *emitter) compaction(th *thread, p *part) {
	text := "Conversation compacted"
	s.Upsert(th.Conversation, event.Block{
		ID: p.ID, Type: event.BlockSystem, Status: event.StatusComplete, Subtype: "compact_boundary", Message: &text,
	})
}

// textType returns the type of block for a text of an answer.
func textType(m *message, p *part) event.BlockType {
	switch {
	case p.Type == "reasoning":
		return event.BlockThinking
	case m.Summary:
		return event.BlockSystem
	}
	return event.BlockAssistantText
}

// text emits a text or a thought in its current state.
func (s *emitter) text(th *thread, m *message, p *part, status event.BlockStatus) {
	text := p.Text
	b := event.Block{ID: p.ID, Type: textType(m, p), Status: status}
	switch b.Type {
	case event.BlockSystem:
		b.Subtype, b.Message = "compact_summary", &text
	default: // the headless mode does not name the model, so blocks don't have it
		b.Content = &text
		if status == event.StatusComplete && text != "" {
			th.first(p, b.Type)
		}
	}
	s.Upsert(th.Conversation, b)
}

// first notes the first block of a message: by its id, since a text may be whole only
// behind the calls that follow it.
func (t *thread) first(p *part, is event.BlockType) {
	if m := t.find(p.MessageID); m != nil && (m.First == "" || p.ID < m.First) {
		m.First, m.FirstType = p.ID, is
	}
}

// used writes what a message took so far to its first block.
func (s *emitter) used(th *thread, p *part) {
	m, u := th.find(p.MessageID), p.usage()
	if m == nil || u == nil || m.First == "" {
		return
	}
	sum := m.Usage.Add(*u)
	m.Usage = sum
	s.Upsert(th.Conversation, event.Block{ID: m.First, Type: m.FirstType, Usage: &sum})
}

// usage is what an answer of the model has taken; nil for a part that does not say.
func (p *part) usage() *event.Usage {
	k := p.Tokens
	if k == nil {
		return nil
	}
	return &event.Usage{
		InputTokens: k.Input, OutputTokens: k.Output + k.Reasoning,
		CacheReadTokens: k.Cache.Read, CacheWriteTokens: k.Cache.Write,
	}
}

// The agent's names of the tools that mean more than a call.
const (
	taskTool  = "task"
	skillTool = "skill"
)

// toolAppears emits a call whose input may not be known yet.
func (s *emitter) toolAppears(th *thread, p *part) *tool {
	th.first(p, event.BlockToolUse)
	t := &tool{Session: p.SessionID, CallID: p.CallID, Name: p.Tool}
	s.Tools[p.ID] = t
	s.Upsert(th.Conversation, event.Block{
		ID: p.ID, Type: event.BlockToolUse, Status: event.StatusPending,
		ToolName: p.Tool, ToolUseID: p.CallID, Execution: event.ExecutionPending,
	})
	return t
}

// toolBegins emits a call with its input, and the subagent that it starts.
func (s *emitter) toolBegins(th *thread, p *part, t *tool) {
	t.Begun, t.Name = true, p.Tool
	t.Input = sum(p.State.Input)
	s.Upsert(th.Conversation, event.Block{
		ID: p.ID, Type: event.BlockToolUse, Status: event.StatusComplete,
		ToolName: p.Tool, ToolUseID: p.CallID, Input: inputOf(p), Execution: event.ExecutionRunning,
	})
	if p.Tool == taskTool {
		s.spawned(th, p, "")
	}
}

func inputOf(p *part) json.RawMessage {
	if len(p.State.Input) == 0 {
		return json.RawMessage("{}")
	}
	return p.State.Input
}

// sum returns a hash of an input, to compare inputs without keeping them.
func sum(raw json.RawMessage) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(raw) // a hash never fails
	return h.Sum64()
}

// toolEnds emits a call's result.
func (s *emitter) toolEnds(th *thread, p *part, t *tool) {
	failed := p.State.Status == "error" || p.State.exitCode() != 0
	how := event.ExecutionSuccess
	if failed {
		how = event.ExecutionError
	}
	b := event.Block{ID: p.ID, Type: event.BlockToolUse, Status: event.StatusComplete, Execution: how}
	if t.Input != sum(p.State.Input) {
		b.Input = inputOf(p)
	}
	s.result(th, p.ID, p.CallID, outputOf(p.State), failed, took(p.State.Time))
	s.Upsert(th.Conversation, b)
	s.skill(th, p)
	if p.Tool == taskTool {
		s.completed(th, p, p.State.Status == "error")
	}
	delete(s.Tools, p.ID)
}

func (s *emitter) result(th *thread, partID, callID string, output json.RawMessage, failed bool, ms *int64) {
	s.Upsert(th.Conversation, event.Block{
		ID: resultID(partID), Type: event.BlockToolResult, Status: event.StatusComplete,
		ToolUseID: callID, Output: output, IsError: &failed, DurationMS: ms,
	})
}

func resultID(partID string) string { return partID + ":result" }

// took is how long something lasted; nil unless begin and end are known.
func took(t span) *int64 {
	if t.Start == 0 || t.End < t.Start {
		return nil
	}
	ms := t.End - t.Start
	return &ms
}

// outputOf returns the output's text, or with attachments a list of the text and
// the agent's own parts.
func outputOf(st *toolState) json.RawMessage {
	if st.Status == "error" {
		return nativejson.Encode(st.Error)
	}
	output := st.Output
	if len(output) == 0 {
		output = json.RawMessage("null")
	}
	var attached []json.RawMessage
	if json.Unmarshal(st.Attachments, &attached) != nil || len(attached) == 0 {
		return output
	}
	list := []any{map[string]any{"type": "text", "text": output}}
	for _, a := range attached {
		list = append(list, a)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return output // a decoded value can be encoded
	}
	return data
}

// skill emits the text of a skill that was loaded.
func (s *emitter) skill(th *thread, p *part) {
	text := nativejson.String(p.State.Output)
	if p.Tool != skillTool || p.State.Status != "completed" || text == "" {
		return
	}
	var in struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(p.State.Input, &in) // the call itself shows another shape
	s.Upsert(th.Conversation, event.Block{
		ID: p.ID + ":skill", Type: event.BlockSkillLoad, Status: event.StatusComplete, SkillName: in.Name, Content: &text,
	})
}

// interruptedWords are the result of a call that was running when the agent's
// process ended: the agent itself stores none, and leaves it running for ever.
const interruptedWords = "The agent ended before the tool did."

// toolLost closes a call whose process has ended. One that had not begun is cut off, and gets
// no result: an archived database may be older than the stream, where it had begun.
func (s *emitter) toolLost(partID string, t *tool) {
	th, status := s.thread(t.Session), event.StatusError
	if t.Begun {
		failed := true
		s.Upsert(th.Conversation, event.Block{
			ID: resultID(partID), Type: event.BlockToolResult, Status: event.StatusComplete, ToolUseID: t.CallID,
			Output: nativejson.Encode(interruptedWords), IsError: &failed, Metadata: emit.UnknownEffect(),
		})
		status = event.StatusComplete
	}
	s.Upsert(th.Conversation, event.Block{ID: partID, Type: event.BlockToolUse, Status: status, Execution: event.ExecutionError})
	if t.Name == taskTool && t.Begun {
		s.Emit(th.Conversation, event.SubagentCompleted{ToolUseID: t.CallID, AgentID: t.Child, Status: event.SubagentFailed})
	}
	delete(s.Tools, partID)
}
