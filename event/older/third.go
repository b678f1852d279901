package older

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// third translates into the vocabulary of the third system, v3, in which a thing is a start, its
// deltas, an end and the whole of it, and a model call is a tick with one message. It has no events
// for what an agent alone knows (tool_call_delta, compiled, model_request, provider_request,
// model_response), and none for parallel branches of one execution (fork_start, fork_end): a fork
// here is a session of its own.
type third struct {
	execution string
	began     time.Time
	// tick is the number of the running model call, 0 between executions; message is what it has
	// said, and usage what it took.
	tick        int
	tickBegan   time.Time
	messageOpen bool
	message     []content
	usage       event.Usage
	model       string
	blocks      map[[2]string]*part
	// asked are the calls of open permission requests.
	asked   map[string]string
	index   int
	entries int
}

// part is a block that has begun.
type part struct {
	kind  event.BlockType
	index int
	began time.Time
	tool  string
	call  string
	// text and input are what it has so far: a later event may not repeat them.
	text  string
	input json.RawMessage
	done  bool
}

// base is in each payload.
type base struct {
	Type           event.Type `json:"type"`
	ID             string     `json:"id"`
	Sequence       uint64     `json:"sequence"`
	Tick           int        `json:"tick"`
	Timestamp      time.Time  `json:"timestamp"`
	SessionID      string     `json:"sessionId,omitempty"`
	ConversationID string     `json:"conversationId,omitempty"`
}

// content is a content block of a message.
type content struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ToolUseID string          `json:"toolUseId,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	IsError   bool            `json:"isError,omitempty"`
}

type usage struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	TotalTokens  int64 `json:"totalTokens"`
}

func usageOf(u event.Usage) usage {
	return usage{u.InputTokens, u.OutputTokens, u.InputTokens + u.OutputTokens}
}

type failure struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

type fields map[string]any

// emission collects what an event becomes.
type emission struct {
	*third
	c   event.Context
	out []event.Event
	err error
}

func (t *third) events(ev event.Event) ([]event.Event, error) {
	e := &emission{third: t, c: ev.Context}
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		e.block(p.Block)
	case event.BlockDelta:
		e.delta(p)
	case event.MetadataUpdate:
		e.metadata(p)
	case event.QueryStarted:
		e.start(p.Query)
	case event.QueryCompleted:
		e.end(p.Query, "", false)
	case event.QueryFailed:
		e.end(p.Query, "error", false)
	case event.QueryInterrupted:
		e.end(p.Query, "explicit_completion", true)
	case event.PermissionRequested:
		t.asked[p.RequestID] = cmp.Or(p.ToolUseID, p.RequestID)
		e.put("tool_confirmation_required", fields{"callId": t.asked[p.RequestID], "requestId": p.RequestID, "name": p.ToolName, "input": p.Input, "message": p.Title})
	case event.PermissionResolved:
		e.put("tool_confirmation_result", fields{"callId": cmp.Or(t.asked[p.RequestID], p.RequestID), "requestId": p.RequestID, "confirmed": p.Decision == "allow"})
		delete(t.asked, p.RequestID)
	case event.SubagentSpawned:
		e.put("spawn_start", fields{
			"spawnId": p.ToolUseID, "parentExecutionId": t.execution, "childExecutionId": cmp.Or(p.ChildSessionID, p.AgentID, p.ToolUseID),
			"componentName": p.SubagentType, "label": p.Description, "input": p.Prompt,
		})
	case event.SubagentCompleted:
		f := fields{
			"spawnId": p.ToolUseID, "parentExecutionId": t.execution, "childExecutionId": cmp.Or(p.ChildSessionID, p.AgentID, p.ToolUseID),
			"output": p.Output, "isError": p.Status != event.SubagentCompletedOK,
		}
		if p.Usage != nil {
			f["usage"] = usageOf(*p.Usage)
		}
		e.put("spawn_end", f)
	case event.Error:
		e.put("engine_error", fields{"error": failure{p.Message, p.Code}})
	default:
		return []event.Event{ev}, nil
	}
	return e.out, e.err
}

// put adds an event.
func (e *emission) put(name event.Type, f fields) {
	if e.err != nil {
		return
	}
	own, err := json.Marshal(f)
	var b []byte
	if err == nil {
		conversation := e.c.ConversationID
		if conversation == event.Main {
			conversation = ""
		}
		b, err = json.Marshal(base{
			Type: name, ID: fmt.Sprintf("%d-%d", e.c.Seq, len(e.out)), Sequence: e.c.Seq, Tick: max(e.tick, 1),
			Timestamp: e.c.Timestamp, SessionID: e.c.SessionID, ConversationID: conversation,
		})
	}
	if err != nil {
		e.err = fmt.Errorf("event: encode %s: %w", name, err)
		return
	}
	if len(f) > 0 {
		b = append(append(b[:len(b)-1], ','), own[1:]...)
	}
	e.out = append(e.out, event.Event{Payload: event.Unknown{Name: name, Raw: b}, Context: e.c})
}

func (e *emission) main() bool { return e.c.Conversation() == event.Main }

func (e *emission) start(q event.Query) {
	if e.execution == q.ExecutionID {
		return // it is resumed
	}
	e.execution, e.began, e.tick, e.usage = q.ExecutionID, e.c.Timestamp, 0, event.Usage{}
	e.put("execution_start", fields{"executionId": q.ExecutionID, "metadata": fields{"messageIds": q.MessageIDs}})
}

// end ends an execution.
func (e *emission) end(q event.Query, why string, aborted bool) {
	e.endTick()
	var output any
	took, ticks := usage{}, e.tick
	if r := q.Result; r != nil {
		output, took = r.Response, usageOf(r.Usage)
		why = cmp.Or(why, r.StopReason)
		if r.Ticks != nil {
			ticks = *r.Ticks
		}
		if !aborted && q.Error == nil {
			e.put("result", fields{"executionId": q.ExecutionID, "result": fields{"response": r.Response, "usage": took, "stopReason": r.StopReason}})
		}
	}
	if q.Error != nil {
		e.put("engine_error", fields{"error": failure{q.Error.Message, q.Error.Code}})
	}
	why = cmp.Or(why, "natural_completion")
	e.put("execution_end", fields{"executionId": q.ExecutionID, "stopReason": why, "aborted": aborted, "output": output})
	e.put("execution", fields{
		"executionId": q.ExecutionID, "output": output, "usage": took, "stopReason": why, "ticks": ticks,
		"startedAt": e.began, "completedAt": e.c.Timestamp,
	})
	e.execution, e.tick = "", 0
}

// metadata is where model calls begin, and what they took.
func (e *emission) metadata(p event.MetadataUpdate) {
	e.model = cmp.Or(p.Model, e.model)
	for range p.Calls {
		if e.main() && e.execution != "" {
			e.endTick()
			e.tick++
			e.tickBegan, e.usage = e.c.Timestamp, event.Usage{}
			e.put("tick_start", fields{"executionId": e.execution})
		}
	}
	if p.Usage == nil || p.Total {
		return
	}
	e.usage = e.usage.Add(*p.Usage)
	u := usageOf(*p.Usage)
	e.put("usage", fields{"usage": u})
	e.put("context_update", fields{"modelId": e.model, "inputTokens": u.InputTokens, "outputTokens": u.OutputTokens, "totalTokens": u.TotalTokens})
}

// endTick ends the running model call, with the message that it has made.
func (e *emission) endTick() {
	e.endMessage()
	if e.tick == 0 || e.tickBegan.IsZero() {
		return
	}
	took := usageOf(e.usage)
	e.put("tick_end", fields{"executionId": e.execution, "usage": took, "model": e.model})
	e.put("tick", fields{"usage": took, "stopReason": "unspecified", "startedAt": e.tickBegan, "completedAt": e.c.Timestamp})
	e.tickBegan = time.Time{}
}

func (e *emission) endMessage() {
	if !e.messageOpen {
		return
	}
	e.messageOpen = false
	took := usageOf(e.usage)
	e.put("message_end", fields{"stopReason": "unspecified", "usage": took})
	e.put("message", fields{
		"message": fields{"role": "assistant", "content": e.message}, "stopReason": "unspecified", "usage": took, "model": e.model,
		"startedAt": e.tickBegan, "completedAt": e.c.Timestamp,
	})
	e.message = nil
}

// said begins the agent's message, unless it has begun.
func (e *emission) said() {
	if e.main() && !e.messageOpen {
		e.messageOpen = true
		e.put("message_start", fields{"role": "assistant", "model": e.model})
	}
}

// begun returns a block, and whether it has just begun.
func (e *emission) begun(b event.Block) (p *part, fresh bool) {
	key := [2]string{e.c.Conversation(), b.ID}
	if p = e.blocks[key]; p != nil {
		return p, false
	}
	p = &part{kind: b.Type, index: e.index, began: e.c.Timestamp, tool: b.ToolName, call: cmp.Or(b.ToolUseID, b.ID)}
	e.blocks[key] = p
	e.index++
	return p, true
}

func (e *emission) block(b event.Block) {
	p, fresh := e.begun(b)
	p.learn(b)
	if fresh {
		e.blockStart(p)
	}
	if b.Status != event.StatusComplete || p.done {
		return
	}
	p.done = true
	span := func(f fields) fields {
		f["blockIndex"], f["startedAt"], f["completedAt"] = p.index, p.began, e.c.Timestamp
		return f
	}
	var whole content
	role := "assistant"
	switch p.kind {
	case event.BlockAssistantText:
		whole = content{Type: "text", Text: p.text}
		e.put("content_end", fields{"blockType": "text", "blockIndex": p.index})
		e.put("content", span(fields{"content": whole}))
	case event.BlockThinking:
		whole = content{Type: "reasoning", Text: p.text}
		e.put("reasoning_end", fields{"blockIndex": p.index})
		e.put("reasoning", span(fields{"reasoning": whole.Text}))
	case event.BlockToolUse:
		whole = content{Type: "tool_use", ToolUseID: p.call, Name: p.tool, Input: p.input}
		e.put("tool_call_end", fields{"callId": p.call, "blockIndex": p.index})
		e.put("tool_call", span(fields{"callId": p.call, "name": p.tool, "input": p.input}))
	case event.BlockToolResult:
		role = "tool"
		whole = content{Type: "tool_result", ToolUseID: p.call, Content: b.Output, IsError: b.IsError != nil && *b.IsError}
		e.put("tool_result", fields{
			"callId": p.call, "name": e.toolOf(p.call), "result": b.Output, "isError": whole.IsError, "executedBy": "engine",
			"startedAt": p.began, "completedAt": e.c.Timestamp,
		})
	case event.BlockUserMessage:
		role, whole = "user", content{Type: "text", Text: p.text}
	case event.BlockError:
		message := ""
		if b.Message != nil {
			message = *b.Message
		}
		e.put("error", fields{"error": failure{message, b.Code}})
		return
	default:
		return
	}
	p.text, p.input = "", nil
	if role == "assistant" && e.main() {
		e.message = append(e.message, whole)
	}
	e.commit(b.ID, role, whole)
}

func (p *part) learn(b event.Block) {
	p.tool = cmp.Or(b.ToolName, p.tool)
	if b.Content != nil {
		p.text = *b.Content
	}
	if len(b.Input) > 0 {
		p.input = b.Input
	}
}

func (e *emission) blockStart(p *part) {
	switch p.kind {
	case event.BlockAssistantText:
		e.said()
		e.put("content_start", fields{"blockType": "text", "blockIndex": p.index})
	case event.BlockThinking:
		e.said()
		e.put("reasoning_start", fields{"blockIndex": p.index})
	case event.BlockToolUse:
		e.said()
		e.put("tool_call_start", fields{"callId": p.call, "name": p.tool, "blockIndex": p.index})
	}
}

// commit says that an entry of the conversation will not change.
func (e *emission) commit(id, role string, c content) {
	f := fields{
		"executionId": e.execution, "timelineIndex": e.entries,
		"entry": fields{"id": id, "kind": "message", "message": fields{"id": id, "role": role, "content": []content{c}}},
	}
	if e.main() {
		e.entries++
	} else {
		delete(f, "timelineIndex")
	}
	e.put("entry_committed", f)
}

// toolOf returns the tool of a call.
func (e *emission) toolOf(call string) string {
	for _, p := range e.blocks {
		if p.kind == event.BlockToolUse && p.call == call {
			return p.tool
		}
	}
	return ""
}

func (e *emission) delta(d event.BlockDelta) {
	p := e.blocks[[2]string{e.c.Conversation(), d.BlockID}]
	if p == nil {
		return
	}
	p.text += d.Delta
	switch p.kind {
	case event.BlockThinking:
		e.put("reasoning_delta", fields{"blockIndex": p.index, "delta": d.Delta})
	case event.BlockAssistantText:
		e.put("content_delta", fields{"blockType": "text", "blockIndex": p.index, "delta": d.Delta})
	}
}
