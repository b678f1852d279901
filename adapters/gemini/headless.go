package gemini

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/acp"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// headlessLine is a line of `gemini -o stream-json`.
type headlessLine struct {
	Type       string          `json:"type"`
	SessionID  string          `json:"session_id"`
	Model      string          `json:"model"`
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	ToolName   string          `json:"tool_name"`
	ToolID     string          `json:"tool_id"`
	Parameters json.RawMessage `json:"parameters"`
	Status     string          `json:"status"`
	Output     string          `json:"output"`
	Severity   string          `json:"severity"`
	Message    string          `json:"message"`
	Error      *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Stats *struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
		Cached int64 `json:"cached"`
	} `json:"stats"`
	// Text is that of a prompt at the beginning of the records.
	Text string `json:"text"`
}

// headlessState is what a headless translation remembers.
type headlessState struct {
	Session string `json:"session,omitempty"`
	// Asked is a prompt from the command line, which the agent repeats.
	Asked   bool            `json:"asked,omitempty"`
	Prompts int             `json:"prompts,omitempty"`
	Runs    int             `json:"runs,omitempty"`
	Running bool            `json:"running,omitempty"`
	Begun   bool            `json:"begun,omitempty"`
	Held    string          `json:"held,omitempty"`
	Tools   map[string]used `json:"tools,omitempty"`
}

type used struct {
	Name  string          `json:"name"`
	Args  json.RawMessage `json:"args,omitempty"`
	Agent bool            `json:"agent,omitempty"`
}

type headless struct {
	emit.Emitter
	headlessState
}

func (s *headlessState) isZero() bool {
	return s.Session == "" && !s.Asked && s.Prompts == 0 && !s.Running && len(s.Tools) == 0
}

// step handles a record of the headless mode and reports whether it was one.
func (h *headless) step(r traffic.Record) bool {
	h.Begin(r)
	if r.Dir == event.DirSig {
		return h.signal(r.Line)
	}
	if !strings.HasPrefix(strings.TrimSpace(r.Line), "{") {
		return false
	}
	var l headlessLine
	if json.Unmarshal([]byte(r.Line), &l) != nil {
		return false
	}
	if r.Dir == event.DirIn {
		if l.Type == adapters.PromptType {
			h.prompt(l.Text)
			h.Asked = true
		}
		return l.Type == adapters.PromptType
	}
	return h.printed(&l)
}

func (h *headless) printed(l *headlessLine) bool {
	switch l.Type {
	case "init":
		h.Session = l.SessionID
		h.emit(event.MetadataUpdate{Model: l.Model})
	case "message":
		h.message(l)
	case "tool_use":
		h.use(l)
	case "tool_result":
		h.result(l)
	case "error":
		h.emit(event.Log{Level: "warn", Message: l.Message})
	case "result":
		h.done(l)
	default:
		return false
	}
	return true
}

func (h *headless) emit(p event.Payload) {
	h.Emit(event.Main, p)
}

func (h *headless) upsert(b event.Block) {
	h.UpsertStamped(event.Main, b)
}

func (h *headless) turn() string   { return acp.TurnID(h.Session, h.Prompts) }
func (h *headless) textID() string { return acp.TextID(h.turn(), h.Runs) }

func (h *headless) message(l *headlessLine) {
	if l.Role == "user" {
		if !h.Asked {
			h.prompt(l.Content)
		}
		h.Asked = false
		return
	}
	out, rest := tidy(h.Begun, h.Held, l.Content, false)
	h.Held = rest
	h.say(out)
}

func (h *headless) prompt(text string) {
	h.Prompts++
	h.Runs, h.Running = 0, true
	h.upsert(event.Block{
		ID: h.turn(), Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text,
	})
}

func (h *headless) say(text string) {
	if text == "" {
		return
	}
	if !h.Begun {
		h.Begun = true
		h.upsert(event.Block{ID: h.textID(), Type: event.BlockAssistantText, Status: event.StatusPending})
	}
	h.emit(event.BlockDelta{BlockID: h.textID(), Delta: text})
}

func (h *headless) endRun(lost bool) {
	out, _ := tidy(h.Begun, h.Held, "", true)
	h.say(out)
	if h.Begun {
		b := event.Block{ID: h.textID(), Type: event.BlockAssistantText, Status: event.StatusComplete}
		if lost {
			b.Status, b.Metadata = event.StatusError, emit.Lost()
		}
		h.upsert(b)
		h.Runs++
	}
	h.Begun, h.Held = false, ""
}

func (h *headless) use(l *headlessLine) {
	h.endRun(false)
	if h.Tools == nil {
		h.Tools = map[string]used{}
	}
	input := arguments(l.Parameters)
	h.Tools[l.ToolID] = used{Name: l.ToolName, Args: input}
	h.upsert(event.Block{
		ID: l.ToolID, Type: event.BlockToolUse, Status: event.StatusComplete,
		ToolName: l.ToolName, ToolUseID: l.ToolID, Input: input, Execution: event.ExecutionRunning,
	})
	if l.ToolName == agentTool {
		h.spawn(l.ToolID)
	}
}

// arguments returns compact arguments, which don't change when the state is
// stored.
func arguments(raw json.RawMessage) json.RawMessage {
	var buf bytes.Buffer
	if len(raw) == 0 || string(raw) == "null" || json.Compact(&buf, raw) != nil {
		return json.RawMessage("{}")
	}
	return buf.Bytes()
}

func (h *headless) spawn(id string) {
	u := h.Tools[id]
	u.Agent = true
	h.Tools[id] = u
	for _, p := range wholeTool(&toolCall{Name: u.Name, Args: u.Args}).Spawned(id) {
		h.emit(p)
	}
}

func (h *headless) result(l *headlessLine) {
	u := h.Tools[l.ToolID]
	delete(h.Tools, l.ToolID)
	failed := l.Status != "success"
	text := l.Output
	if text == "" && l.Error != nil {
		text = l.Error.Message
	}
	output := json.RawMessage("null")
	if text != "" {
		output = nativejson.Encode(text)
	}
	if u.Agent {
		for _, p := range acp.Completed(l.ToolID, failed, output, nil) {
			h.emit(p)
		}
	}
	h.emitResult(l.ToolID, failed, output)
	if u.Name == skillTool && !failed {
		h.upsert(event.Block{
			ID: l.ToolID + ":skill", Type: event.BlockSkillLoad, Status: event.StatusComplete,
			SkillName: stringField(u.Args, "name"), Content: &text,
		})
	}
}

func (h *headless) emitResult(id string, failed bool, output json.RawMessage) {
	how := event.ExecutionSuccess
	if failed {
		how = event.ExecutionError
	}
	h.upsert(event.Block{
		ID: acp.ResultID(id), Type: event.BlockToolResult, Status: event.StatusComplete,
		ToolUseID: id, Output: output, IsError: &failed,
	})
	h.upsert(event.Block{ID: id, Type: event.BlockToolUse, Execution: how})
}

// done ends the run.
func (h *headless) done(l *headlessLine) {
	idle := event.SessionIdle{StopReason: l.Status}
	h.endRun(l.Status != "success")
	if l.Error != nil {
		idle.Error = &event.ErrorInfo{Message: l.Error.Message, Code: l.Error.Type}
		h.upsert(event.Block{
			ID: h.turn() + ":error", Type: event.BlockError, Status: event.StatusError, Message: &l.Error.Message,
			Code: l.Error.Type, Metadata: emit.Lost(),
		})
	}
	if l.Stats != nil {
		h.emit(event.MetadataUpdate{Usage: &event.Usage{
			InputTokens: l.Stats.Input, OutputTokens: l.Stats.Output, CacheReadTokens: l.Stats.Cached}})
	}
	h.loseCalls()
	h.Running = false
	h.emit(idle)
}

func (h *headless) loseCalls() {
	for _, id := range slices.Sorted(maps.Keys(h.Tools)) {
		h.upsert(event.Block{ID: id, Type: event.BlockToolUse, Status: event.StatusError,
			Execution: event.ExecutionError, Metadata: emit.Lost()})
		if h.Tools[id].Agent {
			h.emit(event.SubagentCompleted{ToolUseID: id, Status: event.SubagentFailed})
			h.upsert(event.Block{ID: event.SubagentBlockID(id), Type: event.BlockSubagent, Status: event.StatusError,
				Metadata: emit.Lost()})
		}
		delete(h.Tools, id)
	}
}

// signal ends a headless process that was cut off. Other processes are the
// protocol's.
func (h *headless) signal(what string) bool {
	if !h.Running || !strings.HasPrefix(what, "exit") && !strings.HasPrefix(what, "signal") {
		return false
	}
	h.endRun(true)
	h.loseCalls()
	h.Running = false
	h.Died(what, true)
	return true
}
