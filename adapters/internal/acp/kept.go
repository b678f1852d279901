package acp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// abilities are the capabilities that an agent reports at its opening.
type abilities struct {
	Load   bool `json:"load,omitempty"`
	Resume bool `json:"resume,omitempty"`
	Images bool `json:"images,omitempty"`
}

func abilitiesOf(result json.RawMessage) *abilities {
	var r struct {
		Can struct {
			Load   bool `json:"loadSession"`
			Prompt struct {
				Image bool `json:"image"`
			} `json:"promptCapabilities"`
			Session struct {
				Resume json.RawMessage `json:"resume"`
			} `json:"sessionCapabilities"`
		} `json:"agentCapabilities"`
	}
	_ = json.Unmarshal(result, &r) // the fields that fit
	return &abilities{Load: r.Can.Load, Resume: !isNull(r.Can.Session.Resume), Images: r.Can.Prompt.Image}
}

// settings are the state of a session at its opening: its mode and its model,
// which agents report in one of two ways.
type settings struct {
	Models struct {
		Current string `json:"currentModelId"`
	} `json:"models"`
	Modes struct {
		Current string `json:"currentModeId"`
	} `json:"modes"`
	Options []struct {
		ID       string `json:"id"`
		Category string `json:"category"`
		Value    any    `json:"currentValue"`
	} `json:"configOptions"`
}

// opens returns the method that continues an old session; "" if there is none.
// Only if everything is kept can a session be resumed without its history being
// sent again, which nothing here needs.
func (t *Translator) opens() string {
	switch {
	case !t.dialect.Kept:
		return "session/load"
	case t.Can.Resume:
		return "session/resume"
	case t.Can.Load:
		return "session/load"
	}
	return ""
}

// replacing records in a request which session the new one replaces, so that the
// records alone show it.
func (t *Translator) replacing(old string) map[string]any {
	params := t.newSession()
	if t.dialect.Kept && old != "" {
		params["_meta"] = map[string]any{replacesKey: old}
	}
	return params
}

// proved checks the first answer in a session that was started elsewhere. Some
// agents open such a session and then can't work in it, since it is tied to the
// folder in which it was started. It is given up then, as every other prompt
// would fail too.
func (t *Translator) proved(f *fault) {
	if f == nil {
		t.Proven = true
	}
	if f == nil || t.Proven || !t.Resumed || !t.dialect.Kept || len(t.Turns) > 0 || t.Phase != ready {
		return
	}
	t.sessionLost(f)
}

const replacesKey = "sojourn.replaces"

// noteOf returns what a request notes under a key; the zero value for nothing.
func noteOf[T any](meta json.RawMessage, key string) (note T) {
	var notes map[string]json.RawMessage
	if isNull(meta) || json.Unmarshal(meta, &notes) != nil || json.Unmarshal(notes[key], &note) != nil {
		return *new(T)
	}
	return note
}

// replaced emits that a session was replaced by a new one.
func (t *Translator) replaced(old string) {
	if old == "" || !t.dialect.Kept {
		return
	}
	text := fmt.Sprintf("%s could not go on with its session %s. A new one was begun, which does not remember what came before.",
		t.dialect.Agent, old)
	t.upsert(event.Block{
		ID: "replaced:" + old, Type: event.BlockSystem, Status: event.StatusComplete, Subtype: "session_lost", Message: &text,
	})
}

// turnID names a prompt: if the host keeps everything, by the request's id, if it is
// unique, else by its number.
func (t *Translator) turnID(request string) string {
	if t.dialect.Kept && unique(request) {
		return request
	}
	return TurnID(t.state.Session, t.Prompts)
}

// commandID names a prompt that the agent itself answers. It is in no file of the
// agent by which it could be counted, so its name is that of the request, if that is
// unique.
func (t *Translator) commandID(request string) string {
	if !unique(request) {
		request = strconv.Itoa(t.Commands)
	}
	return t.state.Session + ":command:" + request
}

// unique reports whether the host chose a request's id, which is no number then and
// of no other request of the session.
func unique(request string) bool { return strings.Trim(request, "0123456789") != "" }

// cutRun ends unfinished output when a turn was cut short.
func (t *Translator) cutRun() {
	if t.dialect.Kept {
		t.endRun()
	} else {
		t.loseRun()
	}
}

// cutCalls ends the calls without a result when a turn was cut short.
func (t *Translator) cutCalls() {
	if !t.dialect.Kept {
		t.loseCalls()
		return
	}
	for _, id := range slices.Sorted(maps.Keys(t.Asks)) {
		t.resolve(id, "cancelled")
	}
	for _, id := range slices.Sorted(maps.Keys(t.Tools)) {
		c := t.Tools[id]
		if c.Refused {
			t.emitResult(id, c, true, nativejson.Encode(t.dialect.rejected(c.Tool)))
			continue
		}
		delete(t.Tools, id)
		t.upsert(event.Block{ID: id, Type: event.BlockToolUse, Status: event.StatusError, Execution: event.ExecutionError})
	}
}

// unkept emits a block that the agent writes into no file. It has the source
// "server": the host keeps it.
func (t *Translator) unkept(b event.Block) {
	if t.dialect.Kept {
		t.upsert(b)
		return
	}
	b.Timestamp = t.Time
	t.UpsertServer(event.Main, b)
}

// spent takes the session's cost so far and emits the increment. What a session
// had cost before this translation began is not counted again.
func (t *Translator) spent(cost *price) {
	if cost == nil || cost.Currency != "USD" {
		return
	}
	more := cost.Amount
	switch {
	case t.Cost != nil && *t.Cost <= cost.Amount:
		more -= *t.Cost
	case t.Cost == nil && t.Resumed:
		more = 0
	}
	now := cost.Amount
	t.Cost = &now
	t.emit(event.MetadataUpdate{CostUSD: &more})
}

// price is what a session has cost so far.
type price struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}
