package gemini

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters/internal/acp"
	"github.com/sojourn-run/sojourn/event"
)

// book tells a main file. It reads the file as the log that it is, so that it
// sees what was cancelled or failed later, and tells it as the protocol did.
type book struct {
	*parser
	session string
	// headers counts the headers before the first prompt: a session that was
	// begun by the protocol has two, because the agent begins two recordings.
	headers int
	// parted: the last of them is of the first seconds of a minute.
	parted bool
	begun  bool
	turn   string
	runs   int

	thoughts []string
	// summary are the thoughts' subjects.
	summary string
	text    string
	// calls have been read and not told: refused calls between them are read
	// later.
	calls []*toolCall
	// seen counts the calls read of each message, which is written again for
	// every one of them.
	seen map[string]int
	// copying: the lines up to the next patch are a copy of the history. The agent
	// writes one when it has shortened its memory, context first.
	copying bool
}

// told says whether the conversation was told by the protocol, which leaves
// much out, and not by the agent's headless mode. Recordings have the name of
// their minute: when one ends between the protocol's two, they are two files, and
// the one that is used has one header.
func (b *book) told() bool { return b.headers != 1 || b.parted }

// apart is more than lies between the two recordings of one process: some
// milliseconds, a second where the machine is busy.
const apart = 5 * time.Second

func (b *book) record(r *record) error {
	switch {
	case r.isHeader():
		return b.header(r)
	case len(r.Set) > 0:
		b.copying = false
	case r.ID == "" && r.Rewind == "" && len(r.Set) == 0:
		b.native(event.Main, "chat", r.raw)
	case r.ID == "":
		// What is taken back later was said all the same.
	default:
		return b.message(r)
	}
	return nil
}

func (b *book) header(r *record) error {
	b.session = r.SessionID
	if !b.begun {
		began := parseTime(r.StartTime)
		b.headers, b.parted = b.headers+1, !began.IsZero() && began.Sub(began.Truncate(time.Minute)) < apart
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

func (b *book) message(r *record) error {
	if strings.HasPrefix(r.ID, fillerPrefix) {
		return nil
	}
	if b.copying {
		b.seen[r.ID] = len(r.ToolCalls)
		return nil
	}
	switch r.Type {
	case "user":
		return b.user(r)
	case "gemini":
		return b.gemini(r)
	}
	b.at(r.Timestamp)
	b.native(event.Main, "chat/"+r.Type, r.raw)
	return nil
}

// user takes a prompt, or the results that go to the model.
func (b *book) user(r *record) error {
	if _, again := b.seen[r.ID]; again {
		return nil
	}
	pieces, err := r.written()
	if err != nil {
		return err
	}
	b.seen[r.ID] = 0
	text, parts := acp.Parts(prompt(pieces))
	switch {
	case slices.ContainsFunc(pieces, func(p piece) bool { return p.FunctionResponse != nil }):
		b.at(r.Timestamp)
		b.results(pieces)
	case parts == nil && internal(text):
		b.copying = b.begun && strings.HasPrefix(text, contextTag)
	default:
		b.settle()
		b.at(r.Timestamp)
		b.prompt(text, parts)
	}
	return nil
}

func (b *book) prompt(text string, parts []event.Part) {
	b.begun = true
	b.prompts[b.session]++
	b.turn, b.runs = acp.TurnID(b.session, b.prompts[b.session]), 0
	b.upsert(event.Main, event.Block{
		ID: b.turn, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text, Parts: parts,
	})
}

// gemini takes what the model said, and calls that have ended since.
func (b *book) gemini(r *record) error {
	known, again := b.seen[r.ID]
	if !again {
		pieces, err := r.pieces()
		if err != nil {
			return err
		}
		b.said(r, said(pieces))
	}
	b.seen[r.ID] = max(known, len(r.ToolCalls))
	for i := known; i < len(r.ToolCalls); i++ {
		c := new(toolCall)
		if err := json.Unmarshal(r.ToolCalls[i], c); err != nil {
			return fmt.Errorf("field \"toolCalls\": %w", err)
		}
		b.calls = append(b.calls, c)
	}
	return nil
}

func (b *book) said(r *record, text string) {
	if text == "" && len(r.Thoughts) == 0 {
		return
	}
	b.tellCalls(b.calls)
	b.at(r.Timestamp)
	for _, t := range r.Thoughts {
		b.thoughts = append(b.thoughts, thoughtText(t.Subject, t.Description))
		if t.Subject != "" {
			b.summary = acp.AddHeading(b.summary, t.Subject)
		}
	}
	b.text += text
}

// endRun tells what was said since the last call.
func (b *book) endRun() {
	if !b.told() && len(b.thoughts) > 0 {
		// The headless mode does not tell thoughts.
		b.native(event.Main, "thoughts", encode(b.thoughts))
		b.thoughts, b.summary = nil, ""
	}
	if b.text == "" && len(b.thoughts) == 0 {
		return
	}
	b.block(event.BlockThinking, acp.ThoughtID(b.turn, b.runs), strings.Join(b.thoughts, acp.ThoughtBreak), b.summary)
	b.block(event.BlockAssistantText, acp.TextID(b.turn, b.runs), b.text, "")
	b.runs++
	b.text, b.thoughts, b.summary = "", nil, ""
}

func (b *book) block(t event.BlockType, id, text, summary string) {
	if text == "" {
		return
	}
	block := event.Block{ID: id, Type: t, Status: event.StatusComplete, Content: &text}
	if summary != "" {
		block.Summary = &summary
	}
	b.upsert(event.Main, block)
}

// settle tells what is left of a turn.
func (b *book) settle() {
	b.tellCalls(b.calls)
	b.endRun()
}

// results are the answers to the calls of one message, in the order of the
// calls. Those of refused calls are told nowhere else.
func (b *book) results(pieces []piece) {
	var order []*toolCall
	for _, p := range pieces {
		if p.FunctionResponse == nil {
			continue
		}
		id := p.FunctionResponse.ID
		at := slices.IndexFunc(b.calls, func(c *toolCall) bool { return c.ID == id })
		switch {
		case at >= 0:
			order = append(order, b.calls[at])
			b.calls = slices.Delete(b.calls, at, at+1)
		case errorText(p.FunctionResponse.Response) == fmt.Sprintf(rejection, p.FunctionResponse.Name):
			order = append(order, &toolCall{ID: id, Name: p.FunctionResponse.Name, Status: "error",
				ResultDisplay: encode(errorText(p.FunctionResponse.Response))})
		}
	}
	b.tellCalls(slices.Concat(b.calls, order))
}

// tellCalls tells calls, and with them the end of the run before them.
func (b *book) tellCalls(order []*toolCall) {
	b.calls = nil
	if len(order) == 0 {
		return
	}
	b.endRun()
	if !b.told() {
		b.tellAtOnce(order)
		return
	}
	for _, c := range order {
		t := keptTool(c)
		b.use(event.Main, c, t)
		b.result(event.Main, c, t, toldOutput(c))
	}
}

// tellAtOnce tells calls as the headless mode does: all calls, then all
// results.
func (b *book) tellAtOnce(calls []*toolCall) {
	tools := make([]acp.Tool, len(calls))
	for i, c := range calls {
		tools[i] = wholeTool(c)
		b.use(event.Main, c, tools[i])
	}
	for i, c := range calls {
		b.result(event.Main, c, tools[i], headlessOutput(c))
	}
}

// wholeTool is a call with all that is known of it.
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

// headlessOutput is the result of a call as the headless mode tells it.
func headlessOutput(c *toolCall) json.RawMessage {
	if text := c.display(); text != "" {
		return encode(text)
	}
	return json.RawMessage("null")
}

// use tells a call, and the subagent that it started.
func (p *parser) use(conversation string, c *toolCall, t acp.Tool) {
	p.at(c.Timestamp)
	how := event.ExecutionSuccess
	if c.failed() {
		how = event.ExecutionError
	}
	input := t.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	p.upsert(conversation, event.Block{
		ID: c.ID, Type: event.BlockToolUse, Status: event.StatusComplete,
		ToolName: t.Name, ToolUseID: c.ID, Input: input, Execution: how,
	})
	if t.Agent != "" {
		for _, e := range t.Spawned(c.ID) {
			p.emit(conversation, e)
		}
		p.subagent(c)
	}
}

// result tells what came of a call.
func (p *parser) result(conversation string, c *toolCall, t acp.Tool, output json.RawMessage) {
	p.at(c.Timestamp)
	failed := c.failed()
	if t.Agent != "" {
		for _, e := range acp.Completed(c.ID, failed, output, nil) {
			p.emit(conversation, e)
		}
	}
	p.upsert(conversation, event.Block{
		ID: acp.ResultID(c.ID), Type: event.BlockToolResult, Status: event.StatusComplete,
		ToolUseID: c.ID, Output: output, IsError: &failed,
	})
	if t.Skill != "" && !failed {
		text := plainString(output)
		p.upsert(conversation, event.Block{
			ID: c.ID + ":skill", Type: event.BlockSkillLoad, Status: event.StatusComplete, SkillName: t.Skill, Content: &text,
		})
	}
}
