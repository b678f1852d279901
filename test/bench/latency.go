package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

const (
	lineRounds = 5
	// linesPerRound lines, one every linePause: an agent that prints fast.
	linesPerRound = 400
	linePause     = 4 * time.Millisecond

	sendRounds = 60
)

// pacedAgent returns this program under its other name.
func (b *bench) pacedAgent() (program string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	// The agent's sandbox must see the program, and the stack's folders are hidden from
	// it. So the program keeps its path, and a symlink has the other name.
	program = filepath.Join(b.stack.Dir, pacedProgram)
	if err := os.Symlink(self, program); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return program, nil
}

// pacedWorker starts a worker whose agent is this program.
func (b *bench) pacedWorker(ctx context.Context, extra ...string) (h *host, program string, err error) {
	if program, err = b.pacedAgent(); err != nil {
		return nil, "", err
	}
	h, err = b.startHost(ctx, append(extra, "SOJOURN_CLAUDE="+program)...)
	return h, program, err
}

// line measures from just before the agent writes a line until a subscriber in another
// process has the event: pipe, runner and its spool, worker, translator, batch,
// JetStream, follower.
func (b *bench) line(ctx context.Context) (_ []Figure, err error) {
	h, program, err := b.pacedWorker(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	s, err := b.warmSession(ctx)
	if err != nil {
		return nil, err
	}
	var all, floors []sample
	for range lineRounds {
		floor, err := pipeAndPublish(ctx, program, b.stack.Env["NATS_URL"], b.stack.NATSAccess(), linesPerRound, linePause)
		if err != nil {
			return nil, err
		}
		deltas, err := b.listen(ctx, s, fmt.Sprintf("PACE %d %s", linesPerRound, linePause))
		if err != nil {
			return nil, err
		}
		floors, all = append(floors, floor), append(all, deltas)
	}
	p50, p99 := lowest(all, 0.50), lowest(all, 0.99)
	const is = "a pipe and a publish through the same NATS server, nothing stored"
	return []Figure{
		seconds("agent's line → subscriber, p50", p50).over(lowest(floors, 0.50).Seconds(), is).
			wants("< 2 ms", p50 < 2*time.Millisecond).
			noted("the best of %d rounds of %d lines; they were %s", lineRounds, linesPerRound, eachAt(all, 0.50)),
		seconds("agent's line → subscriber, p99", p99).over(lowest(floors, 0.99).Seconds(), is).
			noted("the best round; they were %s", eachAt(all, 0.99)),
	}, s.Close(ctx)
}

// listen runs a turn and returns the age at which each line reached a subscriber. It
// leaves out the first one, which is the prompt's own.
func (b *bench) listen(ctx context.Context, s *session.Handle, prompt string) (ages sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	after, err := b.lastSeq(ctx, s)
	if err != nil {
		return nil, err
	}
	sent := make(chan error, 1)
	go func() { _, err := s.Send(ctx, session.Message{Text: prompt}); sent <- err }()
	defer func() { err = errors.Join(err, <-sent) }()
	heard := -1
	for ev, err := range s.Events(ctx, after, session.Follow) {
		now := monotonic()
		if err != nil {
			return nil, err
		}
		switch p := ev.Payload.(type) {
		case event.BlockDelta:
			at, err := readStamp(p.Delta)
			if err != nil {
				return nil, err
			}
			if heard++; heard > 0 {
				ages = append(ages, now-at)
			}
		case event.QueryFailed:
			return nil, fmt.Errorf("turn: %s", p.Error.Message)
		case event.QueryCompleted:
			return ages, nil
		}
	}
	return nil, errors.New("the events ended before the turn")
}

// send measures from the call of Send to the prompt at the stdin of a warm and idle
// agent, each time beside an update of the plain workflow.
func (b *bench) send(ctx context.Context) (_ []Figure, err error) {
	h, _, err := b.pacedWorker(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	s, err := b.warmSession(ctx)
	if err != nil {
		return nil, err
	}
	var prompts, updates sample
	for range sendRounds {
		update, err := b.floor.update(ctx, noopUpdate)
		if err != nil {
			return nil, err
		}
		prompt, err := b.timePrompt(ctx, s)
		if err != nil {
			return nil, err
		}
		updates, prompts = append(updates, update), append(prompts, prompt)
	}
	p50, floor := prompts.at(0.5), updates.at(0.5)
	return []Figure{
		seconds("Send → prompt at a warm agent, p50", p50).
			over(floor.Seconds(), "an update of a plain workflow that runs one activity which does nothing").
			wants("≤ 1.5 × floor", p50.Seconds() <= 1.5*floor.Seconds()).
			noted("%d of each, in turns; p90 %s, floor's p90 %s", sendRounds, round(prompts.at(0.9)), round(updates.at(0.9))),
	}, s.Close(ctx)
}

// busySessions have a turn each while receipts are measured, at which their agents print a
// line every busyPause. busyHosts workers have room for them.
const (
	busySessions = 50
	busyHosts    = 2
	busyPause    = 100 * time.Millisecond
	// busyLines are enough for the whole measurement; the sessions are closed behind it.
	busyLines = 6000
)

// receipt measures from the call of Send at a busy session to the receipt, each time beside
// an update of the plain workflow that does nothing.
func (b *bench) receipt(ctx context.Context) (_ []Figure, err error) {
	for range busyHosts {
		h, _, failed := b.pacedWorker(ctx)
		if failed != nil {
			return nil, failed
		}
		defer func() { err = errors.Join(err, h.stop()) }()
	}
	busy, err := b.busy(ctx)
	if err != nil {
		return nil, err
	}
	var receipts, updates sample
	for i := range sendRounds {
		update, err := b.floor.update(ctx, bareUpdate)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if _, err := busy[i%len(busy)].Send(ctx, session.Message{Text: "PACE 1 1ms"}); err != nil {
			return nil, err
		}
		receipts, updates = append(receipts, time.Since(began)), append(updates, update)
	}
	p50, floor := receipts.at(0.5), updates.at(0.5)
	return []Figure{
		seconds(fmt.Sprintf("`Send` → receipt, %d busy sessions, p50", busySessions), p50).
			over(floor.Seconds(), "an update of a plain workflow that does nothing").
			wants("≤ 2 × floor", p50 <= 2*floor).
			noted("%d of each, in turns; p90 %s, floor's p90 %s", sendRounds, round(receipts.at(0.9)), round(updates.at(0.9))),
	}, closeAll(ctx, busy)
}

// busy returns busySessions sessions whose agents are at work.
func (b *bench) busy(ctx context.Context) (all []*session.Handle, err error) {
	for range busySessions {
		s, err := b.open(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, each(ctx, all, func(ctx context.Context, s *session.Handle) error {
		r, err := s.Send(ctx, session.Message{Text: fmt.Sprintf("PACE %d %s", busyLines, busyPause)})
		if err != nil {
			return err
		}
		for ev, err := range s.Events(ctx, r.AfterSeq, session.Follow) {
			if err != nil {
				return err
			}
			if _, works := ev.Payload.(event.BlockDelta); works {
				return nil
			}
		}
		return fmt.Errorf("session %s ended", s.ID())
	})
}

// timePrompt sends a message to an idle session; the agent reports when the prompt
// arrived.
func (b *bench) timePrompt(ctx context.Context, s *session.Handle) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	began := monotonic()
	r, err := s.Send(ctx, session.Message{Text: "PACE 0 1ms"})
	if err != nil {
		return 0, err
	}
	res, err := s.Wait(ctx, r)
	if err != nil {
		return 0, err
	}
	if err := res.Err(); err != nil {
		return 0, err
	}
	came, err := readStamp(res.Result.Response)
	if err != nil {
		return 0, err
	}
	return came - began, b.awaitIdle(ctx, s)
}

func seconds(name string, d time.Duration) Figure {
	return Figure{Name: name, Value: d.Seconds(), Unit: "s"}
}

// sample is a set of measured times.
type sample []time.Duration

// at returns a quantile.
func (s sample) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// lowest returns the lowest quantile of several samples, since noise only adds.
func lowest(all []sample, q float64) time.Duration {
	least := all[0].at(q)
	for _, s := range all[1:] {
		least = min(least, s.at(q))
	}
	return least
}

// eachAt returns the quantile of every sample, as text.
func eachAt(all []sample, q float64) string {
	var words []string
	for _, s := range all {
		words = append(words, round(s.at(q)))
	}
	return strings.Join(words, ", ")
}

func round(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }
