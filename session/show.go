package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/stream"
)

// From says where Show reads a conversation.
type From string

const (
	// FromAuto reads the archive for a closed session and the stream for an
	// open one, whose archive may be some seconds behind.
	FromAuto    From = "auto"
	FromArchive From = "archive"
	FromStream  From = "stream"
)

// Conversation is a session as Show gives it.
type Conversation struct {
	SessionID string        `json:"sessionId"`
	Agent     string        `json:"agent"`
	Title     string        `json:"title"`
	State     reducer.State `json:"state"`
	// Asks are the permission requests without an answer yet, oldest first.
	// Only the stream has them.
	Asks []event.Event `json:"asks,omitempty"`
	// From is where it was read: archive or stream.
	From From `json:"from"`
	// Faults say what could not be read; what is good is in State all the
	// same.
	Faults []string `json:"faults,omitempty"`
}

// Show gives the whole conversation. It needs no sandbox and no worker.
// Errors: ErrNotFound, or the part that is not reachable.
func (c *Client) Show(ctx context.Context, id string, from From) (Conversation, error) {
	if err := ValidateID("id", id); err != nil {
		return Conversation{}, err
	}
	if c.o.Archive == nil {
		return Conversation{}, fmt.Errorf("show session %s: no archive is configured", id)
	}
	data, err := c.o.Archive.Session(ctx, id)
	if errors.Is(err, archive.ErrNotFound) {
		return Conversation{}, fmt.Errorf("session %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return Conversation{}, fmt.Errorf("show session %s: %w", id, err)
	}
	conv := Conversation{SessionID: id, Agent: data.Agent, Title: data.Title}
	if from == FromStream || from == FromAuto && c.stillOpen(ctx, id) {
		err := c.showStream(ctx, &conv)
		if err == nil || from == FromStream || !errors.Is(err, stream.ErrPurged) {
			return conv, err
		}
	}
	return conv, c.showArchive(ctx, &conv)
}

// stillOpen says whether the stream's last word on the session is not that it
// is closed; with no stream the archive is asked.
func (c *Client) stillOpen(ctx context.Context, id string) bool {
	if c.o.Stream == nil {
		return false
	}
	tail, err := c.o.Stream.Tail(ctx, id)
	if err != nil || tail.LastSeq == 0 {
		return false
	}
	for ev, err := range c.o.Stream.Read(ctx, id, tail.LastSeq-1, stream.ReadOptions{}) {
		_, closed := ev.Payload.(event.SessionClosed)
		return err == nil && !closed
	}
	return false
}

func (c *Client) showStream(ctx context.Context, conv *Conversation) error {
	b := reducer.NewBuilder(reducer.State{})
	for ev, err := range c.Events(ctx, conv.SessionID, 0, false) {
		if err != nil {
			return fmt.Errorf("show session %s: %w", conv.SessionID, err)
		}
		b.Add(ev)
		conv.noteAsk(ev)
	}
	conv.State, conv.From = b.State(), FromStream
	return nil
}

// noteAsk adds an open permission request, and drops what was answered.
func (conv *Conversation) noteAsk(ev event.Event) {
	switch p := ev.Payload.(type) {
	case event.PermissionRequested:
		conv.Asks = append(conv.Asks, ev)
	case event.PermissionResolved:
		conv.Asks = slices.DeleteFunc(conv.Asks, func(ask event.Event) bool {
			return ask.Payload.(event.PermissionRequested).RequestID == p.RequestID
		})
	}
}

func (c *Client) showArchive(ctx context.Context, conv *Conversation) error {
	agent, err := c.o.Agents.Get(conv.Agent)
	if err != nil {
		return fmt.Errorf("show session %s: %w", conv.SessionID, err)
	}
	b := reducer.NewBuilder(reducer.State{})
	for ev, err := range c.o.Archive.Events(ctx, conv.SessionID, agent.Parse) {
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("show session %s: %w", conv.SessionID, err)
			}
			conv.Faults = append(conv.Faults, err.Error())
			continue
		}
		b.Add(ev)
	}
	conv.State, conv.From = b.State(), FromArchive
	return nil
}
