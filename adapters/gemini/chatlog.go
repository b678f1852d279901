package gemini

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters/internal/acp"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// chatLog emits a main file. It reads the file as a log, so that it also sees what
// was cancelled or failed later, and emits it as the protocol did.
type chatLog struct {
	*parser
	chatLogState
}

// chatLogState is what a chatLog remembers of earlier lines.
type chatLogState struct {
	Session string `json:"session,omitempty"`
	// Headers counts the headers before the first prompt: a session that was started
	// over the protocol has two, because the agent starts two recordings.
	Headers int `json:"headers,omitempty"`
	// Parted: the last of them is from the first seconds of a minute.
	Parted bool   `json:"parted,omitempty"`
	Begun  bool   `json:"begun,omitempty"`
	Turn   string `json:"turn,omitempty"`
	Runs   int    `json:"runs,omitempty"`

	Thoughts []string `json:"-"`
	// Summary are the thoughts' subjects.
	Summary string `json:"-"`
	Text    string `json:"-"`
	// Took is what the model calls took whose output is not emitted yet.
	Took bill `json:"took,omitzero"`
	// Calls were read and not emitted: refused calls between them are read later.
	Calls []*toolCall `json:"-"`
	// Seen counts the calls read of each message, which is written again for each of
	// them.
	Seen seen `json:"seen,omitzero"`
	// Copying: the lines up to the next patch are a copy of the history. The agent
	// writes one when it has shortened its memory, context first.
	Copying bool `json:"copying,omitempty"`
}

// holds reports whether something was read and not emitted.
func (s *chatLogState) holds() bool { return s.Text != "" || len(s.Thoughts) > 0 || len(s.Calls) > 0 }

// seen counts calls by message.
type seen struct {
	N map[string]int `json:"n,omitempty"`
	// Order has the messages in the order in which they were first seen.
	Order []string `json:"order,omitempty"`
}

func (s *seen) put(id string, n int) {
	if s.N == nil {
		s.N = map[string]int{}
	}
	if _, again := s.N[id]; !again {
		s.Order = append(s.Order, id)
	}
	s.N[id] = n
}

// recentMessages is how many messages are remembered from one call to the next:
// only those of the running turn are written again, except in copies of the whole
// history, which are recognised.
const recentMessages = 64

func (s *seen) forget() {
	old := max(0, len(s.Order)-recentMessages)
	for _, id := range s.Order[:old] {
		delete(s.N, id)
	}
	s.Order = slices.Clone(s.Order[old:])
}

// overProtocol reports whether the conversation was held over the protocol, which
// leaves much out, and not in the agent's headless mode. Recordings are named by
// their minute: if one ends between the protocol's two, they are two files, and
// the one that is used has one header.
func (b *chatLog) overProtocol() bool { return b.Headers != 1 || b.Parted }

// apart is more than the time between the two recordings of one process: some
// milliseconds, a second on a busy machine.
const apart = 5 * time.Second

func (b *chatLog) record(r *record) error {
	switch {
	case r.isHeader():
		return b.header(r)
	case len(r.Set) > 0:
		b.Copying = false
	case r.ID == "" && r.Rewind == "" && len(r.Set) == 0:
		b.Native(event.Main, "", "chat", r.raw)
	case r.ID == "":
		// What is withdrawn later was streamed all the same.
	default:
		return b.message(r)
	}
	return nil
}

func (b *chatLog) header(r *record) error {
	if b.Begun && len(r.Messages) > 0 {
		return nil // Prepare added again what the agent had taken back
	}
	b.Session = r.SessionID
	if !b.Begun {
		began := parseTime(r.StartTime)
		b.Headers, b.Parted = b.Headers+1, !began.IsZero() && began.Sub(began.Truncate(time.Minute)) < apart
	}
	b.at(r.StartTime)
	for _, raw := range r.Messages {
		m, err := decodeRecord(raw)
		if err != nil {
			return err
		}
		if err := b.message(m); err != nil {
			return err
		}
	}
	return nil
}

func (b *chatLog) message(r *record) error {
	if strings.HasPrefix(r.ID, fillerPrefix) {
		return nil
	}
	if b.Copying {
		b.Seen.put(r.ID, len(r.ToolCalls))
		return nil
	}
	switch r.Type {
	case "user":
		return b.user(r)
	case "gemini":
		return b.gemini(r)
	}
	b.at(r.Timestamp)
	b.Native(event.Main, "", "chat/"+r.Type, r.raw)
	return nil
}

// user handles a prompt, or results for the model.
func (b *chatLog) user(r *record) error {
	if _, again := b.Seen.N[r.ID]; again {
		return nil
	}
	pieces, err := r.written()
	if err != nil {
		return err
	}
	b.Seen.put(r.ID, 0)
	text, parts := acp.Parts(prompt(pieces))
	switch {
	case slices.ContainsFunc(pieces, func(p piece) bool { return p.FunctionResponse != nil }):
		b.at(r.Timestamp)
		b.results(pieces)
	case parts == nil && internal(text):
		b.Copying = b.Begun && isContext(text)
	default:
		b.endTurn()
		b.at(r.Timestamp)
		b.prompt(text, parts)
	}
	return nil
}

func (b *chatLog) prompt(text string, parts []event.Part) {
	b.Begun = true
	b.prompts[b.Session]++
	b.Turn, b.Runs, b.Took = acp.TurnID(b.Session, b.prompts[b.Session]), 0, bill{}
	b.UpsertStamped(event.Main, event.Block{
		ID: b.Turn, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text, Parts: parts,
	})
}

// gemini handles the model's output, and calls that have ended since.
func (b *chatLog) gemini(r *record) error {
	known, again := b.Seen.N[r.ID]
	if !again {
		pieces, err := r.pieces()
		if err != nil {
			return err
		}
		b.said(r, said(pieces))
	}
	b.Seen.put(r.ID, max(known, len(r.ToolCalls)))
	for i := known; i < len(r.ToolCalls); i++ {
		c := new(toolCall)
		if err := json.Unmarshal(r.ToolCalls[i], c); err != nil {
			return fmt.Errorf("field \"toolCalls\": %w", err)
		}
		b.Calls = append(b.Calls, c)
	}
	return nil
}

func (b *chatLog) said(r *record, text string) {
	if text != "" || len(r.Thoughts) > 0 {
		b.emitCalls(b.Calls)
	}
	b.Took.add(r.Tokens)
	if text == "" && len(r.Thoughts) == 0 {
		return
	}
	b.at(r.Timestamp)
	for _, t := range r.Thoughts {
		b.Thoughts = append(b.Thoughts, thoughtText(t.Subject, t.Description))
		if t.Subject != "" {
			b.Summary = acp.AddHeading(b.Summary, t.Subject)
		}
	}
	b.Text += text
}

// endRun emits the output since the last call.
func (b *chatLog) endRun() {
	if !b.overProtocol() && len(b.Thoughts) > 0 {
		// The headless mode does not print thoughts.
		b.Native(event.Main, "", "thoughts", nativejson.Encode(b.Thoughts))
		b.Thoughts, b.Summary = nil, ""
	}
	if b.Text == "" && len(b.Thoughts) == 0 {
		return
	}
	b.block(event.BlockThinking, acp.ThoughtID(b.Turn, b.Runs), strings.Join(b.Thoughts, acp.ThoughtBreak), b.Summary)
	b.block(event.BlockAssistantText, acp.TextID(b.Turn, b.Runs), b.Text, "")
	b.Runs++
	b.Text, b.Thoughts, b.Summary = "", nil, ""
}

func (b *chatLog) block(t event.BlockType, id, text, summary string) {
	if text == "" {
		return
	}
	block := event.Block{ID: id, Type: t, Status: event.StatusComplete, Content: &text, Usage: b.Took.take()}
	if summary != "" {
		block.Summary = &summary
	}
	b.UpsertStamped(event.Main, block)
}

// endTurn emits the rest of a turn.
func (b *chatLog) endTurn() {
	b.emitCalls(b.Calls)
	b.endRun()
}

// results handles the answers to the calls of one message, in the order of the
// calls. Those of refused calls are nowhere else.
func (b *chatLog) results(pieces []piece) {
	var order []*toolCall
	for _, p := range pieces {
		if p.FunctionResponse == nil {
			continue
		}
		id := p.FunctionResponse.ID
		at := slices.IndexFunc(b.Calls, func(c *toolCall) bool { return c.ID == id })
		switch {
		case at >= 0:
			order = append(order, b.Calls[at])
			b.Calls = slices.Delete(b.Calls, at, at+1)
		case errorText(p.FunctionResponse.Response) == fmt.Sprintf(rejection, p.FunctionResponse.Name):
			order = append(order, &toolCall{ID: id, Name: p.FunctionResponse.Name, Status: "error",
				ResultDisplay: nativejson.Encode(errorText(p.FunctionResponse.Response))})
		}
	}
	b.emitCalls(slices.Concat(b.Calls, order))
}

// emitCalls emits calls, and first the end of the run before them.
func (b *chatLog) emitCalls(order []*toolCall) {
	b.Calls = nil
	if len(order) == 0 {
		return
	}
	b.endRun()
	if !b.overProtocol() {
		b.emitAtOnce(order)
		return
	}
	for _, c := range order {
		t := keptTool(c)
		b.use(event.Main, c, t, b.Took.take())
		b.result(event.Main, c, t, liveOutput(c))
	}
}

// emitAtOnce emits calls as the headless mode does: all calls, then all
// results.
func (b *chatLog) emitAtOnce(calls []*toolCall) {
	tools := make([]acp.Tool, len(calls))
	for i, c := range calls {
		tools[i] = wholeTool(c)
		b.use(event.Main, c, tools[i], b.Took.take())
	}
	for i, c := range calls {
		b.result(event.Main, c, tools[i], headlessOutput(c))
	}
}

// wholeTool returns a call with everything known of it.
func wholeTool(c *toolCall) acp.Tool {
	t := acp.Tool{Name: c.Name, Input: c.Args}
	if c.Name == agentTool {
		t.Agent, t.Prompt = stringField(c.Args, "agent_name"), stringField(c.Args, "prompt")
	}
	if c.Name == skillTool {
		t.Skill = stringField(c.Args, "name")
	}
	return t
}

// headlessOutput returns the result of a call as the headless mode prints it.
func headlessOutput(c *toolCall) json.RawMessage {
	if text := c.display(); text != "" {
		return nativejson.Encode(text)
	}
	return json.RawMessage("null")
}

// use emits a call, what its message took if no block before it has that, and the subagent that it
// started.
func (p *parser) use(conversation string, c *toolCall, t acp.Tool, took *event.Usage) {
	p.at(c.Timestamp)
	how := event.ExecutionSuccess
	if c.failed() {
		how = event.ExecutionError
	}
	input := t.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	p.UpsertStamped(conversation, event.Block{
		ID: c.ID, Type: event.BlockToolUse, Status: event.StatusComplete,
		ToolName: t.Name, ToolUseID: c.ID, Input: input, Execution: how, Usage: took,
	})
	if t.Agent != "" {
		for _, e := range t.Spawned(c.ID) {
			p.Emit(conversation, e)
		}
		p.subagent(c)
	}
}

// result emits the result of a call.
func (p *parser) result(conversation string, c *toolCall, t acp.Tool, output json.RawMessage) {
	p.at(c.Timestamp)
	failed := c.failed()
	if t.Agent != "" {
		for _, e := range acp.Completed(c.ID, failed, output, nil) {
			p.Emit(conversation, e)
		}
	}
	p.UpsertStamped(conversation, event.Block{
		ID: acp.ResultID(c.ID), Type: event.BlockToolResult, Status: event.StatusComplete,
		ToolUseID: c.ID, Output: output, IsError: &failed,
	})
	if t.Skill != "" && !failed {
		text := nativejson.String(output)
		p.UpsertStamped(conversation, event.Block{
			ID: c.ID + ":skill", Type: event.BlockSkillLoad, Status: event.StatusComplete, SkillName: t.Skill, Content: &text,
		})
	}
}
