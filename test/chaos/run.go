package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The intervals at which progress is printed and the processes are looked at.
const (
	often = 5 * time.Second
	look  = 60 * time.Millisecond
)

// minTurns is the least number of turns of a session.
const minTurns = 2

// Run kills o.Kills parts under o.Sessions sessions and verifies what became of the
// sessions. The error is about the run itself; the report has the faults of the
// sessions.
func Run(ctx context.Context, o Options) (Report, error) {
	o = o.withDefaults()
	d, err := start(ctx, o, "c")
	if err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r, err := d.run(ctx)
	cancel()
	r.Command = fmt.Sprintf("make chaos SEED=%d KILLS=%d SESSIONS=%d", o.Seed, o.Kills, o.Sessions)
	if o.Full {
		r.Command += " FULL=1"
	}
	return r, errors.Join(err, d.stop())
}

func (d *driver) run(ctx context.Context) (Report, error) {
	d.running = ctx
	for range d.o.Hosts {
		if _, err := d.hosts.add(ctx); err != nil {
			return Report{}, err
		}
	}
	d.say("seed %d: %d kills over %d sessions of %s, %d at once, on %d hosts", d.o.Seed, d.o.Kills, d.o.Sessions, strings.Join(d.o.Agents, ", "), d.o.AtOnce, d.o.Hosts)
	looking, stopLooking := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	watchers.Go(func() { d.leaks.watch(looking, look) })
	defer watchers.Wait()
	defer stopLooking()
	normal, err := d.learn(ctx, scripts)
	if err != nil {
		return Report{}, err
	}
	d.say("what scripts cost undisturbed is known")
	var killed atomic.Int64
	plan := d.plan()
	watchers.Go(func() { d.progress(looking, &killed, len(plan)) })
	killing, stopKilling := context.WithCancel(ctx)
	var killer sync.WaitGroup
	if d.o.For > 0 {
		timed, cancel := context.WithTimeout(killing, d.o.For)
		defer cancel()
		killing = timed
	}
	killer.Go(func() {
		d.carryOut(killing, plan, func() { killed.Add(1) })
		killed.Store(int64(len(plan)))
	})
	d.sessions(ctx, &killed, len(plan))
	stopKilling()
	killer.Wait()
	d.hosts.owned.Wait()
	d.fillDisks(ctx)
	d.say("all sessions are closed; looking for what is left")
	return d.report(ctx, "chaos", func(*testCase) normals { return normal }), ctx.Err()
}

// plan returns the seed's plan, without the kinds that the options leave out.
func (d *driver) plan() []Kill {
	return slices.DeleteFunc(Plan(d.o.Seed, d.o.Kills), func(k Kill) bool {
		if k.Kind == WorkerBefore && d.o.Before == "" {
			d.note("no worker of the build before was given (--before)")
			return true
		}
		return len(d.o.Only) > 0 && !slices.Contains(d.o.Only, k.Kind)
	})
}

// sessions runs all sessions, o.AtOnce at a time. A session continues until its share
// of the kills has been carried out.
func (d *driver) sessions(ctx context.Context, killed *atomic.Int64, kills int) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range d.o.AtOnce {
		all.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1))
				if n > d.o.Sessions {
					return
				}
				d.session(ctx, n, func() bool { return killed.Load()*int64(d.o.Sessions) >= int64(kills*n) })
			}
		})
	}
	all.Wait()
}

func (d *driver) session(ctx context.Context, n int, enough func() bool) {
	agent := d.o.Agents[n%len(d.o.Agents)]
	s, err := d.open(ctx, n, agent)
	if err != nil {
		d.fault(Finding{Fault: Stuck, Kind: Undisturbed, Agent: agent, Detail: err.Error()})
		return
	}
	attending, leave := context.WithCancel(ctx)
	var person sync.WaitGroup
	if s.manner.asks() || s.manner == limited {
		person.Go(func() { s.attend(attending, rand.New(rand.NewPCG(d.o.Seed, uint64(n)|1<<61))) })
	}
	said := 0
	for i := 0; ctx.Err() == nil && (said < minTurns || !enough()); i++ {
		script := scripts[scriptOf(d.o.Seed, n, i)]
		if !s.manner.says(agent, script) {
			continue
		}
		said++
		say := s.say
		if s.manner == steering {
			say = s.sayTwo
		}
		if !say(ctx, script) {
			break
		}
	}
	leave()
	person.Wait()
	s.finish(ctx)
}

// progress prints the state of the run every few seconds.
func (d *driver) progress(ctx context.Context, killed *atomic.Int64, kills int) {
	for ctx.Err() == nil {
		wait(ctx, often)
		var turns, open int
		d.mu.Lock()
		all := slices.Clone(d.done)
		for s := range d.cases {
			all = append(all, s)
		}
		done, events, faults := len(d.done), d.events, len(d.found)
		d.mu.Unlock()
		for _, s := range all {
			s.mu.Lock()
			turns += len(s.turns)
			faults += len(s.found)
			open += len(s.open)
			s.mu.Unlock()
		}
		d.say("%d of %d kills, %d sessions done, %d messages, %d of them open, %d events, %d findings", killed.Load(), kills, done, turns, open, events, faults)
	}
}
