package opencode

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// The headless mode prints whole parts only, each when it ends: those of a step
// are held until the step ends, and emitted in the order in which they began.

// headless is what has arrived of a step.
type headless struct {
	// On: this stream is in the headless mode.
	On    bool              `json:"on,omitempty"`
	Parts []json.RawMessage `json:"parts,omitempty"`
	// Over: the last step ended the turn.
	Over bool `json:"over,omitempty"`
}

// UngivenPrefix is the prefix of the block id of a prompt without an id.
const UngivenPrefix = "prompt:"

// showHeld emits a prompt from the command line that is nowhere else.
func (t *translator) showHeld() {
	if t.Held == nil {
		return
	}
	t.Prompts++
	t.Upsert(event.Main, event.Block{
		ID: UngivenPrefix + strconv.Itoa(t.Prompts), Type: event.BlockUserMessage, Status: event.StatusComplete, Content: t.Held,
	})
	t.Held = nil
}

// headless translates a line of the headless mode.
func (t *translator) headless(l *line, raw json.RawMessage) {
	t.Headless.On, t.Turn.Active = true, true
	th := t.thread(l.SessionID)
	t.showHeld()
	switch {
	case l.Type == "error" && l.Error != nil:
		failure := event.ErrorInfo{Message: l.Error.text(), Code: l.Error.code()}
		t.Emit(event.Main, event.Error{ErrorInfo: failure})
		t.Turn.Error = &failure
	case l.Part == nil:
		t.Native(event.Main, event.DirOut, l.Type, raw)
	case l.Part.Type == "step-finish":
		t.emitStepParts(th)
		t.stepFinish(th, l.Part)
		t.Turn.StopReason = l.Part.Reason
		t.Headless.Over = l.Part.Reason != "tool-calls"
	default:
		t.Headless.Over = false
		t.Headless.Parts = append(t.Headless.Parts, append(json.RawMessage(nil), raw...))
	}
}

// emitStepParts emits a step's parts in order.
func (t *translator) emitStepParts(th *thread) {
	var marks []mark
	for _, raw := range t.Headless.Parts {
		l, err := decodeLine(raw)
		if err == nil && l.Part != nil {
			marks = append(marks, marksByTime(l.Part)...)
		}
	}
	t.Headless.Parts = nil
	slices.SortStableFunc(marks, byTime)
	m := &message{Role: "assistant"}
	for _, k := range marks {
		t.emitPhase(th, m, k)
	}
}

// headlessEnded ends the turn of a headless process, which ends with it; it
// reports whether there was one.
func (t *translator) headlessEnded(how string) bool {
	if !t.Headless.On {
		return false
	}
	over := t.Headless.Over || t.Turn.Error != nil || strings.HasPrefix(how, "exit 0")
	t.emitStepParts(t.thread(t.Main))
	t.Headless = headless{}
	if over {
		t.endTurn(t.thread(t.Main))
	}
	return over
}
