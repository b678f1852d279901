package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/stream"
)

// Amendment changes what can be changed of a closed session too; nil fields don't change.
type Amendment struct {
	Title *string
	// Metadata is merged by its keys; null removes one.
	Metadata map[string]json.RawMessage
	// Tags replaces the tags.
	Tags []string
}

func (a Amendment) configure() Configure {
	return Configure{Title: a.Title, Metadata: a.Metadata, Tags: a.Tags}
}

// Amend changes title, metadata and tags of a session, open or closed, and returns its state
// after it. Those of a closed one are in its record, with which it is reopened. Errors: an
// InvalidError, [ErrNotFound], also for a session that was closed before it had a record,
// [ErrNoArchive] for a closed session if the client has no archive. With an error of the stream,
// by which readers of lists are notified, the change is made.
func (c *Client) Amend(ctx context.Context, id string, a Amendment) (Snapshot, error) {
	if err := a.configure().Validate(); err != nil {
		return Snapshot{}, err
	}
	h, err := c.Get(ctx, id)
	if err != nil {
		return Snapshot{}, err
	}
	s, err := h.Configure(ctx, a.configure())
	if !errors.Is(err, ErrClosed) {
		return s, err
	}
	return h.amendClosed(ctx, a)
}

func (h *Handle) amendClosed(ctx context.Context, a Amendment) (Snapshot, error) {
	if h.c.o.Archive == nil {
		return Snapshot{}, fmt.Errorf("amend closed session %s: %w", h.id, ErrNoArchive)
	}
	if err := h.awaitRecord(ctx); err != nil {
		return Snapshot{}, err
	}
	data, err := h.c.o.Archive.UpdateSession(ctx, h.id, func(d *archive.ListData) error { return amend(d, a) })
	if errors.Is(err, archive.ErrNotFound) {
		return Snapshot{}, fmt.Errorf("session %s: %w", h.id, ErrNotFound)
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("amend closed session %s: %w", h.id, err)
	}
	known, err := h.c.lookup(ctx, h.id)
	switch {
	case err != nil:
		return Snapshot{}, err
	case known.open || known.first != h.first:
		return h.c.Amend(ctx, h.id, a) // it was reopened meanwhile, perhaps with the record as it was
	case h.c.o.Stream != nil:
		err = h.c.o.Stream.Changed(ctx, h.id, stream.ChangeRenamed)
	}
	i, faulty := inspectClosed(data)
	return i.Snapshot, errors.Join(err, faulty)
}

// awaitRecord waits until the record of a session that closes is written, which after a
// terminated one the cleanup does.
func (h *Handle) awaitRecord(ctx context.Context) error {
	if err := h.awaitClosed(ctx); err != nil {
		return err
	}
	known, err := h.c.lookup(ctx, h.id)
	if err != nil || known.open || !known.terminated {
		return err
	}
	return h.c.awaitReconciled(ctx, TerminatedRun{SessionID: h.id, RunID: known.run})
}

// amend applies an amendment to a record. What a newer version has in it stays.
func amend(d *archive.ListData, a Amendment) error {
	rec, err := RecordOf(*d)
	if err != nil {
		return err
	}
	st := State{Title: rec.Options.Title, Metadata: rec.Options.Metadata, Tags: rec.Options.Tags}
	st.describe(a.configure())
	if err := validateBag(st.Metadata, st.Tags); err != nil {
		return err
	}
	carry, err := amendedCarry(d.Carry, st)
	if err != nil {
		return fmt.Errorf("session %s: change its record: %w", d.ID, err)
	}
	d.Title, d.Metadata, d.Tags, d.Carry = st.Title, st.Metadata, st.Tags, carry
	return nil
}

// amendedCarry returns an encoded record with the title, metadata and tags of a state.
func amendedCarry(carry json.RawMessage, st State) (json.RawMessage, error) {
	var record, options map[string]json.RawMessage
	if err := json.Unmarshal(carry, &record); err != nil {
		return nil, err
	}
	err := json.Unmarshal(record["options"], &options)
	if err == nil && options == nil {
		err = errors.New("it has no options")
	}
	for name, value := range map[string]any{"title": st.Title, "metadata": st.Metadata, "tags": st.Tags} {
		if err == nil {
			options[name], err = json.Marshal(value)
		}
	}
	if err == nil {
		record["options"], err = json.Marshal(options)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(record)
}

// amendPatience bounds the wait for a worker to take up an amendment that came beside a reopening.
const amendPatience = 30 * time.Second

// amendedMeanwhile configures a session that was reopened with a record that was amended between
// its reading and the start.
func (h *Handle) amendedMeanwhile(ctx context.Context, read archive.ListData) error {
	ctx, cancel := context.WithTimeout(ctx, amendPatience)
	defer cancel()
	now, err := h.c.o.Archive.Session(ctx, h.id)
	if err != nil || now.UpdatedAt.Equal(read.UpdatedAt) {
		return err
	}
	if change := amendmentOf(read, now).configure(); !change.Empty() {
		_, err = h.Configure(ctx, change)
	}
	return err
}

// amendmentOf returns what was amended between two states of a record.
func amendmentOf(before, after archive.ListData) (a Amendment) {
	if after.Title != before.Title {
		a.Title = &after.Title
	}
	if !slices.Equal(before.Tags, after.Tags) {
		a.Tags = append([]string{}, after.Tags...) // not nil if there are none
	}
	change := map[string]json.RawMessage{}
	for key := range before.Metadata {
		if _, still := after.Metadata[key]; !still {
			change[key] = json.RawMessage("null")
		}
	}
	for key, value := range after.Metadata {
		if !bytes.Equal(value, before.Metadata[key]) {
			change[key] = value
		}
	}
	if len(change) > 0 {
		a.Metadata = change
	}
	return a
}

// Amended replaces the title, metadata and tags with those of the record: its workflow has those
// with which the session was closed.
func (i *Inspection) Amended(d archive.ListData) {
	i.Title, i.Options.Title, i.Options.Metadata, i.Options.Tags = d.Title, d.Title, d.Metadata, d.Tags
}

// amendedSince replaces the title and tags of a page's closed sessions with those of their
// records: Temporal has those with which they were closed. The record of one that was terminated
// is older than that until its cleanup has written it, which the times say, as far as Temporal's
// and the archive's clocks agree. A fault says why it could not.
func (c *Client) amendedSince(ctx context.Context, listed []*described, page []Summary) (fault string) {
	if c.o.Archive == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(describesAtOnce)
	for i := range page {
		s := &page[i]
		if s.ClosedAt.IsZero() {
			continue
		}
		terminated := TerminationOf(listed[i].GetWorkflowExecutionInfo().GetStatus()) != ""
		g.Go(func() error {
			data, err := c.o.Archive.Session(ctx, s.SessionID)
			switch {
			case errors.Is(err, archive.ErrNotFound): // it closed before a worker had begun it
				return nil
			case errors.Is(err, archive.ErrCorrupt): // the others are none the worse
				s.Damage = err.Error()
				return nil
			case err != nil:
				return err
			case !terminated || data.UpdatedAt.After(s.ClosedAt):
				s.Title, s.Tags = data.Title, data.Tags
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Sprintf("some titles and tags of closed sessions may be as they were closed: %v", err)
	}
	return ""
}
