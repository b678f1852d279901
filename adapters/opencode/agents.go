package opencode

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// spawned emits that a task starts a subagent; its conversation has the id of the
// call. The child session is known now or later.
func (s *emitter) spawned(th *thread, p *part, child string) {
	var in taskInput
	_ = json.Unmarshal(p.State.Input, &in) // the call itself shows another shape
	s.Emit(th.Conversation, event.SubagentSpawned{
		ToolUseID: p.CallID, AgentID: child, Prompt: in.Prompt, SubagentType: in.SubagentType, Description: in.Description,
	})
}

// linked records the native session of a task: its later output is the
// subagent's. A task may continue with the session of an earlier one.
func (s *emitter) linked(th *thread, p *part, t *tool) {
	child := p.State.childSession()
	if t.Name != taskTool || child == "" || child == t.Child {
		return
	}
	t.Child = child
	s.addChild(child, p.SessionID).Conversation = p.CallID
	s.spawned(th, p, child)
}

// addChild registers a session as the child of another.
func (s *emitter) addChild(child, parent string) *thread {
	th := s.Threads[child]
	if th == nil {
		th = &thread{Conversation: child}
		s.Threads[child] = th
	}
	th.Parent = parent
	return th
}

// completed emits how a subagent ended.
func (s *emitter) completed(th *thread, p *part, failed bool) {
	e := event.SubagentCompleted{
		ToolUseID: p.CallID, AgentID: p.State.childSession(), Status: event.SubagentCompletedOK, DurationMS: took(p.State.Time),
	}
	text := taskResult(nativejson.String(p.State.Output))
	if failed {
		e.Status, text = event.SubagentFailed, p.State.Error
	}
	e.Output = &text
	s.Emit(th.Conversation, e)
	s.retire(e.AgentID)
}

// taskResult returns a subagent's answer, without the agent's wrapping.
func taskResult(output string) string {
	_, text, found := strings.Cut(output, "<task_result>\n")
	if !found {
		return output
	}
	if at := strings.LastIndex(text, "\n</task_result>"); at >= 0 {
		text = text[:at]
	}
	return text
}

// retire forgets the oldest of many finished subagents: late events may still
// arrive for the others.
func (s *emitter) retire(child string) {
	if child == "" {
		return
	}
	s.Gone = append(slices.DeleteFunc(s.Gone, func(id string) bool { return id == child }), child)
	if len(s.Gone) > kept {
		delete(s.Threads, s.Gone[0])
		s.Gone = slices.Delete(s.Gone, 0, 1)
	}
}
