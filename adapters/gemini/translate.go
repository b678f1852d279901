package gemini

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/acp"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// translator is the protocol's, and a second one for the lines of the headless
// mode, which is never run here but may have been recorded.
type translator struct {
	*acp.Translator
	headless headless
}

// kept is the state of both.
type kept struct {
	ACP      json.RawMessage `json:"acp"`
	Headless *headlessState  `json:"headless,omitempty"`
}

func newTranslator(d *acp.Dialect, l adapters.Launch, raw json.RawMessage) (*translator, error) {
	var k kept
	if len(raw) > 0 && string(raw) != "null" {
		if err := json.Unmarshal(raw, &k); err != nil {
			return nil, fmt.Errorf("gemini: translator state: %w", err)
		}
	}
	tr, err := acp.New(d, l, k.ACP)
	if err != nil {
		return nil, err
	}
	t := &translator{Translator: tr, headless: headless{Emitter: emit.Emitter{Agent: Name}}}
	if k.Headless != nil {
		t.headless.headlessState = *k.Headless
	}
	return t, nil
}

// State returns what the next translator needs to continue.
func (t *translator) State() (json.RawMessage, error) {
	state, err := t.Translator.State()
	if err != nil {
		return nil, err
	}
	k := kept{ACP: state}
	if !t.headless.isZero() {
		k.Headless = &t.headless.headlessState
	}
	return nativejson.Encode(k), nil
}

// Step translates one record.
func (t *translator) Step(r traffic.Record) []event.Event {
	if r.Dir == event.DirErr || acp.IsLine(r.Line) {
		return t.Translator.Step(r)
	}
	if t.headless.step(r) {
		return t.headless.End(r)
	}
	return t.Translator.Step(r)
}
