// Package older translates events into the vocabularies that earlier systems of
// this kind used for block events, for clients that still read those.
package older

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-run/sojourn/event"
)

// names is a vocabulary. Types that it does not have keep their own names.
type names struct {
	start, delta, update, complete, metadata event.Type
}

// vocabularies are the older ones by the names under which clients ask for them.
var vocabularies = map[string]names{
	"v1": {"block_start", "text_delta", "block_update", "block_complete", "metadata_update"},
	"v2": {"session:block:start", "session:block:delta", "session:block:update", "session:block:complete", "metadata:update"},
}

// Translator translates the events of one reading of a session. An upsert
// becomes the start of a block, an update of it or its completion, so it remembers
// which blocks have started. Not safe for concurrent use.
type Translator struct {
	names names
	begun map[[2]string]bool
}

// New returns a translator into v1 (block_start, text_delta, …) or v2
// (session:block:start, …). Another version is an error.
func New(version string) (*Translator, error) {
	names, known := vocabularies[version]
	if !known {
		return nil, fmt.Errorf("names %q are unknown: want v1 or v2", version)
	}
	return &Translator{names: names, begun: map[[2]string]bool{}}, nil
}

// The payloads of the older block events.
type (
	start struct {
		Block event.Block `json:"block"`
	}
	update struct {
		BlockID string      `json:"blockId"`
		Updates event.Block `json:"updates"`
	}
	complete struct {
		BlockID string      `json:"blockId"`
		Block   event.Block `json:"block"`
	}
)

// Events returns an event in the older vocabulary: mostly one, and two for a
// block that is complete from the start. The context is kept.
func (o *Translator) Events(ev event.Event) ([]event.Event, error) {
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		return o.upsert(ev.Context, p.Block)
	case event.BlockDelta:
		return o.renamed(ev.Context, o.names.delta, p)
	case event.MetadataUpdate:
		return o.renamed(ev.Context, o.names.metadata, p)
	}
	return []event.Event{ev}, nil
}

func (o *Translator) upsert(c event.Context, b event.Block) ([]event.Event, error) {
	key := [2]string{c.Conversation(), b.ID}
	fresh := !o.begun[key]
	o.begun[key] = true
	var out []event.Event
	if fresh {
		started, err := o.renamed(c, o.names.start, start{b})
		if err != nil || b.Status != event.StatusComplete {
			return started, err
		}
		out = started
	}
	var last []event.Event
	var err error
	if b.Status == event.StatusComplete {
		last, err = o.renamed(c, o.names.complete, complete{b.ID, b})
	} else {
		last, err = o.renamed(c, o.names.update, update{b.ID, b})
	}
	return append(out, last...), err
}

func (o *Translator) renamed(c event.Context, name event.Type, payload any) ([]event.Event, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("event: encode %s: %w", name, err)
	}
	return []event.Event{{Payload: event.Unknown{Name: name, Raw: raw}, Context: c}}, nil
}
