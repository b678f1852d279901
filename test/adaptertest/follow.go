package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/runner"
)

// follow reads the records of one process to its end.
func (r *Rig) follow(ctx context.Context, conn *runner.Conn, from int64, done chan<- struct{}) {
	defer close(done)
	defer r.wake()
	for d, err := range conn.Records(ctx, from) {
		if err != nil {
			if ctx.Err() == nil {
				r.fault(err)
			}
			return
		}
		if !r.pass(ctx) {
			return
		}
		r.take(ctx, d)
	}
}

// pass waits while the reader is held back. It reports false if ctx ends first.
func (r *Rig) pass(ctx context.Context) bool {
	r.mu.Lock()
	shut := r.shut
	if shut != nil {
		r.waits = true
		r.changedNow()
	}
	r.mu.Unlock()
	if shut == nil {
		return true
	}
	select {
	case <-shut:
		return true
	case <-ctx.Done():
		return false
	}
}

// HoldBack stops the reading of records until LetGo is called.
func (r *Rig) HoldBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut, r.waits = make(chan struct{}), false
}

// LetGo ends a HoldBack.
func (r *Rig) LetGo() { r.openGate() }

func (r *Rig) openGate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut != nil {
		close(r.shut)
		r.shut = nil
	}
}

// take translates one record and reacts to its events as a host does.
func (r *Rig) take(ctx context.Context, d runner.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.changedNow()
	r.mixIn(ctx, d.Record)
	r.step(ctx, d.Record)
	r.next = d.Next
	if r.held && d.Next >= r.opening {
		r.held = false
		r.check(r.dialogue.Release(ctx))
	}
	if exited(d.Record) && r.torn {
		r.markLost(d.Record.TS)
	}
}

func (r *Rig) step(ctx context.Context, record traffic.Record) {
	events, err := r.dialogue.Step(ctx, record)
	r.check(err)
	now := r.parts[len(r.parts)-1]
	now.records, now.said = append(now.records, record), append(now.said, events)
	now.bytes += len(record.Line)
	for _, e := range events {
		r.fold.Add(e)
		r.events = append(r.events, e)
		r.decide(ctx, e)
	}
}

// check records an error of the translation or of writing.
func (r *Rig) check(err error) {
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, runner.ErrClosed) {
		r.faults = append(r.faults, err)
	}
}

func (r *Rig) fault(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, err)
}

// mixIn translates a few unknown records before a real one. The scenario checks what
// they become.
func (r *Rig) mixIn(ctx context.Context, before traffic.Record) {
	if !r.options.Unknown || before.Dir == event.DirSig {
		return
	}
	for range r.random.IntN(3) {
		r.unknown++
		r.step(ctx, traffic.Record{TS: before.TS, Dir: event.DirOut, Line: r.agent.unknown(r.random)})
	}
}

// unknown returns a record that no version of the agent prints.
func (a Agent) unknown(random *rand.Rand) string {
	if a.Unknown != nil {
		return a.Unknown(random)
	}
	n := random.IntN(1000)
	if random.IntN(2) == 0 {
		return fmt.Sprintf(`{"type":"unheard.of_%d","properties":{"n":%d,"text":"✓"}}`, n, n)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","type":"unheard_%d","method":"unheard/of_%d","params":{"list":[1,null,{}]}}`, n, n)
}

// decide answers by the session's permission mode, as a host does.
func (r *Rig) decide(ctx context.Context, e event.Event) {
	asked, ok := e.Payload.(event.PermissionRequested)
	if !ok || len(asked.Questions) > 0 || r.Launch.Permission == adapters.PermissionAsk {
		return
	}
	answer := adapters.Answer{RequestID: asked.RequestID, Allow: true, Input: asked.Input}
	if r.Launch.Permission == adapters.PermissionDeny {
		answer = adapters.Answer{RequestID: asked.RequestID, Message: policyDenies, Input: asked.Input}
	}
	r.check(r.dialogue.Say(ctx, "answer-"+asked.RequestID, answer))
}

// policyDenies is the message to the agent when the policy denies a request.
const policyDenies = "This session's policy denies it."

func exited(rec traffic.Record) bool {
	return rec.Dir == event.DirSig && (strings.HasPrefix(rec.Line, "exit") || strings.HasPrefix(rec.Line, "signal"))
}

// markLost adds the events that mark what the killed process had not written.
func (r *Rig) markLost(at time.Time) {
	restored, _ := r.parse() // a kill may leave a torn line
	for _, e := range loss.Difference(r.fold.State(), restored, loss.Options{At: at}) {
		r.fold.Add(e)
		r.events = append(r.events, e)
	}
}

// parse returns the conversation of the transcripts in the home.
func (r *Rig) parse() (reducer.State, []error) {
	return fold(r.agent.Adapter.Parse(r.sources()))
}

// sources are the transcripts in the home.
func (r *Rig) sources() []adapters.Source {
	home := r.place.home()
	found, err := r.agent.Adapter.Transcripts(home, r.Launch)
	r.check(err)
	return sourcesIn(home, found)
}

func fold(events iter.Seq2[event.Event, error]) (reducer.State, []error) {
	b := reducer.NewBuilder(reducer.State{})
	var errs []error
	for e, err := range events {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b.Add(e)
	}
	return b.State(), errs
}

func (r *Rig) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changedNow()
}

// changedNow wakes everything that waits for a change.
func (r *Rig) changedNow() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func pretty(v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
