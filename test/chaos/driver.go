package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/harness"
)

// Agents are the default agents of a run: all that the scripted model supports.
var Agents = []string{"claude", "codex", "gemini", "opencode"}

// Options of a run.
type Options struct {
	// Root is the repository, with bin/ and .agents/; default: the working
	// folder.
	Root string
	// Seed determines the plan of kills and the messages.
	Seed uint64
	// Kills is the number of kills; default 25.
	Kills int
	// Sessions is the number of sessions; default 40.
	Sessions int
	// AtOnce is how many of them are open at the same time; default 8.
	AtOnce int
	// For bounds the time of the killing; default no bound.
	For time.Duration
	// Hosts is the number of workers with a data folder; default 2.
	Hosts int
	// Agents are used in turn by the sessions; default [Agents].
	Agents []string
	// Before is the worker program of the build before this one. Without it the plan's
	// kills of [WorkerBefore] are left out.
	Before string
	// Full has sessions use every feature, see [manner], and continue as new every few
	// turns.
	Full bool
	// Only, if set, are the kinds of kills; others of the plan are left out.
	Only []Kind
	// Progress gets a line every few seconds; default none.
	Progress io.Writer
	// Verbose prints every kill too.
	Verbose bool
	// Keep keeps the temporary folder.
	Keep bool
	// Evidence is a folder that gets what is known of each session with a finding, as
	// JSON lines; default none.
	Evidence string
}

func (o Options) withDefaults() Options {
	set := func(n *int, d int) {
		if *n <= 0 {
			*n = d
		}
	}
	set(&o.Kills, 25)
	set(&o.Sessions, 40)
	set(&o.AtOnce, 8)
	set(&o.Hosts, 2)
	if len(o.Agents) == 0 {
		o.Agents = Agents
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// driver is a run or a sweep under way.
type driver struct {
	o      Options
	prefix string
	began  time.Time
	stack  *harness.Stack
	hosts  *hosts
	leaks  *leakCheck

	mu      sync.Mutex
	cases   map[*testCase]bool
	done    []*testCase
	events  int
	changed chan struct{}
	kills   map[Kind]int
	// noted are the notes in order, notes how often each occurred.
	noted   []string
	notes   map[string]int
	found   []Finding
	deleted []deletion
	// hostiles counts the sessions of [HostileTool]. running is the context of the
	// whole run, since they may outlive the killing.
	hostiles int
	running  context.Context
	// disks are the agents whose tools fill a disk at the end. Only the goroutine that
	// kills appends to it.
	disks []string
}

// start starts the stack, the links and the leak check. The caller calls stop.
func start(ctx context.Context, o Options, prefix string) (*driver, error) {
	ho := harness.Options{Root: o.Root, Name: "sojourn-chaos", Keep: o.Keep}
	if o.Full {
		ho.TemporalConfig = []string{fmt.Sprintf("limit.historyCount.suggestContinueAsNew=%d", suggestAt)}
	}
	stack, err := harness.Start(ctx, ho)
	if err != nil {
		return nil, err
	}
	d := &driver{
		o: o, prefix: prefix, began: time.Now(), stack: stack, leaks: newLeakCheck(stack.Dir), changed: make(chan struct{}),
		cases: map[*testCase]bool{}, kills: map[Kind]int{}, notes: map[string]int{},
	}
	l, err := newLinks(stack.Env)
	d.hosts = &hosts{stack: stack, links: l, note: d.note}
	if err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func (d *driver) stop() error { return errors.Join(d.hosts.close(), d.stack.Close()) }

// say prints a line of progress.
func (d *driver) say(format string, args ...any) {
	fmt.Fprintf(d.o.Progress, "%5.0f s  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

// note records what a reader of the report should know, each text once.
func (d *driver) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := fmt.Sprintf(format, args...)
	if d.notes[n]++; d.notes[n] == 1 {
		d.noted = append(d.noted, n)
	}
}

// noteLines returns the notes, with how often each occurred.
func (d *driver) noteLines() (notes []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.noted {
		if times := d.notes[n]; times > 1 {
			n = fmt.Sprintf("%d times: %s", times, n)
		}
		notes = append(notes, n)
	}
	return notes
}

func (d *driver) fault(f Finding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = append(d.found, f)
}

func (d *driver) join(s *testCase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cases[s] = true
}

func (d *driver) leave(s *testCase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.cases, s)
	d.done = append(d.done, s)
}

// heard counts an event of any session.
func (d *driver) heard() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events++
	close(d.changed)
	d.changed = make(chan struct{})
}

// inTurn returns the sessions with an open turn, sorted by id.
func (d *driver) inTurn() []*testCase {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*testCase
	for s := range d.cases {
		if _, ok := s.running(); ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *testCase) int { return strings.Compare(a.id, b.id) })
	return out
}

// everyone returns all sessions that are not done.
func (d *driver) everyone() []*testCase {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*testCase
	for s := range d.cases {
		out = append(out, s)
	}
	return out
}

// learn runs the scripts undisturbed, all agents at the same time, and returns their
// requests and answers.
func (d *driver) learn(ctx context.Context, scripts []string) (normals, error) {
	out := normals{}
	var mu sync.Mutex
	var all sync.WaitGroup
	errs := make([]error, len(d.o.Agents))
	for i, agent := range d.o.Agents {
		all.Go(func() {
			seen, err := d.undisturbed(ctx, 900+i, agent, scripts)
			mu.Lock()
			defer mu.Unlock()
			out[agent], errs[i] = seen, err
		})
	}
	all.Wait()
	return out, errors.Join(errs...)
}

func (d *driver) undisturbed(ctx context.Context, n int, agent string, scripts []string) (map[string]Normal, error) {
	s, err := d.open(ctx, n, agent)
	if err != nil {
		return nil, err
	}
	for _, script := range scripts {
		if !s.say(ctx, script) {
			return nil, fmt.Errorf("%s: %q was not answered, with nothing killed", agent, script)
		}
	}
	s.finish(ctx)
	seen := s.observed()
	d.count(&seen)
	out := map[string]Normal{}
	for _, t := range seen.Turns {
		r := ends(seen, t.Message)[0]
		if r.Outcome != session.Completed || r.Result == nil {
			return nil, fmt.Errorf("%s: %q: %w, with nothing killed", agent, t.Script, r.Err())
		}
		out[t.Script] = Normal{Requests: t.Requests, Answer: unfill(r.Result.Response, t.Mark), Events: len(seen.Heard)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.found) > 0 {
		return out, fmt.Errorf("with nothing killed: %s", s.found[0])
	}
	return out, nil
}

// count fills in the requests that the model received for each turn.
func (d *driver) count(seen *Observed) {
	stats := d.stack.Model.Stats()
	for i := range seen.Turns {
		for _, s := range stats.Sessions {
			for _, p := range s.Prompts {
				if strings.Contains(p.Text, seen.Turns[i].Mark) {
					seen.Turns[i].Requests += p.Requests
				}
			}
		}
	}
}

// leftovers waits until nothing is left of closed sessions, and returns what remains.
func (d *driver) leftovers(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		left := d.left(ctx)
		if len(left) == 0 || ctx.Err() != nil {
			return left
		}
		wait(ctx, 500*time.Millisecond)
	}
}

func (d *driver) left(ctx context.Context) []string {
	var out []string
	for _, p := range d.leaks.list() {
		out = append(out, fmt.Sprintf("process %d %s of %s", p.pid, strings.Join(p.args, " ")[:min(60, len(strings.Join(p.args, " ")))], p.sandbox))
	}
	for _, h := range d.hosts.all {
		for _, pattern := range []string{"sandboxes/*", "sandboxes/.[a-z]*", "s/*", "attempts/*", "bookmarks/*"} {
			found, _ := filepath.Glob(filepath.Join(h.dir, pattern))
			out = append(out, found...)
		}
		found, _ := filepath.Glob(filepath.Join(h.tmp, "*"))
		out = append(out, found...)
	}
	if n, err := d.consumers(context.WithoutCancel(ctx)); err != nil || n > 0 {
		out = append(out, fmt.Sprintf("%d consumers of the stream (%v)", n, err))
	}
	return out
}

// consumers returns the number of the stream's consumers.
func (d *driver) consumers(ctx context.Context) (n int, err error) {
	err = d.withStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		st, err := js.Stream(ctx, "SOJOURN")
		if err != nil {
			return err
		}
		info, err := st.Info(ctx)
		if err != nil {
			return err
		}
		n = info.State.Consumers
		return nil
	})
	return n, err
}

// withStream calls f with a direct connection to the stream's server, which no cut
// interrupts.
func (d *driver) withStream(ctx context.Context, f func(context.Context, jetstream.JetStream) error) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	nc, err := stream.Connect(d.stack.Env["NATS_URL"], d.stack.NATSAccess())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return f(ctx, js)
}

// report sums up all sessions that are done.
func (d *driver) report(ctx context.Context, title string, normal func(*testCase) normals) Report {
	for id, detail := range d.leaks.found() {
		d.duplicate(id, detail)
	}
	for _, left := range d.leftovers(ctx) {
		d.fault(Finding{Fault: Orphan, Kind: Undisturbed, Detail: left})
	}
	var verdicts []verdict
	found := d.found
	for _, s := range d.done {
		if s.n >= 900 {
			continue
		}
		seen := s.observed()
		d.count(&seen)
		v, f := verify(seen, normal(s))
		f = append(f, s.found...)
		verdicts, found = append(verdicts, v...), append(found, f...)
		for _, w := range waits(seen) {
			d.note("%s", w)
		}
		if err := d.keep(seen, f); err != nil {
			d.note("evidence: %v", err)
		}
	}
	return Report{
		Title: title, Seed: d.o.Seed, Machine: fmt.Sprintf("%s, %d shared cores", runtime.GOOS, runtime.NumCPU()), At: d.began,
		Took: time.Since(d.began), Sessions: len(d.done), Rows: rows(d.kills, verdicts, found), Findings: found, Notes: d.noteLines(),
	}
}

// keep writes what is known of a session with findings or long pauses to the evidence.
func (d *driver) keep(seen Observed, found []Finding) error {
	long := waits(seen)
	if len(found)+len(long) == 0 || d.o.Evidence == "" {
		return nil
	}
	if err := os.MkdirAll(d.o.Evidence, 0o700); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(d.o.Evidence, seen.ID+".jsonl"))
	if err != nil {
		return err
	}
	to := json.NewEncoder(f)
	err = to.Encode(map[string]any{"findings": found, "waits": long, "turns": seen.Turns})
	for _, h := range seen.Heard {
		err = errors.Join(err, to.Encode(map[string]any{"at": h.At, "event": h.Event}))
	}
	return errors.Join(err, f.Close())
}

func (d *driver) duplicate(id, detail string) {
	f := Finding{Fault: Duplicate, Kind: Undisturbed, Session: id, Detail: detail}
	for _, s := range d.done {
		if s.id == id {
			f.Kind, f.Agent = s.observed().kind(), s.agent
		}
	}
	d.fault(f)
}
