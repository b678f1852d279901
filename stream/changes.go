package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"
)

// ChangeKind is a kind of change of the list of sessions.
type ChangeKind string

// The kinds of changes.
const (
	ChangeCreated ChangeKind = "created"
	ChangeClosed  ChangeKind = "closed"
	ChangeRenamed ChangeKind = "renamed"
	ChangeDeleted ChangeKind = "deleted"
	// ChangeMissed represents changes that were missed, before listening began or
	// while the connection was lost. It names no session.
	ChangeMissed ChangeKind = "missed"
)

// Change means that a shown list of sessions must be fetched again.
type Change struct {
	SessionID string     `json:"sessionId,omitempty"`
	Kind      ChangeKind `json:"kind"`
}

func (l *Log) changesSubject() string { return l.opts.Prefix + "-changes." + l.space }

// Changed publishes to the readers of [Log.Changes] that the list of sessions
// changed. Nothing is stored for later listeners.
func (l *Log) Changed(_ context.Context, sessionID string, kind ChangeKind) error {
	data, err := json.Marshal(Change{SessionID: sessionID, Kind: kind})
	if err == nil {
		err = l.nc.Publish(l.changesSubject(), data)
	}
	if err != nil {
		return fmt.Errorf("stream: session %s: tell change %s: %w", sessionID, kind, err)
	}
	return nil
}

// Changes returns the changes of the namespace's list from now on, until ctx
// ends, which is its last error. It is a trigger, not a record: [ChangeMissed]
// comes first, once the server has the subscription, and again after a lost
// connection; a reader that fetches the list on every change is never behind.
func (l *Log) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		in := make(chan *nats.Msg, 256)
		sub, err := l.nc.ChanSubscribe(l.changesSubject(), in)
		if err != nil {
			yield(Change{}, fmt.Errorf("stream: listen for changes: %w", err))
			return
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only if the connection has ended, and the subscription with it
		status := l.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
		defer l.nc.RemoveStatusListener(status)
		c, err := Change{Kind: ChangeMissed}, l.insist(ctx, l.nc.FlushWithContext)
		for yield(c, err) && err == nil {
			c, err = l.change(ctx, in, status)
		}
	}
}

func (l *Log) change(ctx context.Context, in <-chan *nats.Msg, status <-chan nats.Status) (Change, error) {
	select {
	case m := <-in:
		var c Change
		if err := json.Unmarshal(m.Data, &c); err != nil || c.Kind == "" {
			// A message that can't be parsed may mean any change.
			return Change{Kind: ChangeMissed}, nil
		}
		return c, nil
	case s := <-status:
		if s == nats.CLOSED {
			return Change{}, fmt.Errorf("stream: listen for changes: %w", nats.ErrConnectionClosed)
		}
		return Change{Kind: ChangeMissed}, nil
	case <-ctx.Done():
		return Change{}, context.Cause(ctx)
	}
}
