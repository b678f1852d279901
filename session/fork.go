package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session/fork"
)

// The keys of a fork's metadata.
const (
	// MetadataParent has the id of the session that was forked.
	MetadataParent = "parentSessionId"
	// MetadataForkPoint has Fork.At; a fork of the whole conversation does not have it.
	MetadataForkPoint = "forkPointMessageId"
)

// forkSuffix marks the title of a fork.
const forkSuffix = " (fork)"

// Fork is what a new session takes over of another one.
type Fork struct {
	// ID is that of the new session. Default: a new UUID.
	ID string
	// At is the last block of the main conversation that the new session has, or the id of the
	// message that it was made of. The ends of the calls before it are included, and what the agent
	// has written down together with it. Default: the whole conversation, as far as it is archived.
	At string
}

// Fork creates a session that begins with the conversation of another one, open or closed, which it
// does not change: with its transcripts, so that the agent remembers, its files as they were
// archived last, and its options. Its title is that of the original with " (fork)" behind it, and
// its metadata has [MetadataParent] and [MetadataForkPoint]; its totals begin at zero. Message ids
// that the original has accepted are used in the fork too. A folder of the user's own
// (Options.Workspace) is shared by both.
//
// After an error there may be a closed session with the id, if it says so; it can be opened. Errors:
// an InvalidError, also for a block that is not in the archive or can't be forked at, [ErrNotFound],
// [ErrNotBegun], [ErrNoArchive], ErrExists, ErrUnavailable, [ErrNoWorker] for an open session.
func (c *Client) Fork(ctx context.Context, id string, f Fork) (*Handle, error) {
	if err := firstOf(ValidateID("id", id), validateText("at", f.At, maxReason)); err != nil {
		return nil, err
	}
	if f.ID == "" {
		f.ID = uuid.NewString()
	}
	data, err := c.record(ctx, id, FromArchive)
	if err != nil {
		return nil, err
	}
	rec, err := c.present(ctx, data)
	if err != nil {
		return nil, fmt.Errorf("fork session %s: %w", id, err)
	}
	o := forkedOptions(rec.Options, id, f.At)
	return c.created(ctx, f.ID, &o, func(ctx context.Context) (*Handle, error) {
		if err := c.validate(ctx, f.ID, o); err != nil {
			return nil, err
		}
		if _, err := c.lookup(ctx, f.ID); !errors.Is(err, ErrNotFound) {
			if err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("session %s: %w", f.ID, ErrExists)
		}
		return c.fork(ctx, data, rec, f, o)
	})
}

// present returns the record of a session as it is now.
func (c *Client) present(ctx context.Context, data archive.ListData) (Record, error) {
	known, err := c.lookup(ctx, data.ID)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return Record{}, err
	case err != nil || !known.open:
		return RecordOf(data)
	}
	var now struct {
		Record Record `json:"record"`
	}
	return now.Record, (&Handle{c: c, id: data.ID, first: known.first}).query(ctx, QueryFinalState, &now)
}

// forkedOptions returns the options of a fork.
func forkedOptions(o Options, id, at string) Options {
	for validateIndexed("title", o.Title+forkSuffix) != nil {
		o.Title = strings.ToValidUTF8(shorten(o.Title, len(o.Title)-len(forkSuffix)), "")
	}
	o.Title = strings.TrimSpace(o.Title + forkSuffix)
	o.Metadata = maps.Clone(o.Metadata)
	if o.Metadata == nil {
		o.Metadata = map[string]json.RawMessage{}
	}
	delete(o.Metadata, MetadataForkPoint)
	o.Metadata[MetadataParent] = quoted(id)
	if at != "" {
		o.Metadata[MetadataForkPoint] = quoted(at)
	}
	if o.Sandbox == SandboxParent {
		o.Sandbox = SandboxOwn // it has no parent whose sandbox it could share
	}
	return o
}

func quoted(text string) json.RawMessage {
	data, _ := json.Marshal(text) // a string always encodes
	return data
}

// fork writes the new session's archive, its record last: without one the session does not exist.
func (c *Client) fork(ctx context.Context, of archive.ListData, rec Record, f Fork, o Options) (*Handle, error) {
	agent, err := c.o.Agents.Get(o.Agent)
	if err != nil {
		return nil, fmt.Errorf("fork session %s: %w", of.ID, err)
	}
	epoch, err := c.o.Archive.TakeEpoch(ctx, f.ID)
	if err != nil {
		return nil, fmt.Errorf("fork session %s: %w", of.ID, err)
	}
	last, err := fork.Write(ctx, c.o.Archive, agent,
		fork.Original{ID: of.ID, Native: agent.NativeID(of.ID, max(rec.Native, 1)), At: f.At},
		fork.Copy{ID: f.ID, Native: agent.NativeID(f.ID, 1), Epoch: epoch})
	switch {
	case errors.Is(err, fork.ErrNoPoint), errors.Is(err, adapters.ErrUnsupported):
		return nil, Invalid("at", fmt.Sprintf("%q: %v", f.At, err), "a block of the main conversation that is archived, or nothing for the whole conversation")
	case err != nil:
		return nil, err
	}
	made := archive.ListData{ID: f.ID, Parent: of.ID}
	forked := Record{Options: o, Native: 1, Executions: rec.Executions, Spent: rec.Spent, LastBlockID: last, Unstreamed: true}
	if err := forked.Apply(&made); err != nil {
		return nil, err
	}
	if made, err = c.o.Archive.CreateSession(ctx, made); err != nil {
		return nil, fmt.Errorf("fork session %s: %w", of.ID, err)
	}
	if err := c.o.Archive.MarkClosed(ctx, f.ID, epoch, time.Now()); err != nil {
		return nil, fmt.Errorf("fork session %s: session %s is made, and not in lists yet: %w", of.ID, f.ID, err)
	}
	h, err := c.start(ctx, Input{SessionID: f.ID, Options: o, CreatedAt: made.CreatedAt, Reopened: true, Executions: rec.Executions})
	if err != nil {
		return nil, fmt.Errorf("fork session %s: session %s is made, and closed: %w", of.ID, f.ID, err)
	}
	return h, nil
}
