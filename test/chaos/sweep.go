package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// SweepOptions are the options of a sweep.
type SweepOptions struct {
	// Options are those of a run; Kills, Sessions and Only are ignored.
	Options
	// Parts are the kinds of kills, each done at every event; default [SweepParts].
	Parts []Kind
}

// SweepParts are the default kinds of kills of a sweep.
var SweepParts = []Kind{WorkerKill, AgentKill, HostKill}

// The number of turns that run at the same time. The loss of a host is noticed after
// its lease, which takes no processor time, so those can be many.
const (
	narrow = 4
	wide   = 16
)

// Sweep runs one script with an agent repeatedly, each time in a session and on a host
// of its own, and kills the same part at every single event of it, from the first to
// the last. The error is about the sweep itself; faults of the sessions are in the
// report.
func Sweep(ctx context.Context, o SweepOptions) (Report, error) {
	o.Options = o.Options.withDefaults()
	if len(o.Parts) == 0 {
		o.Parts = SweepParts
	}
	d, err := start(ctx, o.Options, "s")
	if err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r, err := d.sweep(ctx, o.Parts)
	cancel()
	var parts []string
	for _, p := range o.Parts {
		parts = append(parts, string(p))
	}
	r.Command = fmt.Sprintf("make sweep AGENT=%s PART=%s", strings.Join(o.Agents, ","), strings.Join(parts, ","))
	return r, errors.Join(err, d.stop())
}

// step is one turn of a sweep: an agent, a kind of kill, and the session's event at
// which it is done.
type step struct {
	n     int
	agent string
	kind  Kind
	event int
}

func (d *driver) sweep(ctx context.Context, parts []Kind) (Report, error) {
	looking, stopLooking := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { d.leaks.watch(looking, look) })
	defer watchers.Wait()
	defer stopLooking()
	first, err := d.hosts.add(ctx)
	if err != nil {
		return Report{}, err
	}
	normal, err := d.learn(ctx, []string{sweepScript})
	if err != nil {
		return Report{}, err
	}
	if err := first.take().Stop(); err != nil {
		return Report{}, err
	}
	n := 0
	for _, kind := range parts {
		var steps []step
		for _, agent := range d.o.Agents {
			for i := range normal[agent][sweepScript].Events {
				n++
				steps = append(steps, step{n, agent, kind, i + 1})
			}
		}
		d.say("%s at each of %d events", kind, len(steps))
		if err := d.part(ctx, kind, steps); err != nil {
			return Report{}, err
		}
	}
	d.hosts.owned.Wait()
	return d.report(ctx, "sweep", func(*testCase) normals { return normal }), ctx.Err()
}

// part runs the steps of one kind of kill.
func (d *driver) part(ctx context.Context, kind Kind, steps []step) error {
	width := narrow
	if kind == HostKill {
		width = wide
	}
	for group := range slices.Chunk(steps, width) {
		if err := d.group(ctx, group); err != nil {
			return err
		}
		d.say("%s: %d of %d", kind, group[len(group)-1].n-steps[0].n+1, len(steps))
	}
	return nil
}

// group runs some steps at the same time. Each has a host of its own, which takes one
// session only. Sessions that lose their host use a spare one.
func (d *driver) group(ctx context.Context, steps []step) error {
	own := make([]*host, len(steps))
	var starting sync.WaitGroup
	errs := make([]error, len(steps))
	for i := range steps {
		starting.Go(func() { own[i], errs[i] = d.hosts.add(ctx, "--capacity=1") })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var struck atomic.Int64
	var all sync.WaitGroup
	for _, st := range steps {
		all.Go(func() { d.step(ctx, st, &struck) })
	}
	if steps[0].kind == HostKill {
		all.Go(func() { d.spare(ctx, len(steps), &struck) })
	}
	all.Wait()
	for _, h := range d.hosts.living() {
		if p := h.take(); p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}

// spare starts a host for sessions that lost theirs, once all of them have, or most
// have and no more follow.
func (d *driver) spare(ctx context.Context, n int, struck *atomic.Int64) {
	for began := time.Now(); ctx.Err() == nil && struck.Load() < int64(n) && time.Since(began) < time.Minute; {
		wait(ctx, 100*time.Millisecond)
	}
	if _, err := d.hosts.add(ctx); err != nil {
		d.note("spare host: %v", err)
	}
}

// step runs one turn and does its kill at its event.
func (d *driver) step(ctx context.Context, st step, struck *atomic.Int64) {
	s, err := d.open(ctx, st.n, st.agent)
	if err != nil {
		struck.Add(1)
		d.fault(Finding{Fault: Stuck, Kind: st.kind, Agent: st.agent, Detail: err.Error()})
		return
	}
	// The last events are those of the close, so the kill may be done during it.
	var killer sync.WaitGroup
	killing, stop := context.WithCancel(ctx)
	killer.Go(func() {
		defer struck.Add(1)
		d.strikeAt(killing, s, st)
	})
	s.say(ctx, sweepScript)
	s.finish(ctx)
	stop()
	killer.Wait()
}

// strikeAt waits for the step's event and does its kill.
func (d *driver) strikeAt(ctx context.Context, s *testCase, st step) {
	short, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	n := 0
	if !s.sub.until(short, func(Heard) bool { n++; return n >= st.event }) {
		d.note("%s: event %d never came", s.id, st.event)
		return
	}
	if d.sweepKill(ctx, s, st.kind) {
		d.mu.Lock()
		d.kills[st.kind]++
		d.mu.Unlock()
		return
	}
	d.note("%s: there was no %s to kill at event %d", s.id, st.kind, st.event)
}

// sweepKill does the kill on the session's own part, as soon as there is one.
func (d *driver) sweepKill(ctx context.Context, s *testCase, kind Kind) bool {
	for range 100 {
		if h := d.hosts.of(s.id); kind != AgentKill && h != nil {
			p := h.take()
			if p == nil {
				return false
			}
			d.strike(kind, func(other *testCase) bool { return other == s }, h.dir)
			if kind == HostKill {
				return h.kill(p) == nil
			}
			d.endWorker(context.WithoutCancel(ctx), Kill{Kind: kind}, h, p)
			return true
		}
		if kind == AgentKill && d.killOne(s, d.leaks.list(), kind, 0) {
			return true
		}
		if _, open := s.running(); !open {
			return false
		}
		wait(ctx, 20*time.Millisecond)
	}
	return false
}
