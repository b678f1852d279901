package emit

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// LoadState decodes a translator's state into a fresh one; for an empty or null
// one nothing changes. version is the state's own, which must be want.
func LoadState(agent string, raw json.RawMessage, into any, version *int, want int) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: translator state: %w", agent, err)
	}
	if *version != want {
		return fmt.Errorf("%s: translator state: version %d, want %d", agent, *version, want)
	}
	return nil
}

// Emitter collects an agent's output as events. Not safe for concurrent use.
type Emitter struct {
	// Agent is the adapter's name.
	Agent string
	// Time stamps the events.
	Time time.Time
	// Events were emitted and not taken yet.
	Events []event.Event
}

// Begin drops the events of the previous record and takes the time of this one.
func (e *Emitter) Begin(r traffic.Record) { e.Events, e.Time = nil, r.TS }

// End returns the events of a record. If its line was cut, the last one is an
// error event with the line's length and hash.
func (e *Emitter) End(r traffic.Record) []event.Event {
	if r.Cut != nil {
		e.Emit(event.Main, event.Error{ErrorInfo: event.ErrorInfo{
			Message: fmt.Sprintf("%s: a line (%s) is over the limit: %d bytes were kept of it (%s)", e.Agent, r.Dir, len(r.Line), r.Cut),
			Code:    "cut",
		}})
	}
	return e.Events
}

// Emit adds an event.
func (e *Emitter) Emit(conversation string, p event.Payload) {
	e.Events = append(e.Events, event.Event{Payload: p, Context: event.Context{
		ConversationID: conversation, Source: event.SourceRunner, Timestamp: e.Time,
	}})
}

// Upsert adds an upsert of a block.
func (e *Emitter) Upsert(conversation string, b event.Block) {
	e.Emit(conversation, event.BlockUpsert{Block: b})
}

// UpsertStamped is [Emitter.Upsert] with the emitter's time as the block's.
func (e *Emitter) UpsertStamped(conversation string, b event.Block) {
	b.Timestamp = e.Time
	e.Upsert(conversation, b)
}

// UpsertServer adds an upsert of a block that the agent stores nowhere, so that
// Sojourn keeps it.
func (e *Emitter) UpsertServer(conversation string, b event.Block) {
	b.Source = event.SourceServer
	e.Upsert(conversation, b)
	e.Events[len(e.Events)-1].Context.Source = event.SourceServer
}

// Place has Sojourn keep the place of a new block, since the agent's transcripts may have
// another one.
func (e *Emitter) Place(conversation, block string) {
	e.Emit(conversation, event.BlockPlaced{BlockID: block})
	e.Events[len(e.Events)-1].Context.Source = event.SourceServer
}

// System adds a complete block of the type system.
func (e *Emitter) System(conversation, id, subtype, text string) {
	e.Upsert(conversation, event.Block{
		ID: id, Type: event.BlockSystem, Status: event.StatusComplete, Subtype: subtype, Message: &text,
	})
}

// Native keeps what this version does not know.
func (e *Emitter) Native(conversation string, dir event.Dir, kind string, raw []byte) {
	e.Emit(conversation, event.Native{Agent: e.Agent, Dir: dir, Kind: kind, Raw: raw})
}

// Malformed keeps a line that could not be read. line is its text as JSON.
func (e *Emitter) Malformed(dir event.Dir, err error, line json.RawMessage) {
	e.Emit(event.Main, event.Error{ErrorInfo: event.ErrorInfo{
		Message: fmt.Sprintf("%s: malformed line (%s): %v", e.Agent, dir, err), Code: "malformed", Data: line,
	}})
}

// Yielder yields a parser's events to the caller that ranges over it. Not safe
// for concurrent use.
type Yielder struct {
	// Yield is the range's function.
	Yield func(event.Event, error) bool
	// Stopped is set when no more events are wanted.
	Stopped bool
}

// Flush yields and drops the events of an emitter.
func (y *Yielder) Flush(e *Emitter) {
	for _, ev := range e.Events {
		if y.Stopped || !y.Yield(ev, nil) {
			y.Stopped = true
			break
		}
	}
	e.Events = e.Events[:0]
}

// To returns a Yielder for a function that takes all events and no errors.
func To(take func(event.Event)) Yielder {
	return Yielder{Yield: func(ev event.Event, _ error) bool {
		take(ev)
		return true
	}}
}

// Fail yields an error after the events of an emitter; reading continues.
func (y *Yielder) Fail(e *Emitter, err error) {
	y.Flush(e)
	y.Fault(err)
}

// Fault yields an error; reading continues behind it.
func (y *Yielder) Fault(err error) {
	if !y.Stopped && !y.Yield(event.Event{}, err) {
		y.Stopped = true
	}
}
