package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
)

const (
	// earlyTurn is compared with late ones.
	earlyTurn = 20
	// turnRounds is the number of turns that are measured from each on. With 64 the
	// processor time of one build had between 1.07 and 1.18 of the younger session's.
	turnRounds = 160
	// shortTurn is the prompt of every turn.
	shortTurn = "SAY one more short answer"
)

// comparedAgents are those whose turns are compared.
var comparedAgents = []string{"claude", "codex", "gemini", "opencode"}

// lateTurns are compared by default.
const lateTurns = "1000"

// turns compares whole turns early and late in a session, with real agents and real
// turns. A young and an old session of each agent alternate on one
// worker, so both run under the same conditions.
func (b *bench) turns(ctx context.Context) (_ []Figure, err error) {
	counter, err := countRequests(b.stack.Env["AWS_ENDPOINT_URL_S3"])
	if err != nil {
		return nil, err
	}
	defer counter.stop()
	h, err := b.startHost(ctx, "AWS_ENDPOINT_URL_S3="+counter.url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	var figures []Figure
	for _, agent := range comparedAgents {
		compared, err := b.turnsOf(ctx, agent, meter{h, counter})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", agent, err)
		}
		figures = append(figures, compared...)
	}
	return figures, nil
}

// turnsOf grows a session of an agent, and compares its late turns with those of a young
// session.
func (b *bench) turnsOf(ctx context.Context, agent string, m meter) (figures []Figure, err error) {
	old, err := b.begin(ctx, agent)
	if err != nil {
		return nil, err
	}
	for _, late := range b.late {
		b.say("turns: %d turns of %s", late, agent)
		young, err := b.begin(ctx, agent)
		if err != nil {
			return nil, err
		}
		// The turn before the first that is measured warms the agent: see compare.
		g, growing := errgroup.WithContext(ctx)
		g.Go(func() error { return young.answer(growing, earlyTurn-2) })
		g.Go(func() error { return old.answer(growing, late-2) })
		if err := g.Wait(); err != nil {
			return nil, err
		}
		b.say("turns: comparing %s", agent)
		compared, err := b.compare(ctx, m, young, old)
		if err != nil {
			return nil, err
		}
		for _, f := range compared.over(agent, late) {
			b.say("turns: %s", strings.Join(f.cells(), "  "))
			figures = append(figures, f)
		}
		if err := young.Close(ctx); err != nil {
			return nil, err
		}
	}
	return figures, old.Close(ctx)
}

// aged is a session and the number of turns that it has had.
type aged struct {
	*session.Handle
	turns int
}

func (b *bench) begin(ctx context.Context, agent string) (*aged, error) {
	s, err := b.stack.Client.Create(ctx, "", session.Options{Agent: agent})
	return &aged{Handle: s}, err
}

// answer has the session's agent answer until it has had that many turns.
func (s *aged) answer(ctx context.Context, turns int) error {
	for s.turns < turns {
		s.turns++
		if err := answer(ctx, s.Handle, shortTurn); err != nil {
			return fmt.Errorf("turn %d: %w", s.turns, err)
		}
	}
	return nil
}

// compare measures turns of both sessions, alternately, after both agents are warm: the
// young session was idle while the old one grew.
func (b *bench) compare(ctx context.Context, m meter, young, old *aged) (c comparison, err error) {
	pair := []*aged{young, old}
	for _, s := range pair {
		if err := s.answer(ctx, s.turns+1); err != nil {
			return c, err
		}
	}
	costs := []*turnCosts{&c.early, &c.late}
	for range turnRounds {
		for i, s := range pair {
			if err := b.awaitIdle(ctx, s.Handle); err != nil {
				return c, err
			}
			cost, err := m.measure(ctx, b, s.Handle)
			if err != nil {
				return c, err
			}
			s.turns++
			*costs[i] = append(*costs[i], cost)
		}
	}
	return c, nil
}

// turnCost is what a turn cost, from Send until the workflow is idle. took ends with
// the answer. agent is the part of took for the agent and its model, which read the
// whole conversation each time.
type turnCost struct {
	read, requests, cpu, took, agent float64
}

type turnCosts []turnCost

// comparison has what turns of a young session cost, and turns of an old one.
type comparison struct{ early, late turnCosts }

// over compares the late turns, from a number on, with the early ones.
func (c comparison) over(agent string, number int) []Figure {
	type measure func(turnCosts) float64
	one := func(what, unit string, of measure) Figure {
		return Figure{Name: fmt.Sprintf("%s: %s of turn %d", agent, what, number), Value: of(c.late), Unit: unit}.
			over(of(c.early), fmt.Sprintf("the same of turn %d; of %d turns from each on, in turns, the median, of requests and processor time the mean", earlyTurn, turnRounds))
	}
	ours := func(what, unit string, of measure) Figure {
		f := one(what, unit, of)
		return f.wants("within 15 %", *f.Ratio <= 1.15)
	}
	median := func(of func(turnCost) float64) measure {
		return func(costs turnCosts) float64 { return costs.median(of) }
	}
	mean := func(of func(turnCost) float64) measure {
		return func(costs turnCosts) float64 { return costs.mean(of) }
	}
	return []Figure{
		// The archive merges what it has whenever its size has doubled: one of the turns
		// after the 1 000th reads all of it, and would be most of a mean.
		ours("bytes read", "bytes", median(func(c turnCost) float64 { return c.read })),
		// Of what only some turns have, as a garbage collection, a mean has its share; a
		// median has all of it or nothing.
		ours("requests to S3", "requests", mean(func(c turnCost) float64 { return c.requests })),
		ours("processor time", "s", mean(func(c turnCost) float64 { return c.cpu })),
		ours("Send → answer without the agent", "s", median(func(c turnCost) float64 { return c.took - c.agent })),
		one("Send → answer", "s", median(func(c turnCost) float64 { return c.took })),
	}
}

func (costs turnCosts) median(of func(turnCost) float64) float64 {
	var all []float64
	for _, c := range costs {
		all = append(all, of(c))
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func (costs turnCosts) mean(of func(turnCost) float64) (sum float64) {
	for _, c := range costs {
		sum += of(c)
	}
	return sum / float64(len(costs))
}

// meter measures a turn by what the worker's process and the runners of its sandboxes
// use during it, and by its requests to S3.
type meter struct {
	host    *host
	counter *requestCounter
}

func (m meter) measure(ctx context.Context, b *bench, s *session.Handle) (cost turnCost, err error) {
	requests := m.counter.of(s.ID())
	seq, err := b.lastSeq(ctx, s)
	if err != nil {
		return cost, err
	}
	before, err := m.used()
	if err != nil {
		return cost, err
	}
	began := time.Now()
	if err := answer(ctx, s, shortTurn); err != nil {
		return cost, err
	}
	cost.took = time.Since(began).Seconds()
	if err := b.awaitIdle(ctx, s); err != nil {
		return cost, err
	}
	after, err := m.used()
	if err != nil {
		return cost, err
	}
	for pid, u := range after {
		// The usage of a process that started or ended in between is counted by its
		// parent, which waits for it.
		if was, known := before[pid]; known {
			cost.read, cost.cpu = cost.read+u.read-was.read, cost.cpu+u.cpu-was.cpu
		}
	}
	cost.requests = float64(m.counter.of(s.ID()) - requests)
	cost.agent, err = m.atWork(ctx, b, s, seq)
	return cost, err
}

// atWork returns how long the agent worked on the turn after an event: from the query's
// start, after which it is sent the prompt, until it has reported that it is idle and
// has written its transcript. Claude Code writes later than it reports, and the later
// the longer the session is; the turn's end waits for it.
func (m meter) atWork(ctx context.Context, b *bench, s *session.Handle, seq uint64) (float64, error) {
	began, idle, err := inStream(ctx, s, seq)
	if err != nil {
		return 0, err
	}
	written, err := m.written(ctx, b, s)
	if err != nil {
		return 0, err
	}
	if written.After(idle) {
		idle = written
	}
	return idle.Sub(began).Seconds(), nil
}

// written returns when the agent last wrote to the transcripts that the archive has
// whole. One that has grown since was not what the turn's end waited for.
func (m meter) written(ctx context.Context, b *bench, s *session.Handle) (last time.Time, err error) {
	transcripts, err := b.stack.Archive.Transcripts(ctx, s.ID())
	if err != nil {
		return last, err
	}
	for _, t := range transcripts {
		if t.Kind != adapters.Append {
			continue
		}
		found, err := filepath.Glob(filepath.Join(m.host.dataDir, "sandboxes", s.ID()+"-*", "home", t.Path))
		if err != nil {
			return last, err
		}
		for _, path := range found {
			info, err := os.Stat(path)
			if err != nil {
				return last, err
			}
			if info.Size() == t.Size && info.ModTime().After(last) {
				last = info.ModTime()
			}
		}
	}
	return last, nil
}

// inStream returns when the turn after an event began and when its agent reported that
// it is idle, by the records in the stream.
func inStream(ctx context.Context, s *session.Handle, seq uint64) (began, idle time.Time, err error) {
	for ev, err := range s.Events(ctx, seq, false) {
		if err != nil {
			return began, idle, err
		}
		switch ev.Payload.(type) {
		case event.QueryStarted:
			began = ev.Context.Timestamp
		case event.SessionIdle:
			idle = ev.Context.Timestamp
		}
	}
	if began.IsZero() || idle.Before(began) {
		return began, idle, fmt.Errorf("the agent was at work from %s to %s", began, idle)
	}
	return began, idle, nil
}

// used returns what the host's processes except the agents have used so far.
func (m meter) used() (map[int]used, error) {
	pids, err := harness.Agents(m.host.dataDir)
	if err != nil {
		return nil, err
	}
	all := map[int]used{}
	for _, pid := range append(slices.DeleteFunc(pids, isNoRunner), m.host.PID()) {
		all[pid], err = usageOf(pid)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			delete(all, pid) // it has ended meanwhile
		} else if err != nil {
			return nil, err
		}
	}
	return all, nil
}
