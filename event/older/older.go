// Package older translates events into the vocabularies that earlier systems of
// this kind used, for clients that still read those.
package older

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-run/sojourn/event"
)

// names is a vocabulary. Types that it does not have keep their own names.
type names struct {
	start, delta, update, complete, metadata event.Type
	// placed means that what is said of blocks has the session and the conversation in it.
	placed bool
	// status is what runs for the session, file a file that was written, created a new session,
	// and changed that lists of sessions have to be read again.
	status, file, created, changed event.Type
}

// vocabularies are the older ones by the names under which clients ask for them.
var vocabularies = map[string]names{
	"v1": {start: "block_start", delta: "text_delta", update: "block_update", complete: "block_complete", metadata: "metadata_update"},
	"v2": {
		start: "session:block:start", delta: "session:block:delta", update: "session:block:update", complete: "session:block:complete",
		metadata: "metadata:update", placed: true,
		status: "session:status", file: "session:file:modified", created: "session:created", changed: "sessions:changed",
	},
}

// Translator translates the events of one reading of a session. An upsert
// becomes the start of a block, an update of it or its completion, so it remembers
// which blocks have started. Not safe for concurrent use.
type Translator struct {
	names names
	begun map[[2]string]bool
	// third is set for v3.
	third *third
}

// New returns a translator into v1 (block_start, text_delta, …), v2 (session:block:start,
// session:status, …) or v3 (content_start, tick_start, execution_start, …). Another version is an
// error.
func New(version string) (*Translator, error) {
	if version == "v3" {
		return &Translator{third: &third{blocks: map[[2]string]*part{}, asked: map[string]string{}}}, nil
	}
	names, known := vocabularies[version]
	if !known {
		return nil, fmt.Errorf("names %q are unknown: want v1, v2 or v3", version)
	}
	return &Translator{names: names, begun: map[[2]string]bool{}}, nil
}

// The payloads of the older events.
type (
	place struct {
		SessionID      string `json:"sessionId"`
		ConversationID string `json:"conversationId"`
	}
	start struct {
		*place
		Block event.Block `json:"block"`
	}
	delta struct {
		*place
		event.BlockDelta
	}
	update struct {
		*place
		BlockID string      `json:"blockId"`
		Updates event.Block `json:"updates"`
	}
	complete struct {
		*place
		BlockID string      `json:"blockId"`
		Block   event.Block `json:"block"`
	}
	status struct {
		SessionID string  `json:"sessionId"`
		Runtime   runtime `json:"runtime"`
	}
	runtime struct {
		IsLoaded bool     `json:"isLoaded"`
		Sandbox  *sandbox `json:"sandbox"`
	}
	// sandbox has the time of the last check in milliseconds since 1970; 0 for none.
	sandbox struct {
		SandboxID       string `json:"sandboxId"`
		Status          string `json:"status"`
		RestartCount    int    `json:"restartCount"`
		LastHealthCheck int64  `json:"lastHealthCheck"`
	}
	file struct {
		SessionID string     `json:"sessionId"`
		File      event.File `json:"file"`
	}
	created struct {
		SessionID string `json:"sessionId"`
		event.SessionInitialized
	}
)

// Events returns an event in the older vocabulary: mostly one, and two for a
// block that is complete from the start and for what changes lists of sessions; in v3 any number.
// The context is kept.
func (o *Translator) Events(ev event.Event) ([]event.Event, error) {
	if o.third != nil {
		return o.third.events(ev)
	}
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		return o.upsert(ev.Context, p.Block)
	case event.BlockDelta:
		return o.renamed(ev.Context, o.names.delta, delta{o.place(ev.Context), p})
	case event.MetadataUpdate:
		return o.renamed(ev.Context, o.names.metadata, p)
	}
	if o.names.status == "" {
		return []event.Event{ev}, nil
	}
	return o.ofSession(ev)
}

// ofSession translates what is about a session and its files. The vocabulary has one name
// for a file that was written, whether or not there was one before, and none for one that
// was deleted.
func (o *Translator) ofSession(ev event.Event) ([]event.Event, error) {
	id := ev.Context.SessionID
	switch p := ev.Payload.(type) {
	case event.Status:
		if p.Runtime != nil {
			return o.renamed(ev.Context, o.names.status, status{id, runtimeOf(*p.Runtime)})
		}
	case event.FileCreated:
		return o.renamed(ev.Context, o.names.file, file{id, p.File})
	case event.FileModified:
		return o.renamed(ev.Context, o.names.file, file{id, p.File})
	case event.SessionInitialized:
		if p.Reopened {
			return o.changing(ev.Context, ev)
		}
		begun, err := o.renamed(ev.Context, o.names.created, created{id, p})
		if err != nil {
			return nil, err
		}
		return o.changing(ev.Context, begun...)
	case event.SessionClosed:
		return o.changing(ev.Context, ev)
	case event.OptionsUpdate:
		if p.Title != nil {
			return o.changing(ev.Context, ev)
		}
	}
	return []event.Event{ev}, nil
}

// changing returns events that change lists of sessions, and the one that says so.
func (o *Translator) changing(c event.Context, events ...event.Event) ([]event.Event, error) {
	changed, err := o.renamed(c, o.names.changed, struct{}{})
	return append(events, changed...), err
}

func (o *Translator) place(c event.Context) *place {
	if !o.names.placed {
		return nil
	}
	return &place{c.SessionID, c.Conversation()}
}

func runtimeOf(r event.Runtime) runtime {
	out := runtime{IsLoaded: r.IsLoaded}
	if s := r.Sandbox; s != nil {
		out.Sandbox = &sandbox{SandboxID: s.SandboxID, Status: s.Status, RestartCount: s.RestartCount}
		if !s.LastHealthCheck.IsZero() {
			out.Sandbox.LastHealthCheck = s.LastHealthCheck.UnixMilli()
		}
	}
	return out
}

func (o *Translator) upsert(c event.Context, b event.Block) ([]event.Event, error) {
	key := [2]string{c.Conversation(), b.ID}
	fresh := !o.begun[key]
	o.begun[key] = true
	var out []event.Event
	if fresh {
		started, err := o.renamed(c, o.names.start, start{o.place(c), b})
		if err != nil || b.Status != event.StatusComplete {
			return started, err
		}
		out = started
	}
	var last []event.Event
	var err error
	if b.Status == event.StatusComplete {
		last, err = o.renamed(c, o.names.complete, complete{o.place(c), b.ID, b})
	} else {
		last, err = o.renamed(c, o.names.update, update{o.place(c), b.ID, b})
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
