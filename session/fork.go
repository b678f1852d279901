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
	of, err := c.original(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("fork session %s: %w", id, err)
	}
	o := derivedOptions(of.Options, " (fork)")
	o.Metadata[MetadataParent] = quoted(id)
	if delete(o.Metadata, MetadataForkPoint); f.At != "" {
		o.Metadata[MetadataForkPoint] = quoted(f.At)
	}
	return c.takeOver(ctx, f.ID, of, f.At, &o, nil)
}

// original is a session that another one is made of: its id, and its record as it is now.
type original struct {
	ID string
	Record
}

func (c *Client) original(ctx context.Context, id string) (original, error) {
	data, err := c.record(ctx, id, FromArchive)
	if err != nil {
		return original{}, err
	}
	o := original{ID: id}
	known, err := c.lookup(ctx, id)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return o, err
	case err != nil || !known.open:
		o.Record, err = RecordOf(data)
		return o, err
	}
	var now struct {
		Record Record `json:"record"`
	}
	err = (&Handle{c: c, id: id, first: known.first}).query(ctx, QueryFinalState, &now)
	o.Record = now.Record
	return o, err
}

// derivedOptions returns the options of a session that is made of another one.
func derivedOptions(o Options, suffix string) Options {
	for validateIndexed("title", o.Title+suffix) != nil {
		o.Title = strings.ToValidUTF8(shorten(o.Title, len(o.Title)-len(suffix)), "")
	}
	o.Title = strings.TrimSpace(o.Title + suffix)
	if o.Metadata = maps.Clone(o.Metadata); o.Metadata == nil {
		o.Metadata = map[string]json.RawMessage{}
	}
	maps.DeleteFunc(o.Metadata, func(key string, _ json.RawMessage) bool { return strings.HasPrefix(key, companionPrefix) })
	if o.Sandbox == SandboxParent {
		o.Sandbox = SandboxOwn // it has no parent whose sandbox it could share
	}
	return o
}

func quoted(text string) json.RawMessage {
	data, _ := json.Marshal(text) // a string always encodes
	return data
}

// takeOver creates a session with the conversation of another one, up to a block. more, if set,
// adds to what is copied and to the record.
func (c *Client) takeOver(ctx context.Context, id string, of original, at string, o *Options, more func(context.Context, fork.Kept, fork.Copy, *Record) error) (*Handle, error) {
	return c.created(ctx, id, o, func(ctx context.Context) (*Handle, error) {
		if err := c.validateNew(ctx, id, *o); err != nil {
			return nil, err
		}
		made, err := c.copied(ctx, id, of, at, *o, more)
		if err != nil {
			return nil, err
		}
		rec, err := RecordOf(made)
		if err != nil {
			return nil, err
		}
		h, err := c.start(ctx, Input{SessionID: id, Options: rec.Options, CreatedAt: made.CreatedAt, Reopened: true, Executions: rec.Executions})
		if err != nil {
			return nil, fmt.Errorf("session %s is made of session %s, and closed: %w", id, of.ID, err)
		}
		return h, nil
	})
}

// copied writes the new session's archive, its record last: without one the session does not exist.
func (c *Client) copied(ctx context.Context, id string, of original, at string, o Options, more func(context.Context, fork.Kept, fork.Copy, *Record) error) (archive.ListData, error) {
	made := archive.ListData{ID: id, Parent: of.ID}
	agent, err := c.o.Agents.Get(o.Agent)
	if err != nil {
		return made, fmt.Errorf("fork session %s: %w", of.ID, err)
	}
	to := fork.Copy{ID: id, Native: agent.NativeID(id, 1)}
	if to.Epoch, err = c.o.Archive.TakeEpoch(ctx, id); err != nil {
		return made, fmt.Errorf("fork session %s: %w", of.ID, err)
	}
	kept, err := fork.Write(ctx, c.o.Archive, agent, fork.Original{ID: of.ID, Native: agent.NativeID(of.ID, max(of.Native, 1)), At: at}, to)
	switch {
	case errors.Is(err, fork.ErrNoPoint), errors.Is(err, adapters.ErrUnsupported):
		return made, Invalid("at", fmt.Sprintf("%q: %v", at, err), "a block of the main conversation that is archived, or nothing for the whole conversation")
	case err != nil:
		return made, err
	}
	rec := Record{Options: o, Native: 1, Executions: of.Executions, Spent: of.Spent, LastBlockID: kept.Last(), Unstreamed: true}
	if more != nil {
		if err := more(ctx, kept, to, &rec); err != nil {
			return made, err
		}
	}
	if err := rec.Apply(&made); err != nil {
		return made, err
	}
	if made, err = c.o.Archive.CreateSession(ctx, made); err != nil {
		return made, fmt.Errorf("fork session %s: %w", of.ID, err)
	}
	if err := c.o.Archive.MarkClosed(ctx, id, to.Epoch, time.Now()); err != nil {
		return made, fmt.Errorf("session %s is made of session %s, and in no list yet: %w", id, of.ID, err)
	}
	return made, nil
}
