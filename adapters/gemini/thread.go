package gemini

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/acp"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// thread is a subagent's file. Nothing of it is live, so it is parsed with all
// its content, under the agent's own ids.
type thread struct {
	adapters.Source
	emitted bool
	// prompt is the thread's first prompt; read reports whether it is known.
	prompt string
	read   bool
}

// subagent emits the thread of a call, if its file exists.
func (p *parser) subagent(c *toolCall) {
	t := p.threadOf(c)
	if t == nil {
		return
	}
	t.emitted = true
	// The thread's own record of its task and its result: the protocol reports
	// neither, so it is part of the thread.
	p.Emit(c.ID, event.SubagentSpawned{ToolUseID: c.ID, Prompt: stringField(c.Args, "prompt")})
	p.thread(c.ID, t)
	done := event.SubagentCompleted{ToolUseID: c.ID, Status: event.SubagentCompletedOK}
	if c.failed() {
		done.Status = event.SubagentFailed
	}
	if text := stringField(c.ResultDisplay, "result"); text != "" {
		done.Output = &text
	}
	p.Emit(c.ID, done)
}

// threadOf returns the file of a call's subagent: by the id if the call has one,
// else the first one with the same prompt that has no other call.
func (p *parser) threadOf(c *toolCall) *thread {
	prompt := stringField(c.Args, "prompt")
	var same *thread
	for _, t := range p.threads {
		switch {
		case t.emitted:
		case c.AgentID != "" && t.ID == c.AgentID:
			return t
		case c.AgentID == "" && same == nil && t.begins() == prompt:
			same = t
		}
	}
	return same
}

// begins returns the thread's first prompt.
func (t *thread) begins() string {
	if t.read {
		return t.prompt
	}
	t.read = true
	quiet := newParser(emit.To(func(event.Event) {}))
	quiet.read(t.Source, func(r *record) error {
		if r.Type == "user" {
			pieces, err := r.pieces()
			if err == nil {
				t.prompt, _ = acp.Parts(prompt(pieces))
			}
			quiet.Stopped = true
		}
		return nil
	})
	return t.prompt
}

// thread emits a subagent's file in the conversation of the call.
func (p *parser) thread(conversation string, t *thread) {
	before := p.Time
	s := &side{parser: p, conversation: conversation, seen: map[string]int{}}
	p.read(t.Source, s.record)
	p.Emit(conversation, event.SessionIdle{})
	p.Time = before
}

// orphans emits the threads without a call: the agent writes a call when it has
// ended.
func (p *parser) orphans() {
	for _, t := range p.threads {
		if !t.emitted && !p.Stopped {
			t.emitted = true
			p.thread(agentPrefix+t.ID, t)
		}
	}
}

// agentPrefix is the prefix of the conversation of a subagent whose call is not
// known.
const agentPrefix = "agent-"

// side emits a subagent's file.
type side struct {
	*parser
	conversation string
	seen         map[string]int
	took         bill
}

func (s *side) record(r *record) error {
	s.at(r.Timestamp)
	switch {
	case r.isHeader() || r.ID == "" && (r.Rewind != "" || len(r.Set) > 0):
		return nil
	case r.Type == "user":
		return s.user(r)
	case r.Type == "gemini":
		return s.gemini(r)
	}
	s.Native(s.conversation, "", "chat/"+r.Type, r.raw)
	return nil
}

func (s *side) user(r *record) error {
	pieces, err := r.pieces()
	if err != nil {
		return err
	}
	text, parts := acp.Parts(prompt(pieces))
	if parts == nil && internal(text) {
		return nil
	}
	s.UpsertStamped(s.conversation, event.Block{
		ID: r.ID, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text, Parts: parts,
	})
	return nil
}

func (s *side) gemini(r *record) error {
	known, again := s.seen[r.ID]
	if !again {
		pieces, err := r.pieces()
		if err != nil {
			return err
		}
		s.took.add(r.Tokens)
		s.said(r, said(pieces))
	}
	s.seen[r.ID] = max(known, len(r.ToolCalls))
	for i := known; i < len(r.ToolCalls); i++ {
		c := new(toolCall)
		if err := json.Unmarshal(r.ToolCalls[i], c); err != nil {
			return fmt.Errorf("field \"toolCalls\": %w", err)
		}
		t := wholeTool(c)
		s.use(s.conversation, c, t, s.took.take())
		s.result(s.conversation, c, t, wholeOutput(c))
	}
	return nil
}

func (s *side) said(r *record, text string) {
	for i, t := range r.Thoughts {
		content := thoughtText(t.Subject, t.Description)
		b := event.Block{
			ID: fmt.Sprintf("%s:thought:%d", r.ID, i), Type: event.BlockThinking, Status: event.StatusComplete, Content: &content, Usage: s.took.take(),
		}
		if t.Subject != "" {
			b.Summary = &t.Subject
		}
		s.UpsertStamped(s.conversation, b)
	}
	if text != "" {
		s.UpsertStamped(s.conversation, event.Block{
			ID: r.ID, Type: event.BlockAssistantText, Status: event.StatusComplete, Content: &text, Usage: s.took.take(),
		})
	}
}

// wholeOutput returns the result as the model got it.
func wholeOutput(c *toolCall) json.RawMessage {
	var parts []piece
	if json.Unmarshal(c.Result, &parts) == nil && len(parts) == 1 && parts[0].FunctionResponse != nil {
		response := parts[0].FunctionResponse.Response
		for _, name := range []string{"output", "error"} {
			if text := stringField(response, name); text != "" {
				return nativejson.Encode(text)
			}
		}
		return response
	}
	return headlessOutput(c)
}
