package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/turn"
)

// An agent writes its transcript some time after it streams: Claude Code a tenth of a
// second. A turn waits this long for its answer to be on disk, so that an answered message
// is an archived one; agents that need longer are archived later.
const (
	answerPatience = 2 * time.Second
	answerEvery    = 20 * time.Millisecond
)

// awaitAnswer waits until the transcripts have the answer of a completed turn. If the agent
// exits before, the conversation reports it.
func (a *attempt) awaitAnswer(ctx context.Context, f turn.Finish) error {
	answer := a.machine.Summary.Answer
	if f.Ending.Outcome != turn.Completed || answer == "" || a.answered {
		return nil
	}
	for until := time.Now().Add(answerPatience); ; {
		began := time.Now()
		if saved, err := hasWritten(ctx, a.agent, &a.checkpoint.Parsed, answer); saved || err != nil {
			return err
		}
		if f.Ending.Exited || a.gone(ctx, f) {
			a.host.o.Log.Warn("the agent exited before it wrote its answer down", "session", a.in.Agent.SessionID)
			return a.emitLostBefore(ctx)
		}
		if time.Now().After(until) {
			a.host.o.Log.Info("the agent has not written its answer down yet", "session", a.in.Agent.SessionID, "block", answer)
			return nil
		}
		// Reading what is new takes time: at most half of the wait.
		select {
		case <-time.After(max(answerEvery, time.Since(began))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gone reports whether the process that wrote the turn's last record has exited. If the
// runner doesn't answer, the process has exited with it.
func (a *attempt) gone(ctx context.Context, f turn.Finish) bool {
	status, err := a.agent.Conn.Status(ctx)
	return ctx.Err() == nil && (err != nil || status.State != runner.AgentRunning || status.StartOffset > f.Offset)
}

// hasWritten reports whether a block is in what the agent's transcripts have gained since a
// cursor, and moves the cursor forward.
func hasWritten(ctx context.Context, a *host.Agent, since *json.RawMessage, blockID string) (found bool, err error) {
	f, follows := a.Adapter.(adapters.Follower)
	if !follows {
		return endsWith(ctx, a, blockID)
	}
	*since, err = f.Follow(a.Home(ctx), a.Launch, *since, func(ev event.Event) {
		found = found || isUpsertOf(ev, blockID)
	})
	return found, errors.Join(err, ctx.Err())
}

// noteUnbilled keeps which messages of this execution lack what they took, if the agent only
// writes that down.
func (a *attempt) noteUnbilled(events []event.Event) {
	if !a.adapter.Info().SilentUsage {
		return
	}
	for _, ev := range events {
		if p, ok := ev.Payload.(event.BlockUpsert); ok && ev.Context.Conversation() == event.Main {
			a.unbilled[p.Block.ID] = true
		}
	}
}

// emitSilentUsage streams what the messages of an execution took, of an agent that only writes it
// down: its last message is on disk before it reports that it is idle. When the agent has exited,
// all that it has written is compared with the stream, this too.
func (a *attempt) emitSilentUsage(ctx context.Context, f turn.Finish) error {
	place := turn.Place{Offset: f.Offset, Index: turn.IndexUsage}
	follower, follows := a.agent.Adapter.(adapters.Follower)
	if !follows || len(a.unbilled) == 0 || f.Ending.Exited || a.machine.Has(place) {
		return nil
	}
	var found []event.Event
	var err error
	a.checkpoint.Parsed, err = follower.Follow(a.agent.Home(ctx), a.agent.Launch, a.checkpoint.Parsed, func(ev event.Event) {
		if p, ok := ev.Payload.(event.BlockUpsert); ok && p.Block.Usage != nil && ev.Context.Conversation() == event.Main && a.unbilled[p.Block.ID] {
			ev.Payload = event.BlockUpsert{Block: event.Block{ID: p.Block.ID, Type: p.Block.Type, Usage: p.Block.Usage}}
			found = append(found, ev)
		}
		a.answered = a.answered || isUpsertOf(ev, a.machine.Summary.Answer)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		// A tool may have made its home unreadable; the turn ends all the same.
		a.host.o.Log.Warn("what messages took is not known", "session", a.in.Agent.SessionID, "error", err)
	}
	return a.appendAt(ctx, place, found...)
}

func isUpsertOf(ev event.Event, blockID string) bool {
	p, ok := ev.Payload.(event.BlockUpsert)
	return ok && p.Block.ID == blockID
}

// endsWith reports whether a block is at the end of the transcripts of an agent that can't
// be read incrementally.
func endsWith(ctx context.Context, a *host.Agent, blockID string) (bool, error) {
	t, err := tailsOf(ctx, a)
	if err != nil {
		return false, err
	}
	for ev, err := range a.Adapter.Parse(t.sources) {
		if err == nil && isUpsertOf(ev, blockID) {
			return true, nil
		}
	}
	return false, errors.Join(t.failed(), ctx.Err())
}
