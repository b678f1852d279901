package opencode

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// Events that the server sent while its stream was broken are lost. Once it is
// open again the server is asked for its latest messages, for what it waits for, and
// whether it is working at all.

const (
	resyncMessages    = "resync-messages-"
	resyncPermissions = "resync-permissions-"
	resyncQuestions   = "resync-questions-"
	resyncStatus      = "resync-status-"
	// resyncDepth is how many messages are requested.
	resyncDepth = 30
)

// streamBroke is called when the stream of events is lost or open again.
func (t *translator) streamBroke(what string) {
	t.Emit(event.Main, event.Log{Level: "warn", Message: "process: " + what})
	if what != "events again" || t.Main == "" {
		return
	}
	t.Resyncs++
	t.get(fmt.Sprint(resyncMessages, t.Resyncs), fmt.Sprintf("/session/%s/message?limit=%d", t.Main, resyncDepth))
	t.get(fmt.Sprint(resyncPermissions, t.Resyncs), "/permission")
	t.get(fmt.Sprint(resyncQuestions, t.Resyncs), "/question")
	t.get(fmt.Sprint(resyncStatus, t.Resyncs), "/session/status")
}

func (t *translator) get(id, path string) {
	m, err := request(id, "GET", path, nil)
	if err == nil { // texts can be encoded
		t.due = append(t.due, m...)
	}
}

// resynced handles the answer to one of these requests, and reports whether it
// was one.
func (t *translator) resynced(id string, body json.RawMessage) bool {
	var err error
	switch {
	case strings.HasPrefix(id, resyncMessages):
		var list []messageAndParts
		if err = json.Unmarshal(body, &list); err == nil {
			t.resyncMessages(list)
		}
	case strings.HasPrefix(id, resyncPermissions):
		err = t.resyncAsks("permission.asked", body)
	case strings.HasPrefix(id, resyncQuestions):
		err = t.resyncAsks("question.asked", body)
	case strings.HasPrefix(id, resyncStatus):
		var at map[string]status
		err = json.Unmarshal(body, &at)
		if s, busy := at[t.Main]; err == nil && (!busy || s.Type == "idle") {
			t.sessionIdle(t.Main)
		}
	default:
		return false
	}
	if err != nil {
		t.Native(event.Main, event.DirOut, responseType, body)
	}
	return true
}

// resyncAsks emits the open requests that are not known, of subagents too, and what became of
// those that were answered and are open no more.
func (t *translator) resyncAsks(kind string, body json.RawMessage) error {
	var open []properties
	if err := json.Unmarshal(body, &open); err != nil {
		return err
	}
	for _, p := range open {
		if p.ID != "" {
			t.asks(kind, &p)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.Asks)) {
		a := t.Asks[id]
		listed := slices.ContainsFunc(open, func(p properties) bool { return p.ID == id })
		if a.Answered && !listed && a.Question == (kind == "question.asked") {
			t.resolve(id, "allow", "") // or what the answer was
		}
	}
	return nil
}

// resyncMessages emits what has changed: from the first answer that was not over, or else
// from the last message that is known, on. What is before it was seen, also where it is
// remembered no more.
func (t *translator) resyncMessages(list []messageAndParts) {
	th, from := t.thread(t.Main), 0
	for n, listed := range list {
		var i info
		_ = json.Unmarshal(listed.Info, &i) // the message of another shape is not known
		m := th.find(i.ID)
		if m == nil {
			continue
		}
		from = n
		if m.Role == "assistant" && !m.Done {
			break
		}
	}
	for _, listed := range list[from:] {
		t.resyncMessage(th, listed)
	}
}

func (t *translator) resyncMessage(th *thread, m messageAndParts) {
	var i info
	if json.Unmarshal(m.Info, &i) != nil || i.ID == "" {
		t.Native(event.Main, event.DirOut, "message", m.Info)
		return
	}
	if known := th.find(i.ID); known != nil && known.Done {
		return
	}
	_ = t.messageUpdated(&properties{SessionID: i.SessionID, Info: &i}) // it has an id
	for _, raw := range m.Parts {
		var p part
		if json.Unmarshal(raw, &p) != nil {
			t.Native(event.Main, event.DirOut, "part", raw)
			continue
		}
		if i.Role != "user" && (p.Type == "text" || p.Type == "reasoning") && p.Time.End == 0 {
			continue // a text in progress is not in it
		}
		_ = t.partUpdated(&properties{SessionID: i.SessionID, Part: &p}, raw) // without its ids it is ignored
	}
}
