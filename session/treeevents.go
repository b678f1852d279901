package session

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/sojourn-run/sojourn/event"
)

// TreeEvent is an event of a session or of one below it.
type TreeEvent struct {
	event.Event
	// SpawnPath are the ids of the child sessions on the way down to the event's own; empty
	// for an event of the session itself.
	SpawnPath []string
}

// MarshalJSON returns the event's JSON with the field spawnPath before its own, if there is a
// path.
func (e TreeEvent) MarshalJSON() ([]byte, error) {
	own, err := e.Event.MarshalJSON()
	if err != nil || len(e.SpawnPath) == 0 {
		return own, err
	}
	path, err := json.Marshal(e.SpawnPath)
	return slices.Concat([]byte(`{"spawnPath":`), path, []byte(","), own[1:]), err
}

// TreeOptions choose events of a tree.
type TreeOptions struct {
	// Follow continues with new events, until the context ends or the session closes.
	Follow bool
	// After is the number behind which the session's own events begin. Default: all.
	After uint64
	// Live are children that were spawned before, whose events are wanted too, all of them.
	// Default: none.
	Live []string
}

// TreeEvents yields the session's events as Events does, and those of the sessions below it
// while they come. Those of a child are between its parent's subagent:spawned and
// subagent:completed, in the child's own order; those of children at the same time are in
// none. Events that are past the stream's retention are left out; other gaps, of any of the
// sessions, end it with an error.
func (h *Handle) TreeEvents(ctx context.Context, o TreeOptions) iter.Seq2[TreeEvent, error] {
	return h.c.TreeEvents(ctx, h.id, o)
}

// TreeEvents is Handle.TreeEvents for an id.
func (c *Client) TreeEvents(ctx context.Context, id string, o TreeOptions) iter.Seq2[TreeEvent, error] {
	return treeEvents(ctx, c.left, id, o)
}

// eventsOf is the form of Client.Events.
type eventsOf func(ctx context.Context, id string, after uint64, follow bool) iter.Seq2[event.Event, error]

func treeEvents(ctx context.Context, read eventsOf, id string, o TreeOptions) iter.Seq2[TreeEvent, error] {
	return func(yield func(TreeEvent, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		t := &treeReader{read: read, follow: o.Follow, events: make(chan readEvent)}
		root := t.branch(ctx, id, nil)
		root.after = o.After
		t.reading.Go(func() {
			for _, child := range o.Live {
				root.spawn(ctx, child)
			}
			root.pass(ctx, ctx, o.Follow)
		})
		go func() { t.reading.Wait(); close(t.events) }()
		defer func() {
			cancel()
			for range t.events { // until no reader is left
			}
		}()
		for r := range t.events {
			if !yield(r.event, r.err) || r.err != nil {
				return
			}
		}
	}
}

// treeReader reads the events of many sessions at once.
type treeReader struct {
	read    eventsOf
	follow  bool
	reading sync.WaitGroup
	events  chan readEvent
}

type readEvent struct {
	event TreeEvent
	err   error
}

// treeBranch is a session of the tree, with the goroutine that reads it.
type treeBranch struct {
	t        *treeReader
	id       string
	path     []string
	after    uint64 // the last event that was passed on
	children map[string]*treeBranch
	// following ends when the session has ended: the rest of its events is stored.
	following context.Context
	ended     context.CancelFunc
	done      chan struct{}
}

func (t *treeReader) branch(ctx context.Context, id string, path []string) *treeBranch {
	b := &treeBranch{t: t, id: id, path: path, children: map[string]*treeBranch{}, done: make(chan struct{})}
	b.following, b.ended = context.WithCancel(ctx)
	return b
}

// spawn begins to read a child; one is read once.
func (b *treeBranch) spawn(ctx context.Context, id string) {
	if b.children[id] == nil {
		b.children[id] = b.t.branch(ctx, id, append(slices.Clip(b.path), id))
		b.children[id].start(ctx)
	}
}

// start reads a child until its parent has seen its end, and then the rest.
func (b *treeBranch) start(ctx context.Context) {
	b.t.reading.Go(func() {
		defer close(b.done)
		defer b.ended()
		b.pass(b.following, ctx, b.t.follow)
		<-b.following.Done()
		b.pass(ctx, ctx, false)
	})
}

// pass passes on events until reading ends; sending outlasts it, so that none that was read
// is lost. Whatever still runs below has ended with it.
func (b *treeBranch) pass(reading, sending context.Context, follow bool) {
	for ev, err := range b.t.read(reading, b.id, b.after, follow) {
		if err != nil && (reading.Err() == nil || sending.Err() != nil) {
			b.send(sending, readEvent{err: fmt.Errorf("events of a tree: %w", err)})
			return
		}
		if err != nil {
			return // the rest is read once more
		}
		if p, ok := ev.Payload.(event.SubagentCompleted); ok {
			b.finish(p.ChildSessionID)
		}
		if !b.send(sending, readEvent{event: TreeEvent{ev, b.path}}) {
			return
		}
		b.after = ev.Context.Seq
		if p, ok := ev.Payload.(event.SubagentSpawned); ok && p.ChildSessionID != "" {
			b.spawn(sending, p.ChildSessionID)
		}
	}
	if reading == sending {
		for id := range b.children {
			b.finish(id)
		}
	}
}

// finish waits until all is read of a child that has ended.
func (b *treeBranch) finish(id string) {
	if child := b.children[id]; child != nil {
		child.ended()
		<-child.done
	}
}

func (b *treeBranch) send(ctx context.Context, r readEvent) bool {
	select {
	case b.t.events <- r:
		return true
	case <-ctx.Done():
		return false
	}
}
