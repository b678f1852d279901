package opencode

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/event"
)

// A turn begins with a prompt that is sent, or with one that is seen if the
// sending was not recorded. It ends once, when the agent reports that it is idle
// and has nothing more to write: after an abort or a failure it reports so twice,
// the first time before the end of its answer.

// promptSeen is called when the agent has stored a user's message. It writes some
// of its own, so one with a chosen id is recognised by its part.
func (t *translator) promptSeen(th *thread) {
	if th.Conversation != event.Main {
		return
	}
	t.Turn.Active = true
	if len(t.Turn.Waiting) == 0 {
		return
	}
	if _, chosen := hostMessage(t.Turn.Waiting[0].Part); !chosen {
		t.Turn.Waiting = t.Turn.Waiting[1:]
	}
}

// promptTaken is called when a part of a user's message arrives.
func (t *translator) promptTaken(th *thread, partID string) {
	at := slices.IndexFunc(t.Turn.Waiting, func(h handed) bool { return h.Part == partID })
	if at < 0 || th.Conversation != event.Main {
		return
	}
	p := t.Turn.Waiting[at]
	t.Turn.Waiting = slices.Delete(t.Turn.Waiting, at, at+1)
	t.messageEvent(th, p)
}

// messageEvent emits what became of a message that found the agent working: it is
// taken between two steps of the running turn, or the turn is over.
func (t *translator) messageEvent(th *thread, p handed) {
	id, chosen := hostMessage(p.Part)
	if !p.Late || !chosen {
		return
	}
	ref := event.MessageRef{MessageID: id}
	if th.busy() || t.Turn.Running {
		t.Emit(event.Main, event.MessageFolded{MessageRef: ref})
		return
	}
	t.Emit(event.Main, event.MessageOwnTurn{MessageRef: ref})
}

func (t *translator) sessionError(p *properties) {
	if p.Error == nil || p.Error.Name == aborted {
		return
	}
	conversation := event.Main
	if p.SessionID != "" {
		conversation = t.thread(p.SessionID).Conversation
	}
	failure := event.ErrorInfo{Message: p.Error.text(), Code: p.Error.code()}
	t.Emit(conversation, event.Error{ErrorInfo: failure})
	if conversation == event.Main {
		t.mainFailed(t.thread(t.Main), &failure)
	}
}

// mainFailed is called when the server reports a failure of the main conversation, which
// may come behind the turn's end. A prompt that it fails to store is reported in no other
// way: it isn't waited for any more, and a turn of which nothing else is known has ended.
func (t *translator) mainFailed(th *thread, failure *event.ErrorInfo) {
	for i := range t.Turn.Waiting {
		t.Turn.Waiting[i].Doubted = true
	}
	if !t.Turn.Active {
		return
	}
	t.Turn.Error = failure
	if w := t.Turn.Waiting; len(w) == 1 && !w[0].Late && !t.Turn.Running && !th.busy() {
		t.endTurn(th)
	}
}

// continued is called when an answer begins: a failure that was reported before it, and was not
// that of the answer before, did not end the turn. Such is a request that was too long, for
// which the server makes a summary of the conversation.
func (t *translator) continued(th *thread) {
	if !t.Turn.Running || !th.lastFailed() {
		t.Turn.Error, t.Turn.Idle = nil, false
	}
}

func (t *translator) sessionStatus(p *properties) {
	if p.Status == nil || p.Status.Type != "retry" {
		return
	}
	th := t.thread(p.SessionID)
	t.Emit(th.Conversation, event.Log{Level: "warn", Message: fmt.Sprintf(
		"model API error (%s): retry %d of %d", p.Status.Message, p.Status.Attempt, maxRetries)})
	if p.Status.Attempt > maxRetries {
		t.Turn.Failure = p.Status.Message
		t.giveUp(th)
	}
}

// sessionIdle ends a turn, or a subagent's.
func (t *translator) sessionIdle(session string) {
	th := t.thread(session)
	if th.Conversation != event.Main {
		if !th.busy() {
			t.loseOpen(session)
			t.cancelAsks(th.Conversation)
			t.Emit(th.Conversation, event.SessionIdle{})
		}
		return
	}
	awaited := slices.ContainsFunc(t.Turn.Waiting, func(h handed) bool { return !h.Doubted })
	waits := awaited && t.Turn.Error == nil
	if t.Turn.Rested = waits; !t.Turn.Active || waits || th.busy() && !t.leftOpen(th) {
		return
	}
	t.loseOpen(session)
	t.endTurn(th)
}

// leftOpen reports whether the server never ends the answer that failed, since it can't
// store its end (on a full disk, say), and closes it: the server has reported for the second
// time that it is idle.
func (t *translator) leftOpen(th *thread) bool {
	if t.Turn.Error == nil || !t.Turn.Idle {
		t.Turn.Idle = t.Turn.Error != nil
		return false
	}
	t.loseTools()
	th.close()
	return true
}

// endTurn emits once that the turn is over.
func (t *translator) endTurn(th *thread) {
	e := event.SessionIdle{StopReason: t.Turn.StopReason}
	switch {
	case t.Turn.Failure != "" && !t.Turn.Interrupted:
		e.Error = &event.ErrorInfo{Message: t.Turn.Failure, Code: "api_error"}
		t.unwritten(th)
	case t.Turn.Error != nil:
		e.Error = t.Turn.Error
	default:
		e.Interrupted = t.Turn.Interrupted && !t.finished(th) || t.aborted(th)
		// A server that is aborted while it prepares its tools aborts later prompts, too.
		e.Unheard = t.Turn.Early
	}
	if e.Interrupted {
		e.StopReason = "interrupted"
	}
	t.Turn = turn{Waiting: t.Turn.Waiting}
	th.User = nil
	t.cancelAsks("")
	t.Emit(event.Main, e)
}

// finished reports whether the turn's last answer ended by itself: an interrupt came too late.
func (t *translator) finished(th *thread) bool { return t.Turn.Running && th.answered() }

// aborted reports whether the last answer was stopped, for any reason.
func (t *translator) aborted(th *thread) bool {
	n := len(th.Messages)
	return n > 0 && th.Messages[n-1].Aborted
}

// unwritten emits the failure that ended a turn whose retries the adapter ended.
// The agent itself stores none, so the block has the source "server": the host
// keeps it.
func (t *translator) unwritten(th *thread) {
	text := t.Turn.Failure
	id := "error"
	if n := len(th.Messages); n > 0 {
		id = th.Messages[n-1].ID
	}
	t.UpsertServer(event.Main, event.Block{
		ID: id + ":retries", Type: event.BlockError, Status: event.StatusError, Message: &text, Code: "api_error",
	})
}

// loseOpen marks unfinished texts that were cut off: they are not on disk. ""
// means all sessions.
func (t *translator) loseOpen(session string) {
	for _, id := range slices.Sorted(maps.Keys(t.Open)) {
		o := t.Open[id]
		if session != "" && o.Session != session {
			continue
		}
		delete(t.Open, id)
		if !o.Said {
			continue // it is empty, and dropped as such
		}
		t.Upsert(t.thread(o.Session).Conversation, event.Block{
			ID: id, Type: o.Type, Status: event.StatusError,
			Metadata: emit.Lost(),
		})
	}
}

// signal translates a record about the process.
func (t *translator) signal(what string) {
	switch {
	case emit.Fatal(what, "2", "15"):
		t.died(what)
	case strings.HasPrefix(what, "events"):
		t.streamBroke(what)
	default:
		t.LogProcess(what)
	}
}

// died closes what the end of the process leaves open.
func (t *translator) died(how string) {
	if t.headlessEnded(how) {
		return
	}
	midTurn := t.Turn.Active
	t.showHeld()
	t.loseOpen("")
	t.loseTools()
	t.cancelAsks("")
	for _, th := range t.Threads {
		th.close()
	}
	t.Turn, t.Opening, t.due = turn{}, opening{}, nil
	t.Died(how, midTurn)
}

// loseTools closes the calls whose process has ended. A message that was handed over
// while they ran may be stored, and before their results, though it was not seen: then
// whoever reads the database closes them.
func (t *translator) loseTools() {
	if slices.ContainsFunc(t.Turn.Waiting, func(h handed) bool { return h.Late }) {
		clear(t.Tools)
	}
	for _, id := range slices.Sorted(maps.Keys(t.Tools)) {
		t.toolLost(id, t.Tools[id])
	}
}

// handedOver records a prompt that was sent.
func (t *translator) handedOver(request string, body json.RawMessage) {
	var b struct {
		Parts []struct {
			ID string `json:"id"`
		} `json:"parts"`
	}
	_ = json.Unmarshal(body, &b) // the server rejects another shape
	h := handed{Request: request, Late: t.Turn.Active}
	if !h.Late { // the server has had the time of a turn to store the others
		t.Turn.Waiting = slices.DeleteFunc(t.Turn.Waiting, func(h handed) bool { return h.Doubted })
	}
	if len(b.Parts) > 0 {
		h.Part = b.Parts[0].ID
	}
	t.Turn.Waiting = append(t.Turn.Waiting, h)
	t.Turn.Active = true
}

// refused ends the turn of a prompt that the server refused. If that was for the turn
// before, that one ends as it would have without it.
func (t *translator) refused(request, why string) {
	at := slices.IndexFunc(t.Turn.Waiting, func(h handed) bool { return h.Request == request })
	if at < 0 {
		return // it was stored, so it was accepted
	}
	part := t.Turn.Waiting[at].Part
	t.Turn.Waiting = slices.Delete(t.Turn.Waiting, at, at+1)
	failure := event.ErrorInfo{Message: "opencode refused the prompt: " + why, Code: "refused"}
	id, _ := hostMessage(part)
	t.Emit(event.Main, event.Error{ErrorInfo: failure, MessageID: id})
	if th := t.thread(t.Main); !th.busy() && (!t.Turn.Running || t.Turn.Rested) && len(t.Turn.Waiting) == 0 {
		if !strings.HasPrefix(part, ofSteered) {
			t.Turn.Error = &failure
		}
		t.endTurn(th)
	}
}
