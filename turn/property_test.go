package turn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// world is what outlives an attempt: the spool and the runner's journal, the stream,
// the host's checkpoint; and a process of the agent that lives and dies beside the
// attempts. It does what activities do around Decide and Machine.
type world struct {
	t       *testing.T
	rnd     *rand.Rand
	now     time.Time
	spool   []spooled
	journal map[string]Span
	process process
	saved   Checkpoint
	offset  int64
	resume  *Resume
	stream  []streamed
	// prompts counts the prompts that each process was written.
	prompts  map[int]int
	texts    int
	attempts int
	// calm is set when nothing dies any more, so that the turn must end.
	calm bool
}

type spooled struct {
	kind string
	n    int
}

type streamed struct {
	place Place
	event event.Event
}

// process is the agent: asked, it says some texts and is idle.
type process struct {
	number int
	alive  bool
	asked  bool
	todo   int
	began  int64
	opened Span
}

const recordBytes = 10

func (w *world) write(kind string, n int) Span {
	at := int64(len(w.spool)) * recordBytes
	w.spool = append(w.spool, spooled{kind, n})
	return Span{at, at + recordBytes}
}

// start starts a process where none is alive.
func (w *world) start() {
	if w.process.alive {
		return
	}
	w.process = process{number: w.process.number + 1, alive: true}
	w.process.began = w.write("start", 0).Offset
	w.process.opened = w.write("in", 0)
}

// live lets the process do something, or die.
func (w *world) live() {
	p := &w.process
	switch {
	case !p.alive:
	case !w.calm && w.rnd.IntN(40) == 0:
		p.alive = false
		w.write("exit", 0)
	case !w.calm && w.rnd.IntN(40) == 0:
		p.alive = false
		w.write("runner", 0)
	case p.asked && p.todo > 0:
		p.todo--
		w.texts++
		w.write("text", w.texts)
	case p.asked:
		p.asked = false
		w.write("idle", 0)
	case w.rnd.IntN(8) == 0:
		w.write("log", 0)
	}
}

// prompt writes the prompt, once per id.
func (w *world) prompt(id string) (Span, bool) {
	if s, known := w.journal[id]; known {
		return s, true
	}
	if !w.process.alive {
		return Span{}, false
	}
	w.prompts[w.process.number]++
	w.process.asked, w.process.todo = true, w.rnd.IntN(5)
	w.journal[id] = w.write("in", 1)
	return w.journal[id], true
}

func (w *world) append(p Place, events ...event.Event) {
	for _, ev := range events {
		w.stream = append(w.stream, streamed{p, ev})
	}
}

func (w *world) ends() (n int) {
	for _, s := range w.stream {
		if _, ends := endOf(s.event.Payload); ends {
			n++
		}
	}
	return n
}

// dies reports whether the worker dies now.
func (w *world) dies() bool { return !w.calm && w.rnd.IntN(30) == 0 }

// attempt makes one attempt, which may die anywhere. It reports whether the message
// is answered.
func (w *world) attempt() (answered bool) {
	w.attempts++
	facts := Facts{ExecutionID: "x1", MessageID: "m1", Checkpoint: w.saved}
	plan := Decide(facts)
	if plan.Kind == Read {
		facts.Stream = &StreamFacts{Ended: w.ends() > 0}
		plan = Decide(facts)
	}
	m := NewMachine(Config{ExecutionID: "x1", Patience: time.Hour, Began: w.now}, "")
	switch plan.Kind {
	case Answer:
		return true
	case Archive:
		w.saved.Unarchived = false
		return false
	case Conclude:
		m.Concluded = &Ending{Outcome: Completed}
	case Start, Reattach, Resumed:
	default:
		require.Fail(w.t, "no such plan here", "%v", plan)
	}
	if n := len(w.stream); n > 0 {
		m.Had = &w.stream[n-1].place
	}
	if w.resume != nil {
		m.Resumes = w.resume.Times
	}
	w.start()
	m.Step(Attached{w.process.began})
	if w.dies() {
		return false
	}
	w.saved.Open, w.saved.OpenMessage = "x1", "m1"
	if place := (Place{Offset: w.offset}); m.Concluded == nil && !m.Has(place) {
		w.append(place, event.FromServer(event.QueryStarted{}, w.now))
	}
	return w.listen(m)
}

// listen reads the spool and lets the process live, in any order.
func (w *world) listen(m *Machine) (answered bool) {
	read, prompted := w.offset, false
	for range 10_000 {
		if w.dies() {
			return false
		}
		if m.Concluded == nil && !prompted && read >= w.process.opened.Next {
			id := "prompt"
			if w.resume != nil {
				id = fmt.Sprint("prompt-resumed-", w.resume.Times)
			}
			if span, ok := w.prompt(id); ok {
				m.Step(Prompted{span})
				prompted = true
			}
		}
		if w.rnd.IntN(2) == 0 {
			w.live()
		}
		if at := int(read / recordBytes); at < len(w.spool) && w.rnd.IntN(3) > 0 {
			r := w.record(at)
			read = r.Next
			for _, a := range m.Step(r) {
				if w.dies() {
					return false
				}
				if done := w.do(m, a); done {
					return false
				}
			}
		}
	}
	require.Fail(w.t, "the turn never ends")
	return false
}

func (w *world) record(at int) Record {
	offset := int64(at) * recordBytes
	r := Record{Span: Span{offset, offset + recordBytes}, At: w.now, Now: w.now}
	main := func(p event.Payload) []event.Event {
		return []event.Event{{Payload: p, Context: event.Context{ConversationID: event.Main, Source: event.SourceRunner}}}
	}
	switch s := w.spool[at]; s.kind {
	case "text":
		r.Events = main(event.BlockUpsert{Block: event.Block{
			ID: fmt.Sprint("t", s.n), Type: event.BlockAssistantText, Status: event.StatusComplete, Content: event.Text("text"),
		}})
	case "idle":
		r.Events = main(event.SessionIdle{})
	case "exit":
		r.Exit = &Exit{How: "exit 1", Offset: offset}
	case "runner":
		r.Exit = &Exit{How: "signal killed", Offset: offset, WithRunner: true}
	}
	return r
}

// do does an action; done reports whether the attempt is over.
func (w *world) do(m *Machine, a Action) (done bool) {
	switch a := a.(type) {
	case Append:
		w.append(a.Place, a.Events...)
	case StopAgent:
		if w.process.alive {
			w.process.alive = false
			w.write("exit", 0)
		}
	case ResumeLater:
		w.resume, w.offset, w.saved.RunnerLost = &a.Resume, a.Next, true
		return true
	case Finish:
		if m.Concluded == nil {
			place := Place{a.Offset, IndexEnd}
			require.False(w.t, m.Has(place), "an end that nobody would append")
			w.append(place, m.EndEvent(Message{ID: "m1"}, a.Ending, 0, w.now))
		}
		if w.dies() {
			return true
		}
		w.saved = Checkpoint{Ended: "x1", EndedMessage: "m1", Unarchived: true}
		return true
	default:
		require.Fail(w.t, "no such action here", "%T", a)
	}
	return false
}

// TestTurnsAtRandom: whatever dies, in whatever order, a process is written the
// message once, the stream has each text once and in order and one end, behind which
// nothing comes, and the message is answered or failed.
func TestTurnsAtRandom(t *testing.T) {
	t.Parallel()
	worlds := uint64(20_000)
	if testing.Short() {
		worlds = 4_000
	}
	attempts, resumed := 0, 0
	for seed := range worlds {
		w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 12)), journal: map[string]Span{}, prompts: map[int]int{}, now: time.Unix(1, 0)}
		for done := false; !done; done = w.attempt() {
			w.calm = w.attempts > 40
			require.Less(t, w.attempts, 60, "seed %d", seed)
		}
		attempts += w.attempts
		if w.resume != nil {
			resumed++
		}
		w.require(seed)
	}
	t.Logf("%d worlds, %d attempts, %d turns were resumed", worlds, attempts, resumed)
	require.Greater(t, resumed, int(worlds/100), "the worlds are too peaceful")
}

func (w *world) require(seed uint64) {
	require.Equal(w.t, 1, w.ends(), "seed %d: ends", seed)
	_, last := endOf(w.stream[len(w.stream)-1].event.Payload)
	require.True(w.t, last, "seed %d: nothing is behind the end", seed)
	require.True(w.t, slices.IsSortedFunc(w.stream, func(a, b streamed) int {
		if a.place.Offset != b.place.Offset {
			return int(a.place.Offset - b.place.Offset)
		}
		return a.place.Index - b.place.Index
	}), "seed %d: places grow", seed)
	var texts []string
	for _, s := range w.stream {
		if p, ok := s.event.Payload.(event.BlockUpsert); ok {
			texts = append(texts, p.Block.ID)
		}
	}
	for i, id := range texts {
		require.Equal(w.t, fmt.Sprint("t", i+1), id, "seed %d: each text once, in order", seed)
	}
	for process, n := range w.prompts {
		require.Equal(w.t, 1, n, "seed %d: process %d was asked once", seed, process)
	}
}
