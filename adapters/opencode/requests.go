package opencode

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// asked translates what was sent to the agent.
func (t *translator) asked(l *line, raw json.RawMessage) error {
	switch {
	case l.Type == adapters.PromptType:
		text := nativejson.String(l.PromptText)
		t.Held = &text
		t.Turn.Active = true
	case l.isRequest():
		t.sent(l.ID, l.Method, l.Path, l.Body)
	case l.isRecorded():
		t.recorded(l)
	default:
		t.Native(event.Main, event.DirIn, l.Type, raw)
	}
	return nil
}

// recorded translates a request of a recording, which has its response.
// Recordings have requests behind the agent's output during them, so a prompt
// among them is not new.
func (t *translator) recorded(l *line) {
	verb, _ := route(l.RecMethod, l.RecPath)
	if verb == "prompt_async" || verb == "message" || verb == "open" {
		return
	}
	t.sent(l.ID, l.RecMethod, l.RecPath, l.Body)
}

func (t *translator) sent(id, method, path string, body json.RawMessage) {
	verb, subject := route(method, path)
	switch verb {
	case "open":
		t.Opening = opening{Request: id, Asks: strings.HasSuffix(path, asking)}
	case "prompt_async":
		if t.Main == "" {
			t.thread(subject)
		}
		if subject == t.Main {
			t.handedOver(id, body)
		}
	case "abort":
		own := strings.HasPrefix(id, gaveUp) || strings.HasPrefix(id, again)
		if subject == t.Main && !own && t.Turn.Active {
			t.Turn.Interrupted = true
			th := t.thread(subject)
			t.Turn.Early = !th.busy() && !t.finished(th)
		}
	case "permission.reply", "question.reply":
		t.replied(subject, body)
		if a := t.Asks[subject]; a != nil {
			a.Denied = a.Denied || strings.HasSuffix(path, refusal)
		}
	}
}

// answered translates the server's response to a request of the host.
func (t *translator) answered(l *line) {
	why := ""
	switch {
	case l.Error != nil:
		why = l.Error.text()
	case l.Status >= 400:
		why = fmt.Sprintf("status %d: %s", l.Status, reason(l.Body))
	}
	if why != "" {
		t.Emit(event.Main, event.Log{Level: "warn", Message: fmt.Sprintf("opencode: request %s failed: %s", l.ID, why), Data: l.Body})
	}
	if l.Ended {
		return // what the request was about ends with the process
	}
	t.opens(l, why)
	if why == "" {
		t.resynced(l.ID, l.Body)
		return
	}
	t.refused(l.ID, why)
}

// reason returns the error in a response.
func reason(body json.RawMessage) string {
	var e apiError
	if json.Unmarshal(body, &e) == nil && e.text() != "" {
		return e.text()
	}
	if s := nativejson.String(body); s != "" {
		return s
	}
	return string(body)
}
