package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
// InvalidError, [ErrNotFound], [ErrNoArchive] for a closed session if the client has no archive.
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
	case known.open:
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

// amend applies an amendment to a record.
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
	rec.Options.Title, rec.Options.Metadata, rec.Options.Tags = st.Title, st.Metadata, st.Tags
	return rec.Apply(d)
}

// Amended replaces the title, metadata and tags with those of the record: its workflow has those
// with which the session was closed.
func (i *Inspection) Amended(d archive.ListData) {
	i.Title, i.Options.Title, i.Options.Metadata, i.Options.Tags = d.Title, d.Title, d.Metadata, d.Tags
}

// amendedSince replaces the title and tags of a page's closed sessions with those of their
// records: Temporal has those with which they were closed. A fault says why it could not.
func (c *Client) amendedSince(ctx context.Context, page []Summary) (fault string) {
	if c.o.Archive == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(describesAtOnce)
	for i := range page {
		if page[i].ClosedAt.IsZero() {
			continue
		}
		g.Go(func() error {
			data, err := c.o.Archive.Session(ctx, page[i].SessionID)
			switch {
			case errors.Is(err, archive.ErrNotFound): // it closed before a worker had begun it
				return nil
			case err != nil:
				return err
			}
			page[i].Title, page[i].Tags = data.Title, data.Tags
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Sprintf("titles and tags of closed sessions are as they were closed: %v", err)
	}
	return ""
}
