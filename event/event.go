package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// Main is the conversation id of the session's own conversation. A subagent's
// conversation has the tool-use id that started it.
const Main = "main"

// Source is who made an event.
type Source string

// The sources of events.
const (
	// SourceRunner marks the agent's own output, translated.
	SourceRunner Source = "runner"
	// SourceServer marks server events: what Sojourn added, such as failures, limits
	// and notices. Parsing native files alone never makes them.
	SourceServer Source = "server"
)

// Context locates an event. It is enriched on the way to the subscriber; the
// payload never changes.
type Context struct {
	SessionID      string `json:"sessionId,omitempty"`
	ConversationID string `json:"conversationId,omitempty"`
	Source         Source `json:"source,omitempty"`
	// Timestamp is the stamp of the native record behind the event, or, for server
	// events, the time of writing.
	Timestamp time.Time `json:"timestamp,omitzero"`
	// Seq is dense per session and starts at 1; 0 means not yet appended.
	Seq uint64 `json:"seq,omitempty"`
}

// Conversation returns the conversation id, [Main] if it is empty.
func (c Context) Conversation() string {
	if c.ConversationID == "" {
		return Main
	}
	return c.ConversationID
}

// Event is one thing that happened in a session.
type Event struct {
	Payload Payload
	Context Context
}

// FromServer returns a server event in the main conversation.
func FromServer(p Payload, at time.Time) Event {
	return Event{Payload: p, Context: Context{ConversationID: Main, Source: SourceServer, Timestamp: at.UTC()}}
}

// Type returns the event's wire name, or "" for an event without payload.
func (e Event) Type() Type { return TypeOf(e.Payload) }

// MarshalJSON writes the wire form. It fails on an event without payload and on a
// stamp that RFC 3339 cannot represent.
func (e Event) MarshalJSON() ([]byte, error) { return AppendEvent(nil, e) }

// UnmarshalJSON reads the wire form. A type that is not known becomes
// [Unknown]; a known type with a payload of the wrong shape is an error.
func (e *Event) UnmarshalJSON(data []byte) error {
	var w struct {
		Type    Type            `json:"type"`
		Payload json.RawMessage `json:"payload"`
		Context Context         `json:"context"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("event: decode: %w", err)
	}
	if w.Type == "" {
		return fmt.Errorf("event: decode: field \"type\" is missing")
	}
	payload, err := decodePayload(w.Type, w.Payload)
	if err != nil {
		return fmt.Errorf("event: decode %s: %w", w.Type, err)
	}
	*e = Event{Payload: payload, Context: w.Context}
	return nil
}
