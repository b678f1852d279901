package acp

import (
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/event"
)

// prompted handles a prompt to the agent. One that finds another running is shown
// when that has ended. A cancelled one that waits for an answer does not end
// before it gets it, which may be never.
func (t *Translator) prompted(request string, content []Content) {
	if len(t.Turns) > 0 && t.Turns[0].Cancelled && len(t.Asks) > 0 {
		t.endStuck()
	}
	t.Turns = append(t.Turns, turn{Request: request, Content: content})
	if len(t.Turns) == 1 {
		t.show()
	}
}

// show starts the turn of the first waiting prompt.
func (t *Translator) show() {
	u := &t.Turns[0]
	text, parts := Parts(u.Content)
	t.resolveDoubt()
	u.Content, u.Text = nil, text
	t.Run = run{}
	if t.dialect.Command != nil && t.dialect.Command(text, t.Known) {
		t.Commands++
		u.Command, u.ID = true, t.commandID(u.Request)
	} else {
		t.Prompts++
		u.ID = t.turnID(u.Request)
	}
	t.upsert(event.Block{
		ID: u.ID, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text, Parts: parts,
	})
}

// chunk handles a piece of the agent's output.
func (t *Translator) chunk(u *update, line string) {
	c, ok := chunk(u.Content)
	switch {
	case ok && c.Type == "text":
		t.textChunk(u.Kind, u.MessageID, c.Text, line)
	case t.replaying():
		t.replayedOther("")
	default:
		t.native(event.DirOut, "session/update/"+u.Kind, line)
	}
}

func (t *Translator) textChunk(kind, message, text, line string) {
	if t.dialect.Remark != nil && kind == saidKind {
		if p, is := t.dialect.Remark(text); is {
			t.emit(p)
			return
		}
	}
	switch {
	case t.replaying():
		t.replayedOther(text)
	case len(t.Turns) == 0:
		t.native(event.DirOut, "session/update/"+kind, line)
	default:
		t.reacted(message)
		if kind == thoughtKind {
			t.think(text)
		} else {
			t.speak(text)
		}
	}
}

// reacted records that the agent reacts to the turn, and with which message.
// Refusals before it have reached the agent now.
func (t *Translator) reacted(message string) {
	t.overtaken()
	u := &t.Turns[0]
	u.Heard, u.Refused = true, nil
	if message != "" && t.Run.Message != "" && message != t.Run.Message {
		t.endRun()
	}
	if message != "" {
		t.Run.Message = message
	}
}

func (t *Translator) speak(text string) {
	out, rest := t.dialect.tidy(t.Run.Text, t.Run.Held, text, false)
	t.Run.Held = rest
	t.say(out)
}

// say emits text that is clean.
func (t *Translator) say(text string) {
	if text == "" {
		return
	}
	id := t.textID()
	if !t.Run.Text {
		t.Run.Text = true
		t.upsert(event.Block{ID: id, Type: event.BlockAssistantText, Status: event.StatusPending})
	}
	t.emit(event.BlockDelta{BlockID: id, Delta: text})
}

func (t *Translator) think(text string) {
	b, heading := event.Block{ID: t.thoughtID(), Type: event.BlockThinking}, ""
	if t.dialect.Thought != nil {
		text, heading = t.dialect.Thought(text)
	}
	if !t.Run.Thought {
		b.Status = event.StatusPending
	} else if t.dialect.Thought != nil {
		text = ThoughtBreak + text
	}
	if heading != "" {
		t.Run.Summary = AddHeading(t.Run.Summary, heading)
		b.Summary = new(t.Run.Summary)
	}
	if !t.Run.Thought || heading != "" {
		t.Run.Thought = true
		t.upsert(b)
	}
	t.emit(event.BlockDelta{BlockID: b.ID, Delta: text})
}

// AddHeading returns the summary of a run's thoughts with the heading of another
// thought: the headings, one a line.
func AddHeading(summary, heading string) string {
	if summary == "" {
		return heading
	}
	return summary + "\n" + heading
}

// ThoughtBreak separates the thoughts of one run.
const ThoughtBreak = "\n\n"

func (t *Translator) textID() string    { return TextID(t.Turns[0].ID, t.Turns[0].Runs) }
func (t *Translator) thoughtID() string { return ThoughtID(t.Turns[0].ID, t.Turns[0].Runs) }

// endRun completes the unfinished output.
func (t *Translator) endRun() {
	t.closeRun(func(id string, typ event.BlockType) {
		t.upsert(event.Block{ID: id, Type: typ, Status: event.StatusComplete})
	})
}

// loseRun marks the unfinished output as lost: the agent stores whole messages
// only.
func (t *Translator) loseRun() { t.closeRun(t.lose) }

func (t *Translator) closeRun(end func(id string, typ event.BlockType)) {
	if len(t.Turns) == 0 {
		return
	}
	rest, _ := t.dialect.tidy(t.Run.Text, t.Run.Held, "", true)
	t.say(rest)
	if t.Run.Thought {
		end(t.thoughtID(), event.BlockThinking)
	}
	if t.Run.Text {
		end(t.textID(), event.BlockAssistantText)
	}
	if t.Run.Thought || t.Run.Text {
		t.Turns[0].Runs++
	}
	t.Run = run{}
}

// promptAnswered ends a turn.
func (t *Translator) promptAnswered(request string, m *message) {
	if len(t.Turns) == 0 {
		return
	}
	if t.Turns[0].Request != request {
		t.outOfTurn(request, m)
		return
	}
	idle := event.SessionIdle{}
	if m.Error != nil {
		idle.Error = &event.ErrorInfo{Message: m.Error.text(), Code: m.Error.code(), Data: m.Error.Data}
		t.fail(*idle.Error)
	} else {
		idle.StopReason = stopReason(m)
		idle.Interrupted = idle.StopReason == "cancelled"
		idle.Unheard = idle.Interrupted && !t.Turns[0].Heard && !t.dialect.Kept
		t.finish(idle.Interrupted)
	}
	if t.dialect.Spent != nil && m.Error == nil {
		if spent := t.dialect.Spent(m.Result); spent != nil {
			t.emit(*spent)
		}
	}
	t.endTurn(idle)
	t.proved(m.Error)
}

// outOfTurn handles the answer to a prompt that waited: the agent has given up
// those ahead of it. One to a prompt that was given up here is ignored.
func (t *Translator) outOfTurn(request string, m *message) {
	at := slices.IndexFunc(t.Turns, func(u turn) bool { return u.Request == request })
	if at < 0 {
		return
	}
	for range at {
		t.endStuck()
	}
	t.promptAnswered(request, m)
}

// endStuck ends a turn that the agent will not end.
func (t *Translator) endStuck() {
	t.finish(true)
	t.endTurn(event.SessionIdle{StopReason: "cancelled", Interrupted: true})
}

// overtaken ends a turn that waits for an answer when the agent emits output
// after another prompt: that has cancelled it.
func (t *Translator) overtaken() {
	if len(t.Turns) > 1 && len(t.Asks) > 0 && !t.dialect.Kept {
		t.endStuck()
	}
}

func stopReason(m *message) string {
	var r struct {
		StopReason string `json:"stopReason"`
	}
	if decodeInto(m.Result, &r) != nil {
		return ""
	}
	return r.StopReason
}

// fail ends a turn with an error.
func (t *Translator) fail(e event.ErrorInfo) {
	t.cutRun()
	t.cutCalls()
	t.unkept(event.Block{
		ID: t.Turns[0].ID + ":error", Type: event.BlockError, Status: event.StatusError,
		Message: &e.Message, Code: e.Code,
	})
}

// finish ends a turn that was answered or cancelled.
func (t *Translator) finish(cancelled bool) {
	u := &t.Turns[0]
	bare := t.Run.Thought && !t.Run.Text && strings.TrimSpace(t.Run.Held) == "" && !t.dialect.BareThoughts
	switch {
	case cancelled || u.Command || bare:
		t.cutRun()
	default:
		t.endRun()
	}
	if u.Command {
		t.lose(u.ID, event.BlockUserMessage)
	}
	if cancelled {
		for _, id := range u.Refused {
			t.lose(id, event.BlockToolUse)
			t.lose(ResultID(id), event.BlockToolResult)
		}
	}
	t.cutCalls()
}

// loseCalls ends calls without a result.
func (t *Translator) loseCalls() {
	for _, id := range slices.Sorted(maps.Keys(t.Asks)) {
		t.resolve(id, "cancelled")
	}
	for _, id := range slices.Sorted(maps.Keys(t.Tools)) {
		c := t.Tools[id]
		delete(t.Tools, id)
		t.upsert(event.Block{
			ID: id, Type: event.BlockToolUse, Status: event.StatusError, Execution: event.ExecutionError, Metadata: emit.Lost(),
		})
		if c.Spawned {
			t.emit(event.SubagentCompleted{ToolUseID: id, Status: event.SubagentFailed})
			t.lose(event.SubagentBlockID(id), event.BlockSubagent)
		}
	}
}

// endTurn emits that the agent is idle, and starts the turn of the next prompt.
func (t *Translator) endTurn(idle event.SessionIdle) {
	t.Turns = slices.Delete(t.Turns, 0, 1)
	t.Run = run{}
	t.emit(idle)
	if len(t.Turns) > 0 {
		t.show()
	}
}

// signal translates a record about the process.
func (t *Translator) signal(what string) {
	if !emit.Fatal(what, "2", "15") {
		t.LogProcess(what)
		return
	}
	midTurn := len(t.Turns) > 0
	t.loseRun()
	t.loseCalls()
	if midTurn && !t.Turns[0].Command && !t.Turns[0].Heard && !t.dialect.Kept {
		text := t.Turns[0].Text
		t.Doubt = &text
	}
	t.Turns, t.Run, t.Phase = nil, run{}, closed
	clear(t.Sent)
	clear(t.Unserved)
	t.Died(what, midTurn)
}
