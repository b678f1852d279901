package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/footprint"
	"github.com/sojourn-run/sojourn/session/fork"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
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
	// At is the last block of the main conversation that the new session has, or the message that
	// the block was made of: Gemini CLI's blocks do not have the ids of messages. What the agent has
	// written down together with it is included, and the ends of the calls before it. Default: the
	// whole conversation, as far as it is archived.
	At string
}

// Fork creates a session that begins with the conversation of another one, open or closed, which it
// does not change: with its transcripts, so that the agent remembers, its files as they were
// archived last, and its options. Its title is that of the original with " (fork)" behind it, and
// its metadata has [MetadataParent] and [MetadataForkPoint]; its totals begin at zero. Message ids
// that the original has accepted are used in the fork too. A folder of the user's own
// (Options.Workspace) is shared by both. A call that runs in the original is there as one that was
// lost; a child session that runs stays the original's, and is shown as running.
//
// After an error there may be a closed session with the id, if it says so; it can be opened. If the
// process ends before Fork does there may be one that can only be deleted. Errors: an InvalidError,
// also for a block that is not in the archive or can't be forked at, [ErrNotFound], [ErrNotBegun],
// [ErrNoArchive], ErrExists, ErrUnavailable, [ErrNoWorker] for an open session.
func (c *Client) Fork(ctx context.Context, id string, f Fork) (*Handle, error) {
	if err := firstOf(ValidateID("id", id), validateText("at", f.At, maxReason)); err != nil {
		return nil, err
	}
	of, err := c.original(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("fork session %s: %w", id, err)
	}
	o := derivedOptions(of.Options, " (fork)")
	o.Metadata[MetadataParent] = quoted(id)
	if f.At != "" {
		o.Metadata[MetadataForkPoint] = quoted(f.At)
	}
	return c.takeOver(ctx, f.ID, takeOver{of: []original{of}, at: f.At, parent: id}, &o)
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
		if o.Record, err = RecordOf(data); err == nil && o.Copying {
			err = errCopying(id)
		}
		return o, err
	}
	var now struct {
		Record Record `json:"record"`
	}
	err = (&Handle{c: c, id: id, first: known.first}).query(ctx, QueryFinalState, &now)
	o.Record = now.Record
	return o, err
}

// errCopying refuses a session whose making was broken off.
func errCopying(id string) error {
	return Invalid("id", fmt.Sprintf("%s is a fork that is being made, or whose making was broken off", id), "another id; delete it, and fork again")
}

// ownKeys are those of the metadata that say what a session is made of.
var ownKeys = []string{MetadataParent, MetadataForkPoint, MetadataMerged}

// inherits reports whether a session that is made of another one has a key of its metadata.
func inherits(key string) bool {
	return !slices.Contains(ownKeys, key) && !strings.HasPrefix(key, companionPrefix)
}

// derivedOptions returns the options of a session that is made of another one.
func derivedOptions(o Options, suffix string) Options {
	for validateIndexed("title", o.Title+suffix) != nil {
		o.Title = strings.ToValidUTF8(shorten(o.Title, len(o.Title)-len(suffix)), "")
	}
	o.Title = strings.TrimSpace(o.Title + suffix)
	bag := map[string]json.RawMessage{}
	for key, value := range o.Metadata {
		if inherits(key) {
			bag[key] = value
		}
	}
	o.Metadata = bag
	if o.Sandbox == SandboxParent {
		o.Sandbox = SandboxOwn // it has no parent whose sandbox it could share
	}
	return o
}

func quoted(text string) json.RawMessage {
	data, _ := json.Marshal(text) // a string always encodes
	return data
}

// takeOver is a session to be made of others.
type takeOver struct {
	// of are the sessions: the first one's archive is copied, up to the block at, and the conversations
	// of the others are joined to it.
	of []original
	at string
	// parent is ListData.Parent.
	parent string
}

// takeOver creates a session of others.
func (c *Client) takeOver(ctx context.Context, id string, t takeOver, o *Options) (*Handle, error) {
	if c.o.Stream == nil {
		return nil, errors.New("make a session of others: no stream is configured")
	}
	if id == "" {
		id = uuid.NewString()
	}
	return c.created(ctx, id, o, func(ctx context.Context) (*Handle, error) {
		if err := c.validateNew(ctx, id, *o); err != nil {
			return nil, err
		}
		rec, made, err := c.make(ctx, id, t, *o)
		if err != nil {
			return nil, fmt.Errorf("make a session of session %s: %w", t.of[0].ID, err)
		}
		h, err := c.start(ctx, Input{SessionID: id, Options: rec.Options, CreatedAt: made.CreatedAt, Reopened: true, LastSeq: rec.LastSeq, Executions: rec.Executions})
		if err != nil {
			return nil, fmt.Errorf("session %s is made of session %s, and closed: %w", id, t.of[0].ID, err)
		}
		return h, nil
	})
}

// make makes a closed session. Until it is complete its record says that it is not.
func (c *Client) make(ctx context.Context, id string, t takeOver, o Options) (Record, archive.ListData, error) {
	rec, made := Record{Options: o, Native: 1, Copying: true}, archive.ListData{ID: id, Parent: t.parent}
	err := rec.Apply(&made)
	if err == nil {
		made, err = c.o.Archive.CreateSession(ctx, made)
	}
	if errors.Is(err, archive.ErrExists) {
		return rec, made, fmt.Errorf("session %s: %w", id, ErrExists)
	}
	if err != nil {
		return rec, made, err
	}
	rec.Copying = false
	epoch, err := c.copy(ctx, id, t, &rec)
	if err == nil {
		_, err = c.o.Archive.UpdateSession(ctx, id, rec.Apply)
	}
	if err != nil {
		return rec, made, errors.Join(err, c.Delete(context.WithoutCancel(ctx), id))
	}
	if err := c.o.Archive.MarkClosed(ctx, id, epoch, time.Now()); err != nil {
		return rec, made, fmt.Errorf("session %s is made, and in no list yet: %w", id, err)
	}
	return rec, made, nil
}

// copy writes what the new session has in archive and stream, and completes its record.
func (c *Client) copy(ctx context.Context, id string, t takeOver, rec *Record) (epoch uint64, err error) {
	agent, err := c.o.Agents.Get(rec.Options.Agent)
	if err != nil {
		return 0, err
	}
	of := t.of[0]
	to := fork.Copy{ID: id, Native: agent.NativeID(id, 1)}
	if to.Epoch, err = c.o.Archive.TakeEpoch(ctx, id); err != nil {
		return 0, err
	}
	from := fork.Original{ID: of.ID, Native: agent.NativeID(of.ID, max(of.Native, 1))}
	if t.at != "" {
		from.At = pointIDs(agent, t.at)
	}
	kept, err := fork.Write(ctx, c.o.Archive, agent, from, to)
	if errors.Is(err, fork.ErrNoPoint) || errors.Is(err, adapters.ErrUnsupported) {
		return 0, Invalid("at", fmt.Sprintf("%q: %v", t.at, err), "a block of the main conversation that is archived, or nothing for the whole conversation")
	}
	if err != nil {
		return 0, err
	}
	rec.LastBlockID = kept.Last()
	if err := c.join(ctx, t.of, kept, to, rec); err != nil {
		return 0, err
	}
	// Behind the copy: what was accepted meanwhile may be in it.
	for _, of := range t.of {
		now, err := c.original(ctx, of.ID)
		if err != nil {
			return 0, err
		}
		rec.Executions = max(rec.Executions, now.Executions)
		rec.Spent.merge(now.Spent)
	}
	rec.LastSeq, err = c.stream(ctx, id, to.Epoch, agent)
	return to.Epoch, err
}

// pointIDs returns the ids that a block may have: the given one, or those that an agent makes of a
// message's.
func pointIDs(agent adapters.Adapter, at string) []string {
	naming, ok := agent.(adapters.Naming)
	if !ok {
		return []string{at, "prompt-" + at}
	}
	return append([]string{at}, turn.PromptIDs(at, naming.BlockID)...)
}

// streamBatch is about how many bytes of a conversation are appended to the stream at once.
const streamBatch = 1 << 20

// stream appends the archived conversation to the stream, so that who follows the session has it
// from the beginning.
func (c *Client) stream(ctx context.Context, id string, epoch uint64, agent adapters.Adapter) (last uint64, err error) {
	var batch []event.Event
	bytes, n := 0, 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		last, err = c.o.Stream.Emit(ctx, id, stream.Emission{Fence: stream.Fence{Epoch: epoch}, LastSeq: last, Key: fmt.Sprintf("conversation-%d", n), Events: batch})
		batch, bytes = nil, 0
		return err
	}
	for ev, err := range c.o.Archive.Events(ctx, id, agent.Parse) {
		if err != nil {
			return 0, err
		}
		n++
		batch, bytes = append(batch, ev), bytes+footprint.Of(ev)
		if bytes >= streamBatch {
			if err := flush(); err != nil {
				return 0, err
			}
		}
	}
	// Until it is opened it is closed, for who follows it too.
	batch, n = append(batch, event.FromServer(event.SessionClosed{Reason: "it was copied"}, time.Now())), n+1
	err = flush()
	return last, err
}
