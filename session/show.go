package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/recent"
	"github.com/sojourn-run/sojourn/stream"
)

// From is where Show reads a conversation from.
type From string

const (
	// FromAuto reads the archive for a closed session and the stream for an
	// open one, whose archive may be some seconds behind.
	FromAuto    From = "auto"
	FromArchive From = "archive"
	FromStream  From = "stream"
)

// Conversation is a session as Show returns it.
type Conversation struct {
	SessionID string        `json:"sessionId"`
	Agent     string        `json:"agent"`
	Title     string        `json:"title"`
	State     reducer.State `json:"state"`
	// CreatedAt, UpdatedAt and Metadata are the archive's, zero without it.
	CreatedAt time.Time                  `json:"createdAt,omitzero"`
	UpdatedAt time.Time                  `json:"updatedAt,omitzero"`
	Metadata  map[string]json.RawMessage `json:"metadata,omitempty"`
	// LastSeq is the number of the last event that it has: Events behind it continue it.
	LastSeq uint64 `json:"lastSeq,omitempty"`
	// Asks are the unanswered permission requests, oldest first. Only the stream has
	// them, and not those that are past its retention.
	Asks []event.Event `json:"asks,omitempty"`
	// From is where it was read: archive or stream.
	From From `json:"from"`
	// Faults describe what could not be read; State has the rest.
	Faults []string `json:"faults,omitempty"`
}

// archivePatience bounds the wait for an archive that is not required: the stream
// has the conversation of an open session.
const archivePatience = 5 * time.Second

// ErrNoArchive: the archive is needed, and none is configured.
var ErrNoArchive = errors.New("no archive is configured")

// Show returns the whole conversation. It needs no sandbox and no worker, and for
// an open session no archive: what only the archive has is then in Faults.
// Errors: ErrNotFound, ErrNoArchive, ErrNotBegun with FromArchive, or the part that is not
// reachable.
func (c *Client) Show(ctx context.Context, id string, from From) (Conversation, error) {
	if err := ValidateID("id", id); err != nil {
		return Conversation{}, err
	}
	data, missing := c.record(ctx, id, from)
	switch {
	case missing != nil && from == FromArchive:
		return Conversation{}, missing
	case errors.Is(missing, ErrNotFound):
		return c.showUnbegun(ctx, id, missing)
	}
	conv := Conversation{
		SessionID: id, Agent: data.Agent, Title: data.Title,
		CreatedAt: data.CreatedAt, UpdatedAt: data.UpdatedAt, Metadata: data.Metadata,
	}
	if from == FromStream || from == FromAuto && c.stillOpen(ctx, id) {
		if whole, err := c.showOpen(ctx, &conv, from, missing); whole || err != nil {
			return conv, err
		}
	}
	if missing != nil {
		return Conversation{}, missing
	}
	if rec, err := RecordOf(data); err == nil && conv.LastSeq == 0 {
		conv.LastSeq = rec.LastSeq
	}
	return conv, c.showArchive(ctx, &conv)
}

// showUnbegun shows an open session that no worker has begun yet, which Temporal alone has; for
// any other it returns the error missing.
func (c *Client) showUnbegun(ctx context.Context, id string, missing error) (Conversation, error) {
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	if known, err := c.lookup(ctx, id); err != nil || !known.open {
		return Conversation{}, missing
	}
	d, err := c.o.Temporal.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return Conversation{}, c.unavailable(ctx, "show session "+id, err)
	}
	s, err := summary(d)
	return Conversation{
		SessionID: id, Agent: s.Agent, Title: s.Title, CreatedAt: s.CreatedAt, State: recent.New(c.o.MaxTimelineEntries).State(), From: FromStream,
	}, err
}

// showOpen reads what the stream has, and reports whether that is all there is to read. Of a
// session whose first events are past retention the archive has the conversation, and the
// stream the open requests; missing is why there is no archive.
func (c *Client) showOpen(ctx context.Context, conv *Conversation, from From, missing error) (whole bool, err error) {
	err = c.showStream(ctx, conv, 0)
	gap, isGap := errors.AsType[*stream.GapError](err)
	switch {
	case err == nil || from == FromStream || !isGap || !gap.Purged:
		return true, err
	case missing != nil && gap.Have > 0:
		conv.Faults = append(conv.Faults, fmt.Sprintf("events 1 to %d are past the stream's retention, and the archive does not answer: %v", gap.Have-1, missing))
		return true, c.showStream(ctx, conv, gap.Have-1)
	}
	if err := c.showRest(ctx, conv); err != nil && !errors.Is(err, stream.ErrPurged) {
		conv.Faults = append(conv.Faults, err.Error())
	}
	return false, nil
}

// showRest reads the rest of a stream whose beginning is in the archive: the open requests, and
// the number of the event up to which the archive has all.
func (c *Client) showRest(ctx context.Context, conv *Conversation) error {
	for ev, err := range c.left(ctx, conv.SessionID, 0, false) {
		if err != nil {
			return fmt.Errorf("rest of session %s: %w", conv.SessionID, err)
		}
		conv.Asks = OpenRequests(conv.Asks, ev)
		switch _, archived := ev.Payload.(event.TranscriptChanged); {
		case archived:
			conv.LastSeq = ev.Context.Seq
		case conv.LastSeq == 0:
			conv.LastSeq = ev.Context.Seq - 1
		}
	}
	return nil
}

// record reads what the archive has of a session. It waits for the archive only if nothing
// else can serve.
func (c *Client) record(ctx context.Context, id string, from From) (archive.ListData, error) {
	if c.o.Archive == nil {
		return archive.ListData{}, fmt.Errorf("show session %s: %w", id, ErrNoArchive)
	}
	if from != FromArchive && c.o.Stream != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, archivePatience)
		defer cancel()
	}
	data, err := c.o.Archive.Session(ctx, id)
	switch {
	case errors.Is(err, archive.ErrNotFound):
		return data, c.unstored(ctx, id, from)
	case err != nil:
		return data, fmt.Errorf("show session %s: %w", id, err)
	}
	return data, nil
}

// unstored returns the error for a session of which the archive has nothing.
func (c *Client) unstored(ctx context.Context, id string, from From) error {
	missing := fmt.Errorf("session %s: %w", id, ErrNotFound)
	if from != FromArchive {
		return missing // Show asks Temporal itself
	}
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	if known, err := c.lookup(ctx, id); err != nil || !known.open {
		return missing
	}
	return fmt.Errorf("session %s: %w", id, ErrNotBegun)
}

// stillOpen reports whether the stream's last event is not session:closed;
// without a stream it uses the archive.
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

// showStream folds the events after a number.
func (c *Client) showStream(ctx context.Context, conv *Conversation, after uint64) error {
	b := recent.New(c.o.MaxTimelineEntries)
	for ev, err := range c.Events(ctx, conv.SessionID, after, false) {
		if err != nil {
			return fmt.Errorf("show session %s: %w", conv.SessionID, err)
		}
		b.Add(ev)
		conv.LastSeq = ev.Context.Seq
		conv.Asks = OpenRequests(conv.Asks, ev)
		conv.noteOptions(ev)
	}
	conv.State, conv.From = b.State(), FromStream
	return nil
}

// noteOptions takes from events what the archive's record would otherwise hold.
func (conv *Conversation) noteOptions(ev event.Event) {
	switch p := ev.Payload.(type) {
	case event.SessionInitialized:
		conv.Agent, conv.Title = cmp.Or(conv.Agent, p.Agent), cmp.Or(conv.Title, p.Title)
	case event.OptionsUpdate:
		if p.Title != nil {
			conv.Title = *p.Title
		}
	}
}

// OpenRequests returns the open permission requests after ev; see [permission.StillOpen].
func OpenRequests(open []event.Event, ev event.Event) []event.Event {
	return permission.StillOpen(open, ev)
}

// Requests returns the open permission requests of a session that the stream still has,
// oldest first. It needs neither Temporal nor the archive. After an error they are those
// before it.
func (c *Client) Requests(ctx context.Context, id string) (open []event.Event, err error) {
	for ev, err := range c.left(ctx, id, 0, false) {
		if err != nil {
			return open, fmt.Errorf("open requests of session %s: %w", id, err)
		}
		open = OpenRequests(open, ev)
	}
	return open, nil
}

func (c *Client) showArchive(ctx context.Context, conv *Conversation) error {
	agent, err := c.o.Agents.Get(conv.Agent)
	if err != nil {
		return fmt.Errorf("show session %s: %w", conv.SessionID, err)
	}
	b := recent.New(c.o.MaxTimelineEntries)
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
