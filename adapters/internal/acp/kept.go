package acp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// abilities are what an agent says of itself when it is opened.
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
	_ = json.Unmarshal(result, &r) // whatever fits of it
	return &abilities{Load: r.Can.Load, Resume: !isNull(r.Can.Session.Resume), Images: r.Can.Prompt.Image}
}

// settings are how a session stands when it is opened: its mode and its model,
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

// opens returns the method that continues an old session; "" if none can. Only where
// everything is kept is a session taken up without its history being sent
// again: nothing here needs it.
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

// replacing notes in a request which session the new one takes the place of, so
// that the records alone say so.
func (t *Translator) replacing(old string) map[string]any {
	params := t.newSession()
	if t.dialect.Kept && old != "" {
		params["_meta"] = map[string]any{replacesKey: old}
	}
	return params
}

// proved looks at the first answer in a session that was begun elsewhere. Some
// agents take up such a session and then can't work in it, as it belongs to the
// folder that it was begun in. It is given up then, as no other prompt would do
// better.
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

// replacedBy is the session that a request notes so; "" for none.
func replacedBy(meta json.RawMessage) string {
	var notes map[string]json.RawMessage
	if isNull(meta) || json.Unmarshal(meta, &notes) != nil {
		return ""
	}
	return nativejson.String(notes[replacesKey])
}

// replaced shows that a session was begun anew.
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

// turnID names a prompt: by the request's id if that is ours, which no other
// has, else by its number.
func (t *Translator) turnID(request string) string {
	if t.dialect.Kept && strings.Trim(request, "0123456789") != "" {
		return request
	}
	return TurnID(t.state.Session, t.Prompts)
}

// cutRun ends what was being said when a turn was cut short.
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
			t.settle(id, c, true, nativejson.Encode(t.dialect.rejected(c.Tool)))
			continue
		}
		delete(t.Tools, id)
		t.upsert(event.Block{ID: id, Type: event.BlockToolUse, Status: event.StatusError, Execution: event.ExecutionError})
	}
}

// unkept shows a block that the agent writes into no file. Then it is none of
// the agent's: the host keeps it.
func (t *Translator) unkept(b event.Block) {
	if t.dialect.Kept {
		t.upsert(b)
		return
	}
	b.Timestamp = t.Time
	t.UpsertServer(event.Main, b)
}

// spent takes the session's cost so far and emits what was added. What a
// session had cost before this translation began is not counted again.
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
