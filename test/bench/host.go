package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
)

// turnPatience bounds a turn on a busy machine.
const turnPatience = 90 * time.Second

// host is a worker with a data folder of its own.
type host struct {
	*harness.Process
	dataDir string
}

func (b *bench) startHost(ctx context.Context, env ...string) (*host, error) {
	dir, err := os.MkdirTemp(b.stack.Dir, "host-")
	if err != nil {
		return nil, err
	}
	p, err := b.stack.StartWorker(ctx, dir, env...)
	if err != nil {
		return nil, err
	}
	return &host{p, dir}, nil
}

// stop stops the worker and ends its agents.
func (h *host) stop() error {
	return errors.Join(h.Stop(), harness.EndAgents(h.dataDir))
}

// open creates a session without a sandbox.
func (b *bench) open(ctx context.Context) (*session.Handle, error) {
	return b.stack.Client.Create(ctx, "", session.Options{Agent: "claude"})
}

// warmSession returns a session whose paced agent is running and has answered.
func (b *bench) warmSession(ctx context.Context) (*session.Handle, error) {
	s, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	for range 5 {
		if _, err := b.timePrompt(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// answer sends a message and waits for the answer.
func answer(ctx context.Context, s *session.Handle, text string) error {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	r, err := s.Send(ctx, session.Message{Text: text})
	if err != nil {
		return err
	}
	res, err := s.Wait(ctx, r)
	if err != nil {
		return err
	}
	return res.Err()
}

// lastSeq returns the sequence number of the session's last event.
func (b *bench) lastSeq(ctx context.Context, s *session.Handle) (uint64, error) {
	tail, err := b.stack.Log.Tail(ctx, s.ID())
	return tail.LastSeq, err
}

// rest is the interval at which a session is polled until it is idle: its workflow
// finishes a turn a moment after the stream has its end.
const rest = 20 * time.Millisecond

func (b *bench) awaitIdle(ctx context.Context, s *session.Handle) error {
	return until(ctx, rest, func() (bool, error) {
		snapshot, err := s.Snapshot(ctx)
		return snapshot.Status == session.StatusIdle, err
	})
}

// awaitTimer waits for the idle timer, the last event of a turn.
func (b *bench) awaitTimer(ctx context.Context, id string) (types []string, err error) {
	err = until(ctx, rest, func() (bool, error) {
		types, err = b.history(ctx, id)
		return err == nil && types[len(types)-1] == enumspb.EVENT_TYPE_TIMER_STARTED.String(), err
	})
	return types, err
}

// history returns the types of a workflow's events.
func (b *bench) history(ctx context.Context, id string) ([]string, error) {
	var types []string
	it := b.stack.Temporal.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			return nil, fmt.Errorf("history of %s: %w", id, err)
		}
		types = append(types, ev.GetEventType().String())
	}
	return types, nil
}

func until(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// each calls do for all sessions at the same time.
func each(ctx context.Context, all []*session.Handle, do func(context.Context, *session.Handle) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range all {
		g.Go(func() error { return do(ctx, s) })
	}
	return g.Wait()
}

func closeAll(ctx context.Context, all []*session.Handle) error {
	return each(ctx, all, func(ctx context.Context, s *session.Handle) error { return s.Close(ctx) })
}
