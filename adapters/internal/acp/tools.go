package acp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

func decodeInto(raw json.RawMessage, v any) error { return json.Unmarshal(raw, v) }

// toolUpdate translates an update of a call.
func (t *Translator) toolUpdate(u *update, line string) {
	switch {
	case t.replaying():
		t.replayedOther("")
	case len(t.Turns) == 0 || u.ID == "":
		t.native(event.DirOut, "session/update/"+u.Kind, line)
	default:
		t.beforeCall()
		c := t.call(u.ToolCall, true)
		switch u.Status {
		case "completed", "failed":
			t.emitResult(u.ID, c, u.Status == "failed", outputOf(&u.ToolCall))
		case "in_progress":
			t.upsert(event.Block{ID: u.ID, Type: event.BlockToolUse, Execution: event.ExecutionRunning})
		}
	}
}

// beforeCall ends the run before a call.
func (t *Translator) beforeCall() {
	t.overtaken()
	t.endRun()
	t.Turns[0].Heard = true
}

// outputOf returns the result of a call from its last update.
func outputOf(c *ToolCall) json.RawMessage {
	out := OutputOf(c.Outputs())
	if isNull(out) && !isNull(c.RawOutput) {
		return c.RawOutput
	}
	return out
}

// call starts a call, or adds to what is known of it. A subagent runs once the
// call may run.
func (t *Translator) call(reported ToolCall, runs bool) *call {
	reported.Content, reported.Locations = compact(reported.Content), compact(reported.Locations)
	reported.RawInput, reported.RawOutput = compact(reported.RawInput), compact(reported.RawOutput)
	c := t.Tools[reported.ID]
	if c == nil {
		c = &call{Since: t.now(), Told: reported}
		t.Tools[reported.ID] = c
		c.Tool = t.dialect.tool(c.Told)
		c.Tool.Input = compact(c.Tool.Input)
		t.showCall(reported.ID, c, event.ExecutionRunning)
	} else {
		merge(&c.Told, reported)
		tool := t.dialect.tool(c.Told)
		tool.Input = compact(tool.Input)
		if reported.Status != "failed" && !sameTool(tool, c.Tool) {
			c.Tool = tool
			t.showCall(reported.ID, c, "")
		}
	}
	if runs {
		t.spawn(reported.ID, c)
	}
	return c
}

func sameTool(a, b Tool) bool {
	return a.Name == b.Name && a.Agent == b.Agent && a.Skill == b.Skill && bytes.Equal(a.Input, b.Input)
}

// merge adds an update to the earlier ones.
func merge(c *ToolCall, reported ToolCall) {
	if reported.Title != "" {
		c.Title = reported.Title
	}
	if reported.Kind != "" {
		c.Kind = reported.Kind
	}
	if reported.Status != "completed" && reported.Status != "failed" && !isNull(reported.Content) {
		c.Content = reported.Content
	}
	if !isNull(reported.RawInput) {
		c.RawInput = reported.RawInput
	}
	if !isNull(reported.Locations) {
		c.Locations = reported.Locations
	}
}

func (t *Translator) showCall(id string, c *call, how event.Execution) {
	t.upsert(event.Block{
		ID: id, Type: event.BlockToolUse, Status: event.StatusComplete,
		ToolName: c.Tool.Name, ToolUseID: id, Input: orEmpty(c.Tool.Input), Execution: how,
	})
}

func (t *Translator) spawn(id string, c *call) {
	if c.Tool.Agent == "" || c.Spawned {
		return
	}
	c.Spawned = true
	for _, p := range c.Tool.Spawned(id) {
		t.emit(p)
	}
}

// Spawned returns the events of a subagent's start. Its block shows the call's
// input if the call does not have the task.
func (t Tool) Spawned(id string) []event.Payload {
	spawned := []event.Payload{event.SubagentSpawned{
		ToolUseID: id, SubagentType: t.Agent, Prompt: t.Prompt, Description: t.Description,
	}}
	if t.Prompt != "" {
		return spawned
	}
	return append(spawned, event.BlockUpsert{Block: event.Block{
		ID: event.SubagentBlockID(id), Type: event.BlockSubagent, Input: orEmpty(t.Input),
	}})
}

// Completed returns the events of a subagent's end. The result in its own thread
// stays there: its block shows what the call returned.
func Completed(id string, failed bool, output json.RawMessage, took *int64) []event.Payload {
	done := event.SubagentCompleted{
		ToolUseID: id, Status: event.SubagentCompletedOK, Output: textOf(output), DurationMS: took,
	}
	if failed {
		done.Status = event.SubagentFailed
	}
	return []event.Payload{done, event.BlockUpsert{Block: event.Block{
		ID: event.SubagentBlockID(id), Type: event.BlockSubagent, Output: output,
	}}}
}

func orEmpty(input json.RawMessage) json.RawMessage {
	if isNull(input) {
		return json.RawMessage("{}")
	}
	return input
}

// emitResult emits a call's result.
func (t *Translator) emitResult(id string, c *call, failed bool, output json.RawMessage) {
	applies := !failed || t.dialect.applies(c.Tool, nativejson.String(output))
	if !applies {
		t.upsert(event.Block{ID: id, Type: event.BlockToolUse, Input: json.RawMessage("{}")})
	}
	if c.Spawned {
		t.subagentDone(id, c, failed, output)
		if !applies {
			t.lose(event.SubagentBlockID(id), event.BlockSubagent)
		}
	}
	t.result(id, failed, output, t.since(c.Since))
	if c.Tool.Skill != "" && !failed {
		text := nativejson.String(output)
		t.upsert(event.Block{
			ID: id + ":skill", Type: event.BlockSkillLoad, Status: event.StatusComplete,
			SkillName: c.Tool.Skill, Content: &text,
		})
	}
	delete(t.Tools, id)
}

func (t *Translator) subagentDone(id string, c *call, failed bool, output json.RawMessage) {
	for _, p := range Completed(id, failed, output, t.since(c.Since)) {
		t.emit(p)
	}
}

func (t *Translator) result(id string, failed bool, output json.RawMessage, took *int64) {
	how := event.ExecutionSuccess
	if failed {
		how = event.ExecutionError
	}
	t.upsert(event.Block{
		ID: ResultID(id), Type: event.BlockToolResult, Status: event.StatusComplete,
		ToolUseID: id, Output: output, IsError: &failed, DurationMS: took,
	})
	t.upsert(event.Block{ID: id, Type: event.BlockToolUse, Execution: how})
}

func textOf(raw json.RawMessage) *string {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	s := nativejson.String(raw)
	return &s
}

// asked handles a permission request.
func (t *Translator) asked(m *message, line string) {
	reported := *m.Params.ToolCall
	if len(t.Turns) == 0 || reported.ID == "" {
		t.Unserved[key(m.ID)] = m.ID
		t.native(event.DirOut, m.Method, line)
		return
	}
	t.beforeCall()
	c := t.call(reported, false)
	id := t.Process + "/ask-" + key(m.ID)
	a := ask{ID: m.ID, CallID: reported.ID}
	a.Allow, a.Reject = answersIn(m.Params.Options)
	t.Asks[id] = a
	if a.Allow == "" {
		t.emit(event.Log{Level: "warn", Message: fmt.Sprintf(
			"%s offers no way to allow %q once: it will be refused", t.dialect.Agent, reported.Title)})
	}
	t.upsert(event.Block{ID: reported.ID, Type: event.BlockToolUse, Execution: event.ExecutionPending})
	t.emit(event.PermissionRequested{
		RequestID: id, ToolName: c.Tool.Name, ToolUseID: reported.ID, Input: askInput(c), Title: reported.Title,
	})
}

// answersIn returns the options that allow and reject a call. Both are for this call,
// as what is answered is; if a call can be rejected only for good, for good. There
// is no such way to allow: later calls would run unasked. "" means that no option
// grants what was answered and no more.
func answersIn(options []option) (allow, reject string) {
	first := map[string]string{}
	for _, o := range options {
		if _, again := first[o.Kind]; !again {
			first[o.Kind] = o.ID
		}
	}
	return first["allow_once"], cmp.Or(first["reject_once"], first["reject_always"])
}

// askInput returns what a person must see to decide: the call's input, with what
// the agent shows of it.
func askInput(c *call) json.RawMessage {
	input := map[string]json.RawMessage{}
	if json.Unmarshal(orEmpty(c.Tool.Input), &input) != nil {
		return c.Tool.Input
	}
	if _, taken := input["content"]; !taken && len(c.Told.Outputs()) > 0 {
		input["content"] = c.Told.Content
	}
	if _, taken := input["locations"]; !taken && !isNull(c.Told.Locations) && string(c.Told.Locations) != "[]" {
		input["locations"] = c.Told.Locations
	}
	return nativejson.Encode(input)
}

// decided handles the host's answer to a request of the agent.
func (t *Translator) decided(m *message) {
	id := key(m.ID)
	if _, unserved := t.Unserved[id]; unserved {
		delete(t.Unserved, id)
		return
	}
	id = t.Process + "/ask-" + id
	a, pending := t.Asks[id]
	if !pending {
		return
	}
	var r struct {
		Outcome struct {
			Outcome  string `json:"outcome"`
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
	_ = decodeInto(m.Result, &r) // an error or an invalid answer allows nothing
	switch {
	case r.Outcome.Outcome == "selected" && r.Outcome.OptionID != a.Reject:
		t.resolve(id, "allow")
		t.upsert(event.Block{ID: a.CallID, Type: event.BlockToolUse, Execution: event.ExecutionRunning})
		if c := t.Tools[a.CallID]; c != nil {
			t.spawn(a.CallID, c)
		}
	case r.Outcome.Outcome == "selected":
		t.resolve(id, "deny")
		t.reject(a.CallID)
	default:
		t.resolve(id, "cancelled")
		t.reject(a.CallID)
	}
}

// resolve emits once what became of a permission request.
func (t *Translator) resolve(id, what string) {
	if _, pending := t.Asks[id]; pending {
		delete(t.Asks, id)
		t.emit(event.PermissionResolved{RequestID: id, Decision: what})
	}
}

// reject closes a call that was refused: nothing more is reported of it. Whether
// the agent stores it is known when it continues.
func (t *Translator) reject(callID string) {
	c := t.Tools[callID]
	if c == nil || len(t.Turns) == 0 {
		return
	}
	if t.dialect.Kept {
		c.Refused = true // the agent may still report it itself
		return
	}
	t.emitResult(callID, c, true, nativejson.Encode(t.dialect.rejected(c.Tool)))
	u := &t.Turns[0]
	if u.Cancelled && !slices.Contains(u.Refused, callID) {
		u.Refused = append(u.Refused, callID)
	}
}
