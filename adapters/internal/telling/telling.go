package telling

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-run/sojourn/event"
)

// Carried reads a translator's state into one that is fresh; an empty or null
// one leaves it so. version is the state's own, which must be want.
func Carried(agent string, raw json.RawMessage, into any, version *int, want int) error {
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

// Malformed is the event that keeps a line that could not be read. line is its
// text as JSON.
func Malformed(agent string, dir event.Dir, err error, line json.RawMessage) event.Error {
	return event.Error{ErrorInfo: event.ErrorInfo{
		Message: fmt.Sprintf("%s: malformed line (%s): %v", agent, dir, err), Code: "malformed", Data: line,
	}}
}

// Cut adds to the events of a record that its line was cut, if it was: an error
// event has the line's length and hash.
func Cut(agent string, r event.Record, events []event.Event) []event.Event {
	if r.Cut == nil {
		return events
	}
	return append(events, event.Event{
		Payload: event.Error{ErrorInfo: event.ErrorInfo{
			Message: fmt.Sprintf("%s: a line (%s) is over the limit: %d bytes were kept of it (%s)", agent, r.Dir, len(r.Line), r.Cut),
			Code:    "cut",
		}},
		Context: event.Context{ConversationID: event.Main, Source: event.SourceRunner, Timestamp: r.TS},
	})
}

// Feed hands what a parser says to whoever ranges over it. Not safe for
// concurrent use.
type Feed struct {
	// Yield is the range's.
	Yield func(event.Event, error) bool
	// Stopped: nobody wants more.
	Stopped bool
}

// Hand hands events on, and gives an empty slice for the next.
func (f *Feed) Hand(events []event.Event) []event.Event {
	for _, e := range events {
		if f.Stopped || !f.Yield(e, nil) {
			f.Stopped = true
			break
		}
	}
	return events[:0]
}

// Fault hands an error on; the reading goes on behind it.
func (f *Feed) Fault(err error) {
	if !f.Stopped && !f.Yield(event.Event{}, err) {
		f.Stopped = true
	}
}
