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
	own, err := json.Marshal(e.Event)
	if err != nil || len(e.SpawnPath) == 0 {
		return own, err
	}
	path, err := json.Marshal(e.SpawnPath)
	return slices.Concat([]byte(`{"spawnPath":`), path, []byte(","), own[1:]), err
}

// TreeEvents yields the session's events as Events does, after 0, and those of the sessions
// below it while they come. Those of a child are between its parent's subagent:spawned and
// subagent:completed, in the child's own order; those of children at the same time are in
// none. A child whose events can't be read ends it with an error, as a gap does.
func (h *Handle) TreeEvents(ctx context.Context, follow bool) iter.Seq2[TreeEvent, error] {
	return h.c.TreeEvents(ctx, h.id, follow)
}

// TreeEvents is Handle.TreeEvents for an id.
func (c *Client) TreeEvents(ctx context.Context, id string, follow bool) iter.Seq2[TreeEvent, error] {
	return treeEvents(ctx, c.Events, id, follow)
}

// eventsOf is the form of Client.Events.
type eventsOf func(ctx context.Context, id string, after uint64, follow bool) iter.Seq2[event.Event, error]

func treeEvents(ctx context.Context, read eventsOf, id string, follow bool) iter.Seq2[TreeEvent, error] {
	return func(yield func(TreeEvent, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		t := &treeReader{read: read, follow: follow, events: make(chan readEvent)}
		root := t.branch(ctx, id, nil)
		t.reading.Go(func() { root.pass(ctx, ctx, follow) })
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
	// following ends when the session has ended: what is left of it is stored.
	following context.Context
	ended     context.CancelFunc
	done      chan struct{}
}

func (t *treeReader) branch(ctx context.Context, id string, path []string) *treeBranch {
	b := &treeBranch{t: t, id: id, path: path, children: map[string]*treeBranch{}, done: make(chan struct{})}
	b.following, b.ended = context.WithCancel(ctx)
	return b
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
		if p, ok := ev.Payload.(event.SubagentSpawned); ok && p.ChildSessionID != "" && b.children[p.ChildSessionID] == nil {
			child := b.t.branch(sending, p.ChildSessionID, append(slices.Clip(b.path), p.ChildSessionID))
			b.children[p.ChildSessionID] = child
			child.start(sending)
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
