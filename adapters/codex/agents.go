package codex

import (
	"maps"
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// spawnTool starts a subagent.
const spawnTool = "spawn_agent"

// activityTools are the calls about subagents that are members of a team, by how
// the program reports them: it does not report whether a message started a new
// task.
var activityTools = map[string]string{"started": spawnTool, "interacted": "message_agent", "interrupted": "interrupt_agent"}

// collab emits what a call about subagents has changed, at a time of the item.
func (s *emitter) collab(th *thread, id string, it *item, at int64) {
	if it.toolName() == spawnTool {
		for _, child := range it.receivers() {
			if s.spawn(th.Conversation, id, child, it.Prompt) {
				s.placed(th, id, event.SubagentBlockID(id), at)
			}
		}
	}
	states := it.states()
	for _, child := range slices.Sorted(maps.Keys(states)) {
		status, message := agentState(states[child])
		s.reported(child, status, message)
	}
}

// spawn emits that a call has started a subagent, whose conversation has the id
// of the call, and reports whether it is a new one.
func (s *emitter) spawn(conversation, toolUseID, child, prompt string) bool {
	th := s.thread(child)
	if th.Conversation != "" {
		return false
	}
	th.Conversation, th.Parent = toolUseID, conversation
	s.Emit(conversation, event.SubagentSpawned{ToolUseID: toolUseID, AgentID: child, Prompt: prompt})
	return true
}

// reported ends a subagent of which there is only a report.
func (s *emitter) reported(child, status, message string) {
	th := s.Threads[child]
	if th == nil || th.Turn != "" {
		return
	}
	switch status {
	case "completed":
		s.agentDone(th, child, false, &message)
	case "errored", "interrupted", "shutdown", "not_found":
		s.agentDone(th, child, true, nil)
	}
}

// agentDone emits once that a subagent has ended. A subagent that gets further
// work ends again.
func (s *emitter) agentDone(th *thread, child string, failed bool, output *string) {
	if th.Done || th.Conversation == "" || th.Conversation == event.Main {
		return
	}
	th.Done = true
	status := event.SubagentCompletedOK
	if failed {
		status = event.SubagentFailed
	}
	s.Emit(th.Parent, event.SubagentCompleted{
		ToolUseID: th.Conversation, AgentID: child, Status: status, Output: output,
	})
}

// turnEnded closes a thread's turn, and ends the subagent whose turn it was.
func (s *emitter) turnEnded(th *thread, id string, o outcome) {
	if o.status == turnDone || o.status == turnFailed {
		s.emitRefused(th)
	}
	for _, id := range th.Refused {
		if !nested(id) && !th.keeps(o) { // the host has kept a nested one
			s.Lose(th.Conversation, id, event.BlockToolUse)
		}
	}
	th.Refused = nil
	s.close(th, o)
	last := th.Last
	th.Turn, th.Interrupt, th.Began, th.Quiet, th.Last = "", false, 0, 0, ""
	if o.status != turnInterrupted {
		th.First = "" // else what its last call took may still be reported
	}
	if th.Conversation == event.Main || th.Conversation == "" {
		return
	}
	var output *string
	if last != "" {
		output = &last
	}
	s.Emit(th.Conversation, event.SessionIdle{Interrupted: o.status == turnInterrupted})
	s.agentDone(th, id, o.status != turnDone, output)
}

// endThreads closes the threads of a process that has ended. One that ended in order
// has written down what it was doing.
func (s *emitter) endThreads(inPeace bool) {
	for _, id := range s.threads() {
		th := s.Threads[id]
		end := outcome{status: turnLost}
		if inPeace && th.Began > 0 {
			end = outcome{status: turnInterrupted, tookMS: s.Clock - th.Began}
		}
		if th.Turn != "" {
			s.turnEnded(th, id, end)
		}
		s.close(th, end)
		if th.Conversation != "" && th.Conversation != event.Main {
			s.agentDone(th, id, !th.Reported, nil)
		}
	}
}
