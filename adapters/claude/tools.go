package claude

import (
	"encoding/json"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// isToolUse includes the model API's own tools (server_tool_use, mcp_tool_use).
func isToolUse(partType string) bool {
	return partType == "tool_use" || strings.HasSuffix(partType, "_tool_use")
}

func isToolResult(partType string) bool {
	return partType == "tool_result" || strings.HasSuffix(partType, "_tool_result")
}

// isAgentTool reports whether a tool starts a native subagent.
func isAgentTool(name string) bool { return name == "Agent" || name == "Task" }

// toolUse emits a whole tool call.
func (s *emitter) toolUse(conversation string, p *part) {
	input := p.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	s.Upsert(conversation, event.Block{
		ID: p.ID, Type: event.BlockToolUse, Status: event.StatusComplete,
		ToolName: p.Name, ToolUseID: p.ID, Input: input, Execution: event.ExecutionRunning,
	})
	t := tool{Conversation: conversation, Since: s.now(), Number: s.nextNumber()}
	if p.Name == "Skill" {
		t.Skill = skillName(input)
	}
	s.Tools[p.ID] = t
	if isAgentTool(p.Name) {
		s.spawn(conversation, p.ID, input)
	}
}

// nextNumber returns a number above that of every open call.
func (s *emitter) nextNumber() int {
	n := 0
	for _, t := range s.Tools {
		n = max(n, t.Number)
	}
	return n + 1
}

func skillName(input json.RawMessage) string {
	var in struct {
		Skill   string `json:"skill"`
		Command string `json:"command"`
	}
	if json.Unmarshal(input, &in) != nil {
		return ""
	}
	if in.Skill == "" {
		return in.Command
	}
	return in.Skill
}

// toolResult emits the result of a call and closes the call. The native result,
// which subagents' transcripts lack, names the subagent behind it.
func (s *emitter) toolResult(conversation string, p *part, native nativeResult) {
	output := p.Content
	if len(output) == 0 {
		output = json.RawMessage("null")
	}
	failed := p.IsError
	t, isOpen := s.Tools[p.ToolUseID]
	s.Upsert(conversation, event.Block{
		ID: p.ToolUseID + ":result", Type: event.BlockToolResult, Status: event.StatusComplete,
		ToolUseID: p.ToolUseID, Output: output, IsError: &failed,
		DurationMS: between(t.Since, s.now()),
	})
	if isOpen {
		s.closeTool(p.ToolUseID, t.Conversation, failed)
		s.thread(conversation).Skill = t.Skill
	}
	s.agentResult(p.ToolUseID, output, failed, native)
}

// now returns the time of what is being translated, in Unix milliseconds; 0 if
// not known.
func (s *emitter) now() int64 {
	if s.Time.IsZero() {
		return 0
	}
	return s.Time.UnixMilli()
}

// between returns the time from one moment to another; nil unless both are known,
// or if the clock was set back.
func between(started, ended int64) *int64 {
	if started == 0 || ended == 0 || ended < started {
		return nil
	}
	took := ended - started
	return &took
}

func (s *emitter) closeTool(id, conversation string, failed bool) {
	how := event.ExecutionSuccess
	if failed {
		how = event.ExecutionError
	}
	s.Upsert(conversation, event.Block{ID: id, Type: event.BlockToolUse, Execution: how})
	delete(s.Tools, id)
}
