package opencode

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// Events that the server sent while its stream was broken are lost. Once it is
// open again the server is asked for its latest messages, and whether it is
// working at all.

const (
	resyncMessages = "resync-messages-"
	resyncStatus   = "resync-status-"
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
	switch {
	case strings.HasPrefix(id, resyncMessages):
		var list []messageAndParts
		if err := json.Unmarshal(body, &list); err != nil {
			t.Native(event.Main, event.DirOut, responseType, body)
			return true
		}
		for _, m := range list {
			t.resyncMessage(m)
		}
	case strings.HasPrefix(id, resyncStatus):
		var at map[string]status
		if err := json.Unmarshal(body, &at); err != nil {
			t.Native(event.Main, event.DirOut, responseType, body)
			return true
		}
		if s, busy := at[t.Main]; !busy || s.Type == "idle" {
			t.sessionIdle(t.Main)
		}
	default:
		return false
	}
	return true
}

func (t *translator) resyncMessage(m messageAndParts) {
	var i info
	if json.Unmarshal(m.Info, &i) != nil || i.ID == "" {
		t.Native(event.Main, event.DirOut, "message", m.Info)
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
