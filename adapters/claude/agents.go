package claude

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// spawn emits that a tool use starts a native subagent. Its conversation has the
// id of the tool use, and begins with the prompt: the line that repeats the
// prompt is sent only for subagents whose caller waits for them.
func (s *emitter) spawn(conversation, toolUseID string, input json.RawMessage) {
	if s.Agents[toolUseID] != nil {
		return
	}
	var in struct {
		Prompt       string `json:"prompt"`
		SubagentType string `json:"subagent_type"`
		Description  string `json:"description"`
	}
	// Input of another shape leaves the fields empty: the call itself shows it.
	_ = json.Unmarshal(input, &in)
	a := &agent{Conversation: conversation, ID: s.Early[toolUseID], Prompt: in.Prompt}
	delete(s.Early, toolUseID)
	s.Agents[toolUseID] = a
	s.started++
	s.Emit(conversation, event.SubagentSpawned{
		ToolUseID: toolUseID, AgentID: a.ID, Prompt: in.Prompt,
		SubagentType: in.SubagentType, Description: in.Description,
	})
	s.userMessage(toolUseID, promptOf(toolUseID), []part{{Type: "text", Text: in.Prompt}})
}

// promptOf returns the id of the block with a subagent's prompt.
func promptOf(toolUseID string) string { return toolUseID + ":prompt" }

// agentKnown records which native agent a tool use has started. It may precede
// the tool use itself.
func (s *emitter) agentKnown(toolUseID, agentID string) {
	a := s.Agents[toolUseID]
	switch {
	case a == nil:
		s.Early[toolUseID] = agentID
	case a.ID == "" && agentID != "":
		a.ID = agentID
		s.started++
		s.Emit(a.Conversation, event.SubagentSpawned{ToolUseID: toolUseID, AgentID: agentID, Prompt: a.Prompt})
	}
}

// agentPrompt reports whether a text in a subagent's conversation is the line
// that repeats its prompt.
func (s *emitter) agentPrompt(conversation, text string) bool {
	a := s.Agents[conversation]
	if a == nil || a.Prompted || a.Prompt != text {
		return false
	}
	a.Prompted = true
	return true
}

const (
	asyncLaunched = "Async agent launched successfully"
	agentTrailer  = "agentId: "
)

// agentResult ends a subagent whose caller waited for it. The result of one that
// continues in the background only reports that it was launched.
func (s *emitter) agentResult(toolUseID string, output json.RawMessage, failed bool, native nativeResult) {
	a := s.Agents[toolUseID]
	if a == nil {
		return
	}
	texts := resultTexts(output)
	s.agentKnown(toolUseID, cmp.Or(string(native.AgentID), trailingAgentID(texts)))
	if !failed && len(texts) > 0 && strings.HasPrefix(texts[0], asyncLaunched) {
		a.Async = true
		return
	}
	var said []string
	for _, t := range texts {
		if !strings.HasPrefix(t, agentTrailer) {
			said = append(said, t)
		}
	}
	if failed && a.ID != "" && strings.HasPrefix(strings.Join(said, ""), markRejected) {
		s.interruptedWith(toolUseID, output)
	}
	answer := strings.Join(said, "\n")
	s.agentDone(toolUseID, failed, &answer, milliseconds(native.DurationMS))
}

// milliseconds returns the agent's own figure; nil for one that is not a valid
// duration.
func milliseconds(figure ifNumber) *int64 {
	f, err := strconv.ParseFloat(string(figure), 64)
	if err != nil || f < 0 || f > math.MaxInt32*1e3 {
		return nil
	}
	ms := int64(f)
	return &ms
}

// interruptedWith ends what a subagent was doing when the user stopped the call
// that had started it. The subagent's own transcript has lines for that, which
// are not sent, and which have the text of the call's result.
func (s *emitter) interruptedWith(toolUseID string, output json.RawMessage) {
	var stopped []string
	for id, t := range s.Tools {
		if t.Conversation == toolUseID {
			stopped = append(stopped, id)
		}
	}
	slices.SortFunc(stopped, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Tools[a].Number, s.Tools[b].Number), strings.Compare(a, b))
	})
	message := markInterrupted + "]"
	for _, id := range stopped {
		s.toolResult(toolUseID, &part{ToolUseID: id, Content: output, IsError: true}, nativeResult{})
		message = markInterrupted + " for tool use]"
	}
	s.System(toolUseID, interruptionOf(toolUseID), "interrupted", message)
}

// interruptionOf returns the id of the block for a subagent's interruption.
func interruptionOf(conversation string) string { return conversation + ":interrupted" }

// trailingAgentID returns the agent's id if no native result names it.
func trailingAgentID(texts []string) string {
	for _, t := range texts {
		if at := strings.Index(t, agentTrailer); at >= 0 {
			id, _, _ := strings.Cut(t[at+len(agentTrailer):], " ")
			return id
		}
	}
	return ""
}

// resultTexts returns the texts of a tool result.
func resultTexts(output json.RawMessage) []string {
	parts, err := decodeParts(output)
	if err != nil {
		return nil
	}
	texts := make([]string, 0, len(parts))
	for i := range parts {
		if parts[i].Type == "text" {
			texts = append(texts, parts[i].Text)
		}
	}
	return texts
}

// agentReported ends a subagent in the background. Its output is its last text,
// unless it was stopped, which is in no transcript. It has no duration: the
// report that has one may never arrive.
func (s *emitter) agentReported(toolUseID, status string) (known bool) {
	a := s.Agents[toolUseID]
	if a == nil {
		return false
	}
	if !a.Async {
		return true // its result follows and has more
	}
	var output *string
	failed := status != "completed"
	if th := s.Threads[toolUseID]; th != nil && th.LastText != "" && !failed {
		output = &th.LastText
	}
	s.agentDone(toolUseID, failed, output, nil)
	return true
}

// agentDone emits once that a subagent has ended, and forgets it. The duration is
// the agent's own figure, nil if there is none.
func (s *emitter) agentDone(toolUseID string, failed bool, output *string, durationMS *int64) {
	a := s.Agents[toolUseID]
	status := event.SubagentCompletedOK
	if failed {
		status = event.SubagentFailed
	}
	s.Emit(a.Conversation, event.SubagentCompleted{
		ToolUseID: toolUseID, AgentID: a.ID, Status: status, Output: output, DurationMS: durationMS,
	})
	delete(s.Agents, toolUseID)
	delete(s.Threads, toolUseID)
	maps.DeleteFunc(s.Side, func(_, conversation string) bool { return conversation == toolUseID })
}

// notification is a background task's report as the program passes it to the
// model; transcripts have nothing else of it.
func (s *emitter) notification(text string) {
	toolUseID, _, _ := strings.Cut(after(text, "<tool-use-id>"), "<")
	status, _, _ := strings.Cut(after(text, "<status>"), "<")
	s.agentReported(toolUseID, status)
}

// after returns what follows the first mark in text; "" if there is none.
func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}
