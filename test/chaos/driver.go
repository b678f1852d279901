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

// Agents are those that a run has by default: all that the scripted model can
// stand behind.
var Agents = []string{"claude", "codex", "gemini", "opencode"}

// Options of a run.
type Options struct {
	// Root is the repository, with bin/ and .agents/; default: the working
	// folder.
	Root string
	// Seed decides the plan of kills and the messages.
	Seed uint64
	// Kills is how many; default 25.
	Kills int
	// Sessions is how many; default 40.
	Sessions int
	// AtOnce is how many of them live at the same time; default 8.
	AtOnce int
	// For ends the killing early, so that a run takes about so long; default
	// never.
	For time.Duration
	// Hosts is how many workers with a data folder there are; default 2.
	Hosts int
	// Agents take turns over the sessions; default [Agents].
	Agents []string
	// Before is the program of a worker of the build before this one; without
	// it no such worker is among the kills.
	Before string
	// Only, if given, are the kinds of kills; others of the plan are left out.
	Only []Kind
	// Progress hears what goes on, a line per some seconds; default none.
	Progress io.Writer
	// Every kill is told too.
	Verbose bool
	// Keep leaves the temporary folder.
	Keep bool
	// Evidence is a folder that gets what is known of each session with a
	// finding, as JSON lines; default none.
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
	census *census

	mu       sync.Mutex
	sittings map[*sitting]bool
	done     []*sitting
	events   int
	changed  chan struct{}
	kills    map[Kind]int
	// noted are the notes in order, notes how often each came.
	noted []string
	notes map[string]int
	found []Finding
	// deleted are the times at which the stream was deleted.
	deleted []time.Time
	// hostiles counts the sessions of [HostileTool]; running is the context of the
	// whole run, since they may outlive the killing.
	hostiles int
	running  context.Context
	// disks are the agents whose tools fill a disk at the end; only the killer
	// adds to them.
	disks []string
}

// start brings up stack, links and census; stop must be called in any case.
func start(ctx context.Context, o Options, prefix string) (*driver, error) {
	stack, err := harness.Start(ctx, harness.Options{Root: o.Root, Name: "sojourn-chaos", Keep: o.Keep})
	if err != nil {
		return nil, err
	}
	d := &driver{
		o: o, prefix: prefix, began: time.Now(), stack: stack, census: newCensus(stack.Dir), changed: make(chan struct{}),
		sittings: map[*sitting]bool{}, kills: map[Kind]int{}, notes: map[string]int{},
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

// note keeps what a reader should know, each once.
func (d *driver) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := fmt.Sprintf(format, args...)
	if d.notes[n]++; d.notes[n] == 1 {
		d.noted = append(d.noted, n)
	}
}

// told are the notes, with how often each came.
func (d *driver) told() (notes []string) {
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

func (d *driver) join(s *sitting) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sittings[s] = true
}

func (d *driver) leave(s *sitting) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sittings, s)
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

// sitting are those with an open turn, in the order of their ids.
func (d *driver) inTurn() []*sitting {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*sitting
	for s := range d.sittings {
		if _, ok := s.running(); ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *sitting) int { return strings.Compare(a.id, b.id) })
	return out
}

// everyone are all sessions that are not done.
func (d *driver) everyone() []*sitting {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*sitting
	for s := range d.sittings {
		out = append(out, s)
	}
	return out
}

// learn runs scripts undisturbed, all agents at the same time, and gives what
// they cost and say.
func (d *driver) learn(ctx context.Context, scripts []string) (normals, error) {
	out := normals{}
	var mu sync.Mutex
	var all sync.WaitGroup
	errs := make([]error, len(d.o.Agents))
	for i, agent := range d.o.Agents {
		all.Go(func() {
			told, err := d.undisturbed(ctx, 900+i, agent, scripts)
			mu.Lock()
			defer mu.Unlock()
			out[agent], errs[i] = told, err
		})
	}
	all.Wait()
	return out, errors.Join(errs...)
}

func (d *driver) undisturbed(ctx context.Context, n int, agent string, scripts []string) (map[string]Normal, error) {
	s, err := d.sit(ctx, n, agent)
	if err != nil {
		return nil, err
	}
	for _, script := range scripts {
		if !s.say(ctx, script) {
			return nil, fmt.Errorf("%s: %q was not answered, with nothing killed", agent, script)
		}
	}
	s.finish(ctx)
	told := s.told()
	d.count(&told)
	out := map[string]Normal{}
	for _, t := range told.Turns {
		r := ends(told, t.Message)[0]
		if r.Outcome != session.Completed || r.Result == nil {
			return nil, fmt.Errorf("%s: %q: %w, with nothing killed", agent, t.Script, r.Err())
		}
		out[t.Script] = Normal{Requests: t.Requests, Answer: unfill(r.Result.Response, t.Mark), Events: len(told.Heard)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.found) > 0 {
		return out, fmt.Errorf("with nothing killed: %s", s.found[0])
	}
	return out, nil
}

// count fills in what the model was asked.
func (d *driver) count(told *Told) {
	stats := d.stack.Model.Stats()
	for i := range told.Turns {
		for _, s := range stats.Sessions {
			for _, p := range s.Prompts {
				if strings.Contains(p.Text, told.Turns[i].Mark) {
					told.Turns[i].Requests += p.Requests
				}
			}
		}
	}
}

// leftovers waits until nothing is left of closed sessions, and says what is.
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
	for _, p := range d.census.list() {
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

// consumers counts what the server keeps for readers.
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

// withStream lends a connection to the stream's server that no cut concerns.
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
func (d *driver) report(ctx context.Context, title string, normal func(*sitting) normals) Report {
	for id, detail := range d.census.found() {
		d.twin(id, detail)
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
		told := s.told()
		d.count(&told)
		v, f := judge(told, normal(s))
		f = append(f, s.found...)
		verdicts, found = append(verdicts, v...), append(found, f...)
		for _, w := range waits(told) {
			d.note("%s", w)
		}
		if err := d.keep(told, f); err != nil {
			d.note("evidence: %v", err)
		}
	}
	return Report{
		Title: title, Seed: d.o.Seed, Machine: fmt.Sprintf("%s, %d shared cores", runtime.GOOS, runtime.NumCPU()), At: d.began,
		Took: time.Since(d.began), Sessions: len(d.done), Rows: rows(d.kills, verdicts, found), Findings: found, Notes: d.told(),
	}
}

// keep writes what is known of a session with findings or long pauses.
func (d *driver) keep(told Told, found []Finding) error {
	long := waits(told)
	if len(found)+len(long) == 0 || d.o.Evidence == "" {
		return nil
	}
	if err := os.MkdirAll(d.o.Evidence, 0o700); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(d.o.Evidence, told.ID+".jsonl"))
	if err != nil {
		return err
	}
	to := json.NewEncoder(f)
	err = to.Encode(map[string]any{"findings": found, "waits": long, "turns": told.Turns})
	for _, h := range told.Heard {
		err = errors.Join(err, to.Encode(map[string]any{"at": h.At, "event": h.Event}))
	}
	return errors.Join(err, f.Close())
}

func (d *driver) twin(id, detail string) {
	f := Finding{Fault: Twin, Kind: Undisturbed, Session: id, Detail: detail}
	for _, s := range d.done {
		if s.id == id {
			f.Kind, f.Agent = s.told().kind(), s.agent
		}
	}
	d.fault(f)
}
