package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
)

const (
	spawnRounds = 20

	// A tree has branches children, each with as many of its own.
	branches   = 10
	everyone   = 1 + branches + branches*branches
	quietLimit = 5 * time.Second
	closeLimit = 15 * time.Second
)

// spawn measures from the call of Spawn to the prompt at the child's agent, which is started for
// it, in a sandbox that is made for it.
func (b *bench) spawn(ctx context.Context) (_ []Figure, err error) {
	h, program, err := b.pacedWorker(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	parent, err := b.warmSession(ctx)
	if err != nil {
		return nil, err
	}
	var prompts, updates, starts sample
	for range spawnRounds {
		update, err := b.floor.update(ctx, noopUpdate)
		if err != nil {
			return nil, err
		}
		start, err := ownStart(ctx, program)
		if err != nil {
			return nil, err
		}
		prompt, err := b.timeSpawn(ctx, parent)
		if err != nil {
			return nil, err
		}
		updates, starts, prompts = append(updates, update), append(starts, start), append(prompts, prompt)
	}
	p50, floor, start := prompts.at(0.5), updates.at(0.5), starts.at(0.5)
	return []Figure{
		seconds("Spawn → the child's prompt, p50", p50).
			over(floor.Seconds(), "an update of a plain workflow that runs one activity which does nothing").
			wants("≤ 4 × floor and the agent's start", p50 <= 4*floor+start).
			noted("%d of each, in turns; the agent's own start is %s; p90 %s", spawnRounds, round(start), round(prompts.at(0.9))),
	}, parent.Close(ctx)
}

// ownStart is how long the agent takes from its start until it has read a prompt.
func ownStart(ctx context.Context, program string) (time.Duration, error) {
	began := monotonic()
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin = strings.NewReader(pacedPrompt("PACE 0 1ms"))
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("floor: the agent's start: %w", err)
	}
	_, rest, _ := strings.Cut(string(out), `"text_delta","text":"`)
	text, _, _ := strings.Cut(rest, `"`)
	came, err := readStamp(text)
	return came - began, err
}

func (b *bench) timeSpawn(ctx context.Context, parent *session.Handle) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	began := monotonic()
	x, err := parent.SpawnExecution(ctx, session.SpawnRequest{
		Options: session.Options{Agent: "claude"}, Message: session.Message{Text: "PACE 0 1ms"},
	})
	if err != nil {
		return 0, err
	}
	res, err := x.Wait(ctx)
	if err == nil {
		err = res.Raw.Err()
	}
	if err != nil {
		return 0, err
	}
	came, err := readStamp(res.Response)
	if err != nil {
		return 0, err
	}
	return came - began, b.awaitNoChildren(ctx, parent)
}

// awaitNoChildren waits until the session's children have ended.
func (b *bench) awaitNoChildren(ctx context.Context, s *session.Handle) error {
	return until(ctx, rest, func() (bool, error) {
		now, err := s.Snapshot(ctx)
		return len(now.Children) == 0 && now.Status == session.StatusIdle, err
	})
}

// tree measures how fast a tree of sessions, whose agents all work, is quiet after an interrupt of
// its root, and gone after the root is closed.
func (b *bench) tree(ctx context.Context) (_ []Figure, err error) {
	h, _, err := b.pacedWorker(ctx, "--capacity=128")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	root, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	all, err := b.plant(ctx, root)
	if err != nil {
		return nil, err
	}
	b.say("tree: %d agents work after %s", len(all), time.Since(began).Round(time.Second))
	quiet, err := b.interruptTree(ctx, root, all)
	if err != nil {
		return nil, err
	}
	began = time.Now()
	if err := root.Close(ctx); err != nil {
		return nil, err
	}
	if err := until(ctx, rest, func() (bool, error) {
		left, err := harness.Agents(h.dataDir)
		return len(left) == 0, err
	}); err != nil {
		return nil, fmt.Errorf("the agents of a closed tree: %w", err)
	}
	closed := time.Since(began)
	return []Figure{
		seconds("a tree of 111 interrupted: every agent quiet", quiet).wants("< 5 s", quiet < quietLimit),
		seconds("a tree of 111 closed: no process left", closed).wants("< 15 s", closed < closeLimit),
	}, nil
}

// plant makes a tree of sessions whose agents all work, and returns them, the root first.
func (b *bench) plant(ctx context.Context, root *session.Handle) ([]*session.Handle, error) {
	if _, err := root.Send(ctx, session.Message{Text: longWork}); err != nil {
		return nil, err
	}
	all := []*session.Handle{root}
	level := all
	for range 2 {
		grown := make([][]*session.Handle, len(level))
		g, ctx := errgroup.WithContext(ctx)
		for i, parent := range level {
			g.Go(func() (err error) {
				grown[i], err = b.children(ctx, parent)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		level = slices.Concat(grown...)
		all = append(all, level...)
	}
	if len(all) != everyone {
		return nil, fmt.Errorf("the tree has %d sessions, not %d", len(all), everyone)
	}
	return all, nil
}

// longWork is a turn that lasts until it is interrupted.
const longWork = "PACE 100000 200ms"

// children starts a session's children, and waits until their agents work.
func (b *bench) children(ctx context.Context, parent *session.Handle) (all []*session.Handle, err error) {
	for range branches {
		reply, err := parent.Spawn(ctx, session.SpawnRequest{Options: session.Options{Agent: "claude"}, Message: session.Message{Text: longWork}})
		if err != nil {
			return nil, err
		}
		child, err := b.stack.Client.Get(ctx, reply.ChildID)
		if err != nil {
			return nil, err
		}
		all = append(all, child)
	}
	return all, each(ctx, all, func(ctx context.Context, s *session.Handle) error {
		return heard(ctx, s, func(ev event.Event) bool {
			_, works := ev.Payload.(event.BlockDelta)
			return works
		})
	})
}

// heard waits for an event.
func heard(ctx context.Context, s *session.Handle, is func(event.Event) bool) error {
	for ev, err := range s.Events(ctx, 0, session.Follow) {
		if err != nil || is(ev) {
			return err
		}
	}
	return fmt.Errorf("session %s: %w", s.ID(), io.ErrUnexpectedEOF)
}

// interruptTree interrupts the root and returns when the last of all has reported it.
func (b *bench) interruptTree(ctx context.Context, root *session.Handle, all []*session.Handle) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	began := time.Now()
	if _, err := root.Interrupt(ctx, session.InterruptRequest{Reason: "bench"}); err != nil {
		return 0, err
	}
	err := each(ctx, all, func(ctx context.Context, s *session.Handle) error {
		return heard(ctx, s, func(ev event.Event) bool {
			_, over := ev.Payload.(event.QueryInterrupted)
			return over
		})
	})
	return time.Since(began), err
}
