package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
)

// An agent writes its transcript some time after it speaks: Claude Code a tenth
// of a second. A turn waits this long for its answer to be on disk, so that an
// answered message is an archived one; agents that need longer are archived a
// moment later.
const (
	settlePatience = 2 * time.Second
	settleEvery    = 20 * time.Millisecond
)

// settle waits until the transcripts hold what a completed turn was answered
// with. If the agent dies before they do, the conversation says so.
func (t *turn) settle(ctx context.Context, d runner.Delivery, end ending) error {
	if end.outcome != session.Completed || t.tale.written == "" {
		return nil
	}
	for until := time.Now().Add(settlePatience); ; {
		began := time.Now()
		if saved, err := t.agent.hasWritten(ctx, &t.mark.Parsed, t.tale.written); saved || err != nil {
			return err
		}
		if end.exited || t.gone(ctx, d) {
			t.host.o.Log.Warn("the agent died before it wrote its answer down", "session", t.in.Agent.SessionID)
			return t.sayWhatIsLost(ctx)
		}
		if time.Now().After(until) {
			t.host.o.Log.Info("the agent has not written its answer down yet", "session", t.in.Agent.SessionID, "block", t.tale.written)
			return nil
		}
		// What is new takes its time to be read: at most half of the wait.
		select {
		case <-time.After(max(settleEvery, time.Since(began))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gone says whether the process that a record came from has ended. A runner
// that doesn't answer took it along.
func (t *turn) gone(ctx context.Context, d runner.Delivery) bool {
	status, err := t.agent.conn.Status(ctx)
	return ctx.Err() == nil && (err != nil || status.State != runner.AgentRunning || status.StartOffset > d.Offset)
}

// hasWritten reports whether a block is in what the agent's transcripts have
// gained since a cursor, and moves the cursor behind that.
func (a *agent) hasWritten(ctx context.Context, since *json.RawMessage, blockID string) (found bool, err error) {
	f, follows := a.adapter.(adapters.Follower)
	if !follows {
		return a.endsWith(ctx, blockID)
	}
	*since, err = f.Follow(a.home(ctx), a.launch, *since, func(ev event.Event) {
		found = found || isUpsertOf(ev, blockID)
	})
	return found, errors.Join(err, ctx.Err())
}

func isUpsertOf(ev event.Event, blockID string) bool {
	p, ok := ev.Payload.(event.BlockUpsert)
	return ok && p.Block.ID == blockID
}

// endsWith reports whether a block is at the end of the transcripts of an agent
// that can't be followed.
func (a *agent) endsWith(ctx context.Context, blockID string) (bool, error) {
	sources, err := a.tails(ctx)
	if err != nil {
		return false, err
	}
	for ev, err := range a.adapter.Parse(sources) {
		if err == nil && isUpsertOf(ev, blockID) {
			return true, nil
		}
	}
	return false, ctx.Err()
}
