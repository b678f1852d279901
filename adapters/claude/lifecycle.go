package claude

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// systemLine translates what the program reports about itself.
func (t *translator) systemLine(l *line, raw json.RawMessage) {
	switch l.Subtype {
	case "init":
		t.sessionStarted(l)
	case "status":
		t.status(l)
	case "session_state_changed":
		t.sessionState(l.State)
	case "compact_boundary":
		t.compacted(event.Main, l)
		if l.CompactMetadata != nil {
			t.Preserved = l.CompactMetadata.Preserved.AllUUIDs
		}
	case "api_retry":
		t.apiRetry(l, raw)
	case "task_started", "task_progress", "task_updated", "task_notification":
		t.task(l, raw)
	case "thinking_tokens":
		// A running estimate of what the usage has exactly.
	default:
		t.Native(conversationOf(l), event.DirOut, l.kind(), raw)
	}
}

func (t *translator) sessionStarted(l *line) {
	t.Turn.Begun = true
	if l.Model != "" && l.Model != t.Model {
		t.Model = l.Model
		t.Emit(event.Main, event.MetadataUpdate{Model: l.Model})
	}
}

func (t *translator) status(l *line) {
	if l.Status == "requesting" {
		t.turnRuns()
	}
	if l.PermissionMode != "" {
		mode := l.PermissionMode
		t.Emit(event.Main, event.OptionsUpdate{PermissionMode: &mode})
	}
}

func (t *translator) apiRetry(l *line, raw json.RawMessage) {
	code := "connection lost"
	if l.ErrorStatus != nil {
		code = fmt.Sprint(*l.ErrorStatus)
	}
	t.Emit(event.Main, event.Log{Level: "warn", Data: raw, Message: fmt.Sprintf(
		"model API error (%s, %s): retry %d of %d in %.0f ms",
		code, nativejson.String(l.Error), l.Attempt, l.MaxRetries, l.RetryDelayMS)})
}

// task translates the events of a background task. Only local agents are
// subagents; a long shell command is a task too.
func (t *translator) task(l *line, raw json.RawMessage) {
	switch {
	case l.Subtype == "task_started" && l.TaskType == "local_agent":
		t.agentKnown(l.ToolUseID, l.TaskID)
	case l.Subtype == "task_notification" && t.Early[l.ToolUseID] != "":
		// A subagent of a subagent's subagent: nothing else is known of it.
		delete(t.Early, l.ToolUseID)
		t.Native(event.Main, event.DirOut, l.kind(), raw)
	case l.Subtype == "task_notification" && t.agentReported(l.ToolUseID, l.Status):
	case l.Subtype == "task_updated":
		t.taskEnded(l.TaskID, l.Patch)
	default:
		t.Emit(t.taskConversation(l.ToolUseID), event.Log{
			Level: "debug", Message: strings.TrimSpace(l.kind() + " " + l.Description), Data: raw,
		})
	}
}

// taskEnded ends a subagent in the background whose notification may never
// arrive: the program drops it if the turn ends at the same time.
func (t *translator) taskEnded(agentID string, patch json.RawMessage) {
	var p struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(patch, &p) != nil ||
		!slices.Contains([]string{"completed", "failed", "killed", "stopped"}, p.Status) {
		return // it continues
	}
	for _, id := range slices.Sorted(maps.Keys(t.Agents)) {
		if t.Agents[id].ID == agentID {
			t.agentReported(id, p.Status)
		}
	}
}

func (t *translator) taskConversation(toolUseID string) string {
	if tool, isOpen := t.Tools[toolUseID]; isOpen {
		return tool.Conversation
	}
	return event.Main
}

func (t *translator) sessionState(state string) {
	t.States = true
	if state == "idle" {
		t.idle()
	}
}

// result ends a turn, but not that of a prompt that waits while the program
// handles a report of a subagent that died with the previous process.
func (t *translator) result(l *line) {
	if t.Turn.Phase == starting && l.reports() {
		t.bill(l)
		return
	}
	t.localCommand()
	t.flushCommand(event.Main)
	t.loseOpen()
	t.endCalls()
	end := &turnEnd{StopReason: l.StopReason}
	switch {
	case strings.HasPrefix(l.TerminalReason, "aborted"):
		end.Interrupted = true
	case l.IsError:
		end.Message, end.Code = resultError(l)
		t.loseUndelivered()
	}
	t.bill(l)
	t.endTurn(end)
	if !t.States {
		t.idle()
	}
}

func resultError(l *line) (message, code string) {
	message, code = l.Result, l.Subtype
	if message == "" {
		message = strings.Join(l.Errors, "; ")
	}
	if l.APIErrorStatus != nil {
		code = fmt.Sprintf("api_error_%d", *l.APIErrorStatus)
	} else if l.Subtype == "success" {
		code = "api_error"
	}
	return message, code
}

// loseUndelivered marks the prompts of a session that the program could not
// open.
func (t *translator) loseUndelivered() {
	if t.Turn.Begun || t.Turn.Phase != starting || !t.Turn.Shown {
		return
	}
	for _, p := range t.Turn.Taken {
		id := p.ID
		if id == "" {
			id = fmt.Sprint(UngivenPrefix, t.Prompts)
		}
		t.Lose(event.Main, id, event.BlockUserMessage)
	}
}

func (t *translator) endTurn(end *turnEnd) {
	queue, started := t.Turn.Queue, t.Turn.Begun
	t.Turn = turn{Queue: queue, Merged: t.Turn.Merged, Begun: started, Result: end}
	if len(queue) > 0 {
		t.Turn.Phase = starting
	}
}

// idle emits that the turn is over, unless a prompt is on its way: the program
// reports idle before it has read it. The turn is not over either while subagents
// work in the background: the program continues by itself when they report.
func (t *translator) idle() {
	if t.Turn.Phase != idle || t.Turn.Quiet || t.inBackground() {
		return
	}
	e := event.SessionIdle{}
	if end := t.Turn.Result; end != nil {
		e.StopReason, e.Interrupted = end.StopReason, end.Interrupted
		if end.Message != "" || end.Code != "" {
			e.Error = &event.ErrorInfo{Message: end.Message, Code: end.Code}
		}
	}
	t.Turn.Result, t.Turn.Quiet = nil, true
	t.Emit(event.Main, e)
}

func (t *translator) inBackground() bool {
	for _, a := range t.Agents {
		if a.Async {
			return true
		}
	}
	return false
}

// waits records that the program is quiet and its turn is not over.
func (t *translator) waits() bool {
	return t.Turn.Phase == idle && !t.Turn.Quiet && t.Turn.Result != nil
}

// beyond is what u has more than v.
func beyond(u, v event.Usage) event.Usage {
	return event.Usage{
		InputTokens: max(u.InputTokens-v.InputTokens, 0), OutputTokens: max(u.OutputTokens-v.OutputTokens, 0),
		CacheReadTokens: max(u.CacheReadTokens-v.CacheReadTokens, 0), CacheWriteTokens: max(u.CacheWriteTokens-v.CacheWriteTokens, 0),
	}
}

// bill reports what a turn took beyond what its messages said, and its cost. The
// program counts the cost of the whole process.
func (t *translator) bill(l *line) {
	m := event.MetadataUpdate{Model: t.Model}
	if l.Usage != nil {
		if rest := beyond(l.Usage.event(), t.Turn.Billed); rest != (event.Usage{}) {
			m.Usage = &rest
		}
		t.Turn.Billed = event.Usage{}
	}
	if l.TotalCostUSD != nil {
		cost := *l.TotalCostUSD - t.Cost
		if cost < 0 {
			cost = *l.TotalCostUSD // a new process starts at zero
		}
		t.Cost = *l.TotalCostUSD
		cost = math.Round(cost*1e9) / 1e9
		m.CostUSD = &cost
	}
	if m.Usage != nil || m.CostUSD != nil {
		t.Emit(event.Main, m)
	}
}

// signal translates a record about the process.
func (t *translator) signal(what string) {
	if emit.Fatal(what) { // after SIGINT and SIGTERM the program writes more, until it has ended
		t.died(what)
		return
	}
	t.LogProcess(what)
	if strings.HasPrefix(what, "start") {
		t.Cost, t.Turn.Begun = 0, false
	}
}

// died closes what the end of the process leaves open.
func (t *translator) died(how string) {
	midTurn := t.Turn.Phase != idle || t.waits()
	t.flushCommand(event.Main)
	t.loseOpen()
	for _, id := range slices.Sorted(maps.Keys(t.Asks)) {
		t.resolve(id, "cancelled", "")
	}
	t.endOpen()
	t.Turn = turn{Result: t.Turn.Result}
	t.Cost = 0
	clear(t.Models)
	clear(t.Early)
	t.Died(how, midTurn)
}

// endCalls ends the calls of the main conversation at the end of a turn: one that
// an interrupt met before the program had begun it has no result, live or on disk.
func (t *translator) endCalls() {
	for _, id := range slices.Sorted(maps.Keys(t.Tools)) {
		if t.Tools[id].Conversation == event.Main {
			t.closeTool(id, event.Main, true)
		}
	}
}

// endOpen ends the calls and subagents of a process that has ended.
func (s *emitter) endOpen() {
	for _, id := range slices.Sorted(maps.Keys(s.Tools)) {
		s.closeTool(id, s.Tools[id].Conversation, true)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Agents)) {
		if a := s.Agents[id]; a.Adopted && !a.Cut {
			text := s.thread(id).LastText
			s.agentDone(id, false, &text, nil)
			continue
		}
		s.agentDone(id, true, nil, nil)
	}
}
