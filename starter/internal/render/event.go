package render

import (
	"cmp"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// Event shows one event. It returns the first write error, if there was one.
func (p *Printer) Event(e event.Event) error {
	l := p.lane(e.Context.Conversation())
	switch b := e.Payload.(type) {
	case event.BlockUpsert:
		p.upsert(l, b.Block, e.Context.Timestamp)
	case event.BlockDelta:
		p.delta(l, b)
	case event.SubagentSpawned:
		p.spawned(l, b)
	case event.SubagentCompleted:
		p.completed(l, b)
	case event.SessionIdle:
		p.endText(l)
	case event.PermissionRequested:
		p.permission(l, e.Context.SessionID, b)
	case event.PermissionResolved:
		p.resolved(l, b)
	case event.QueryCompleted, event.QueryFailed, event.QueryInterrupted:
		p.endText(nil)
		p.turnEnd(b)
	default:
		p.aside(l, e.Payload)
	}
	return p.push()
}

// Notice shows of an event only what a person who waits for an answer must know:
// permission requests, and warnings such as a retry of the model. It returns the
// first write error, if there was one.
func (p *Printer) Notice(e event.Event) error {
	switch b := e.Payload.(type) {
	case event.BlockUpsert:
		if b.Block.Type == event.BlockToolUse {
			p.remember(p.lane(e.Context.Conversation()), b.Block)
		}
		return nil
	case event.PermissionRequested, event.PermissionResolved, event.Log:
		return p.Event(e)
	}
	return nil
}

// aside shows events that are not part of the conversation.
func (p *Printer) aside(l *lane, payload event.Payload) {
	switch b := payload.(type) {
	case event.Error:
		p.fault(l, b.Message)
	case event.Log:
		if b.Level == "warn" || b.Level == "error" {
			p.note(l, yellow, "! "+b.Message)
		}
	case event.Native:
		p.note(l, dim, "· "+b.Agent+" said something new: "+cmp.Or(b.Kind, oneLine(b.Line)))
	case event.Unknown:
		p.note(l, dim, "· event of an unknown type: "+string(b.Name))
	case event.FileCreated:
		p.note(l, dim, "+ "+b.Path)
	case event.FileModified:
		p.note(l, dim, "~ "+b.Path)
	case event.FileDeleted:
		p.note(l, dim, "- "+b.Path)
	case event.MessageFolded:
		p.note(l, dim, "· the message went into the running turn")
	default:
		p.life(l, payload)
	}
}

// life shows the lifecycle of the session and its sandbox.
func (p *Printer) life(l *lane, payload event.Payload) {
	switch b := payload.(type) {
	case event.SessionInitialized:
		how := "session begins: "
		if b.Reopened {
			how = "session is reopened: "
		}
		p.note(l, dim, "· "+how+b.Agent)
	case event.SessionClosed:
		p.endText(nil)
		p.note(l, dim, "· session is closed"+because(b.Reason))
	case event.EECreating:
		p.note(l, dim, "· a sandbox is being made"+because(b.Message))
	case event.EEReady:
		p.note(l, dim, "· sandbox is ready"+on(b.Host))
	case event.EEError:
		p.note(l, yellow, "! sandbox: "+cmp.Or(b.Message, b.Reason, "lost"))
	case event.EETerminated:
		p.note(l, dim, "· sandbox is gone"+because(b.Reason))
	case event.OptionsUpdate:
		p.options(l, b)
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + oneLine(reason)
}

func on(host string) string {
	if host == "" {
		return ""
	}
	return " on " + oneLine(host)
}

func (p *Printer) options(l *lane, b event.OptionsUpdate) {
	for _, change := range []struct {
		what  string
		value *string
	}{{"title", b.Title}, {"model", b.Model}, {"permission mode", b.PermissionMode}} {
		if change.value != nil {
			p.note(l, dim, "· "+change.what+" is now "+oneLine(*change.value))
		}
	}
}

// note shows one line beside the conversation.
func (p *Printer) note(l *lane, s style, text string) {
	p.emit(unit{lane: l, group: groupNote, lines: []string{p.paint(s, cut(oneLine(text), p.room(l)))}})
}

// fault shows an error in full, since its end may be what helps.
func (p *Printer) fault(l *lane, message string) {
	p.lastError = message
	p.emit(unit{lane: l, group: groupNote, lines: []string{p.paint(red, "✗ "+oneLine(message))}})
}

func (p *Printer) resolved(l *lane, r event.PermissionResolved) {
	word := map[string]string{"allow": "allowed", "deny": "denied"}[r.Decision]
	text := "· permission " + cmp.Or(word, r.Decision)
	if r.By != "" {
		text += " by " + r.By
	}
	p.emit(unit{lane: l, group: groupWork, lines: []string{p.paint(dim, cut(oneLine(text+because(r.Message)), p.room(l)))}})
}

// turnEnd shows the last line of a turn: its usage, or why it ended.
func (p *Printer) turnEnd(payload event.Payload) {
	switch b := payload.(type) {
	case event.QueryCompleted:
		r := event.QueryResult{}
		if b.Result != nil {
			r = *b.Result
		}
		took := time.Duration(b.DurationMS) * time.Millisecond
		p.note(p.main, dim, Usage(took, r.Usage, r.CostUSD))
	case event.QueryFailed:
		reason := b.Reason
		if b.Error != nil {
			reason = b.Error.Message
		}
		if reason == p.lastError {
			reason = "" // shown just above
		}
		p.fault(p.main, "the turn failed"+because(reason))
		p.lastError = ""
	case event.QueryInterrupted:
		p.note(p.main, yellow, "■ interrupted"+because(b.Reason))
	}
}
