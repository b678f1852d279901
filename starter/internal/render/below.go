package render

import "github.com/sojourn-run/sojourn/event"

// Below shows an event of a child session, as the subagent that it is: thread is the tool
// use id of its spawn, behind those of the levels above and a slash each. What happens to
// its sandbox is left out, and so are the ends of its turns.
func (p *Printer) Below(thread string, e event.Event) error {
	inThread := func(id string) string {
		if id == "" {
			return ""
		}
		return thread + "/" + id
	}
	switch b := e.Payload.(type) {
	case event.BlockUpsert:
		b.Block.ToolUseID = inThread(b.Block.ToolUseID)
		e.Payload = b
	case event.SubagentSpawned:
		b.ToolUseID = inThread(b.ToolUseID)
		e.Payload = b
	case event.SubagentCompleted:
		b.ToolUseID = inThread(b.ToolUseID)
		e.Payload = b
	case event.PermissionRequested:
		b.ToolUseID = inThread(b.ToolUseID)
		e.Payload = b
	case event.BlockDelta, event.PermissionResolved, event.Error, event.Log, event.SessionIdle:
	default:
		return nil
	}
	if conversation := e.Context.Conversation(); conversation == event.Main {
		e.Context.ConversationID = thread
	} else {
		e.Context.ConversationID = inThread(conversation)
	}
	return p.Event(e)
}
