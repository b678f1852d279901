package event

import (
	"encoding/json"
	"fmt"
)

// OlderNames is a vocabulary that earlier systems of this kind used for block
// events. Types that it has no word for keep their own.
type OlderNames struct {
	start, delta, update, complete, metadata Type
}

// The older vocabularies by the names under which clients ask for them.
var olderNames = map[string]OlderNames{
	"v1": {"block_start", "text_delta", "block_update", "block_complete", "metadata_update"},
	"v2": {"session:block:start", "session:block:delta", "session:block:update", "session:block:complete", "metadata:update"},
}

// Older translates events into an older vocabulary. An upsert becomes the
// start of a block, an update of it or its completion, so it remembers which
// blocks have begun: use one for one reading of a session. Not safe for
// concurrent use.
type Older struct {
	names OlderNames
	begun map[[2]string]bool
}

// NewOlder gives a translator for v1 (block_start, text_delta, …) or v2
// (session:block:start, …).
func NewOlder(version string) (*Older, error) {
	names, known := olderNames[version]
	if !known {
		return nil, fmt.Errorf("names %q are unknown: want v1 or v2", version)
	}
	return &Older{names: names, begun: map[[2]string]bool{}}, nil
}

// The payloads of the older block events.
type (
	olderStart struct {
		Block Block `json:"block"`
	}
	olderUpdate struct {
		BlockID string `json:"blockId"`
		Updates Block  `json:"updates"`
	}
	olderComplete struct {
		BlockID string `json:"blockId"`
		Block   Block  `json:"block"`
	}
)

// Events gives an event in the older vocabulary: mostly one, and two for a
// block that is complete from the start. The context is kept.
func (o *Older) Events(ev Event) ([]Event, error) {
	switch p := ev.Payload.(type) {
	case BlockUpsert:
		return o.upsert(ev.Context, p.Block)
	case BlockDelta:
		return o.renamed(ev.Context, o.names.delta, p)
	case MetadataUpdate:
		return o.renamed(ev.Context, o.names.metadata, p)
	}
	return []Event{ev}, nil
}

func (o *Older) upsert(c Context, b Block) ([]Event, error) {
	key := [2]string{c.Conversation(), b.ID}
	fresh := !o.begun[key]
	o.begun[key] = true
	var out []Event
	if fresh {
		started, err := o.renamed(c, o.names.start, olderStart{b})
		if err != nil || b.Status != StatusComplete {
			return started, err
		}
		out = started
	}
	var last []Event
	var err error
	if b.Status == StatusComplete {
		last, err = o.renamed(c, o.names.complete, olderComplete{b.ID, b})
	} else {
		last, err = o.renamed(c, o.names.update, olderUpdate{b.ID, b})
	}
	return append(out, last...), err
}

func (o *Older) renamed(c Context, name Type, payload any) ([]Event, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("event: encode %s: %w", name, err)
	}
	return []Event{{Payload: Unknown{Name: name, Raw: raw}, Context: c}}, nil
}
