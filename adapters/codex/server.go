package codex

import (
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sojourn-run/sojourn/event"
)

// notified translates a notification of the app-server.
func (t *translator) notified(m *message, raw []byte) error {
	t.Clock = max(t.Clock, m.EmittedMS)
	if quiet[m.Method] {
		return nil
	}
	handle := notifications[m.Method]
	if handle == nil {
		t.Native(t.conversationIn(m.Params), event.DirOut, m.Method, raw)
		return nil
	}
	p := new(params)
	if err := decodeObject(m.Params, p); err != nil {
		return err
	}
	if !t.holds(m.Method, p, raw) {
		handle(t, p, raw)
	}
	if t.Holding {
		t.release()
	}
	return nil
}

// maxHeld bounds what is held back of a thread.
const maxHeld = 256

// holds holds a notification back whose thread is of unknown origin, and reports whether it
// did: on a busy machine a subagent's first items precede the call that started it. A prompt
// may identify the call. Otherwise, when nothing can name the thread any more, it is a
// conversation under its own id.
func (t *translator) holds(method string, p *params, raw []byte) bool {
	if method == "turn/completed" && p.ThreadID == t.Main && t.Holding {
		t.placeHeld()
	}
	if t.Main == "" || p.ThreadID == "" || method == "turn/started" {
		return false
	}
	th := t.thread(p.ThreadID)
	if th.Conversation != "" {
		return false
	}
	if p.Item != nil && p.Item.kind() == kindUser {
		t.spawnedBy(p.ThreadID, joinParts(p.Item.Content))
	}
	if th.Conversation != "" {
		return false
	}
	t.Holding = true
	if th.Held = append(th.Held, slices.Clone(raw)); len(th.Held) > maxHeld {
		t.spawn(event.Main, p.ThreadID, p.ThreadID, "")
	}
	return true
}

// placeHeld makes conversations of the threads of which something is held back.
func (t *translator) placeHeld() {
	for _, id := range t.threads() {
		if th := t.Threads[id]; len(th.Held) > 0 && th.Conversation == "" {
			t.spawn(event.Main, id, id, "")
		}
	}
	t.release()
}

// release translates what was held back of the threads that have a conversation now.
func (t *translator) release() {
	t.Holding = false
	for _, id := range t.threads() {
		th := t.Threads[id]
		if th.Conversation == "" {
			t.Holding = t.Holding || len(th.Held) > 0
			continue
		}
		held := th.Held
		th.Held = nil
		for _, raw := range held {
			m := new(message)
			err := decodeObject(raw, m)
			if err == nil {
				err = t.notified(m, raw)
			}
			if err != nil {
				t.Malformed(event.DirOut, err, rawText(string(raw)))
			}
		}
	}
}

// conversationIn returns the conversation of an unknown notification, if it names
// one.
func (t *translator) conversationIn(raw jsontext.Value) string {
	var p struct {
		ThreadID string `json:"threadId"`
	}
	if given(raw) && decode(raw, &p) == nil {
		if th := t.Threads[p.ThreadID]; th != nil && th.Conversation != "" {
			return th.Conversation
		}
	}
	return event.Main
}

var notifications = map[string]func(*translator, *params, []byte){
	"thread/started":                    (*translator).threadStarted,
	"turn/started":                      (*translator).turnStarted,
	"turn/completed":                    (*translator).turnCompleted,
	"item/started":                      (*translator).itemStarted,
	"item/completed":                    (*translator).itemCompleted,
	"item/agentMessage/delta":           (*translator).delta,
	"item/plan/delta":                   (*translator).delta,
	"item/reasoning/summaryTextDelta":   (*translator).delta,
	"item/reasoning/textDelta":          (*translator).delta,
	"item/reasoning/summaryPartAdded":   (*translator).summaryPart,
	"thread/tokenUsage/updated":         (*translator).tokensUsed,
	"error":                             (*translator).faulted,
	"warning":                           (*translator).warned,
	"guardianWarning":                   (*translator).warned,
	"configWarning":                     (*translator).warned,
	"deprecationNotice":                 (*translator).warned,
	"serverRequest/resolved":            (*translator).requestResolved,
	"mcpServer/startupStatus/updated":   (*translator).progress,
	"item/mcpToolCall/progress":         (*translator).progress,
	"item/autoApprovalReview/started":   (*translator).progress,
	"item/autoApprovalReview/completed": (*translator).progress,
	"turn/plan/updated":                 (*translator).progress,
}

// quiet are notifications that are not about the conversation, or repeat another
// one.
var quiet = map[string]bool{
	"thread/status/changed":                     true,
	"thread/readState/changed":                  true,
	"thread/settings/updated":                   true,
	"thread/goal/cleared":                       true,
	"thread/name/updated":                       true,
	"thread/closed":                             true,
	"account/updated":                           true,
	"account/rateLimits/updated":                true,
	"remoteControl/status/changed":              true,
	"skills/changed":                            true,
	"turn/diff/updated":                         true,
	"item/commandExecution/outputDelta":         true,
	"item/commandExecution/terminalInteraction": true,
	"item/fileChange/outputDelta":               true,
	"item/fileChange/patchUpdated":              true,
	"thread/compacted":                          true,
}

// threadStarted sets the main thread in a stream without its input side.
func (t *translator) threadStarted(p *params, _ []byte) {
	if p.Thread != nil && p.Thread.Parent == "" && t.Main == "" {
		t.mainIs(p.Thread.ID)
	}
}

// mainIs sets which thread is the session's own conversation.
func (t *translator) mainIs(id string) {
	if id == "" {
		return
	}
	t.Main = id
	t.thread(id).Conversation = event.Main
}

func (t *translator) turnStarted(p *params, _ []byte) {
	if p.Turn != nil {
		t.runs(p.ThreadID, p.Turn.ID).Starting = false
	}
}

// runs records that a turn has begun.
func (t *translator) runs(threadID, turnID string) *thread {
	if t.Main == "" {
		t.mainIs(threadID)
	}
	th := t.thread(threadID)
	if th.Turn == turnID {
		return th
	}
	th.Turn, th.Interrupt, th.Done, th.Last = turnID, false, false, ""
	th.Began, th.Quiet, th.Latest, th.LatestItem = 0, 0, 0, ""
	th.noCall()
	if th.Conversation == event.Main {
		t.Turn.Busy, t.Turn.End = true, nil
	}
	return th
}

// itemThread returns the thread of an item.
func (t *translator) itemThread(p *params) *thread {
	if t.Main == "" {
		t.mainIs(p.ThreadID)
	}
	th := t.thread(p.ThreadID)
	if th.Conversation == "" {
		t.spawn(event.Main, p.ThreadID, p.ThreadID, "")
	}
	return th
}

// spawnedBy assigns a subagent to the open call that starts one with that prompt.
func (t *translator) spawnedBy(child, prompt string) {
	for _, id := range t.threads() {
		parent := t.Threads[id]
		for _, o := range parent.Open {
			if o.Kind == kindCollab && o.Prompt == prompt && parent.Conversation != "" {
				t.spawn(parent.Conversation, o.ID, child, prompt)
				return
			}
		}
	}
}

func (t *translator) itemStarted(p *params, raw []byte) {
	if p.Item == nil {
		return
	}
	th := t.itemThread(p)
	if p.Item.kind() == kindUser {
		t.promptTaken(th, p)
		return
	}
	if p.Item.kind().isTool() && p.TurnID != th.Turn {
		t.late(th, p.Item, "begun", raw)
		return
	}
	t.calls(th)
	t.begin(th, p.Item.ID, p.Item)
}

// calls reports a model call with the first thing that it makes: the program tells
// of a call only when it has ended.
func (t *translator) calls(th *thread) {
	if !th.Calling && th.Turn != "" && th.Conversation != "" {
		th.Calling = true
		t.Emit(th.Conversation, event.MetadataUpdate{Calls: 1})
	}
}

// late notes a call that a turn before has made: what continues in the background
// is no part of the turns after.
func (t *translator) late(th *thread, it *item, what string, raw []byte) {
	t.Emit(th.Conversation, event.Log{
		Level: "debug", Message: "a call of an earlier turn has " + what + ": " + it.ID, Data: json.RawMessage(raw),
	})
}

func (t *translator) itemCompleted(p *params, raw []byte) {
	if p.Item == nil {
		return
	}
	th, it := t.itemThread(p), p.Item
	if p.TurnID == th.Turn {
		th.saw(it, it.StartedMS, it.CompletedMS)
		if it.kind() != kindUser && th.find(it.ID) < 0 {
			t.calls(th)
		}
	}
	switch kind := it.kind(); {
	case kind == kindUser:
		t.promptTaken(th, p)
	case kind.isTool() && th.find(it.ID) < 0:
		if p.TurnID != th.Turn {
			t.late(th, it, "ended", raw)
			return
		}
		t.begin(th, it.ID, it)
		t.end(th, it.ID, it, event.DirOut)
	default:
		t.end(th, it.ID, it, event.DirOut)
	}
}

func (t *translator) delta(p *params, _ []byte) {
	th := t.Threads[p.ThreadID]
	if th == nil || p.Delta == "" {
		return
	}
	if at := th.find(p.ItemID); at >= 0 {
		t.Emit(th.Conversation, event.BlockDelta{BlockID: p.ItemID, Delta: p.Delta})
	}
}

// summaryPart separates the parts of a thought as the whole thought does.
func (t *translator) summaryPart(p *params, raw []byte) {
	if p.Index > 0 {
		p.Delta = "\n"
		t.delta(p, raw)
	}
}

func (t *translator) turnCompleted(p *params, _ []byte) {
	if p.Turn == nil {
		return
	}
	th := t.runs(p.ThreadID, p.Turn.ID)
	if th.Conversation == "" {
		th.Turn = ""
		return
	}
	if p.Turn.Error != nil && p.Turn.Status == turnFailed {
		t.failure(th, p.Turn.ID, p.Turn.Error)
	}
	t.withdraw(p.ThreadID)
	t.turnEnded(th, p.ThreadID, outcome{status: p.Turn.Status, tookMS: p.Turn.DurationMS})
	if th.Conversation == event.Main {
		t.mainEnded(p.Turn)
	}
	t.idle()
}

// mainEnded records how the main thread's turn ended.
func (t *translator) mainEnded(turn *wireTurn) {
	end := &turnEnd{Interrupted: turn.Status == turnInterrupted}
	if turn.Error != nil && turn.Status == turnFailed {
		end.Message, end.Code = turn.Error.Message, turn.Error.code()
	}
	t.Turn.End, t.Turn.Ended = end, append(t.Turn.Ended, turn.ID)
}

// idle emits that the turn is over when nothing runs and nothing is on its way:
// subagents may outlive the turn that started them.
func (t *translator) idle() {
	if t.Turn.End == nil {
		return
	}
	for _, th := range t.Threads {
		if th.Turn != "" {
			return
		}
	}
	for _, c := range t.Calls {
		if c.Method == "turn/start" {
			return
		}
	}
	e := event.SessionIdle{StopReason: "end_turn", Interrupted: t.Turn.End.Interrupted}
	if e.Interrupted {
		e.StopReason = turnInterrupted
	}
	if end := t.Turn.End; end.Message != "" || end.Code != "" {
		e.StopReason, e.Error = "error", &event.ErrorInfo{Message: end.Message, Code: end.Code}
	}
	for _, h := range t.Handed {
		t.keepUntaken(h)
	}
	t.Turn, t.Handed = turn{}, nil
	t.Emit(event.Main, e)
}

// tokensUsed reports the tokens of one model call. A resumed thread repeats its
// last report. That of a call whose turn was interrupted may come behind the turn's end:
// then only the call's block has it, as in the rollout.
func (t *translator) tokensUsed(p *params, _ []byte) {
	if p.Usage == nil {
		return
	}
	th := t.thread(p.ThreadID)
	total, last := p.Usage.Total.Tokens, p.Usage.Last
	took := usage{last.Input, last.Cached, last.CacheWrite, last.Output}.event()
	if th.Turn != "" && total != th.Tokens {
		t.calls(th)
		th.Calling = false
		t.Emit(event.Main, event.MetadataUpdate{Model: t.Model, Usage: &took})
	}
	t.used(th, total, took)
}

// faulted emits a retry. The turn's end has a final failure.
func (t *translator) faulted(p *params, raw []byte) {
	message := "model API error"
	if p.Error != nil {
		message = p.Error.Message
		if p.Error.Details != "" {
			message += ": " + p.Error.Details
		}
	}
	level := "error"
	if p.Retry {
		level = "warn"
	}
	t.Emit(t.conversationOf(p.ThreadID), event.Log{Level: level, Message: message, Data: json.RawMessage(raw)})
}

func (t *translator) conversationOf(threadID string) string {
	if th := t.Threads[threadID]; th != nil && th.Conversation != "" {
		return th.Conversation
	}
	return event.Main
}

func (t *translator) warned(p *params, raw []byte) {
	message := p.words()
	if message == "" {
		message, _ = plainText(p.Summary)
	}
	t.Emit(t.conversationOf(p.ThreadID), event.Log{Level: "warn", Message: message, Data: json.RawMessage(raw)})
}

func (t *translator) progress(p *params, raw []byte) {
	t.Emit(t.conversationOf(p.ThreadID), event.Log{Level: "debug", Message: first(p.words(), "progress"), Data: json.RawMessage(raw)})
}
