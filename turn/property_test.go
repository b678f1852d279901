package turn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/steering"
)

// world is what outlives an attempt: the spool and the runner's journal, the stream, the
// host's checkpoint; and a process of the agent that lives and dies concurrently with the
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
	// prompts counts the prompts that were written to each process.
	prompts  map[int]int
	steers   steers
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

// process is the agent: when prompted, it writes some texts and is idle.
type process struct {
	number int
	alive  bool
	asked  bool
	todo   int
	began  int64
	opened Span
	// waiting are messages that it was sent and has not taken, taken those that it has.
	waiting, taken []string
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
	w.process = process{number: w.process.number + 1, alive: true, taken: slices.Clone(w.steers.persisted)}
	w.process.began = w.write("start", 0).Offset
	w.process.opened = w.write("in", 0)
}

// live lets the process do one step, or die.
func (w *world) live() {
	p := &w.process
	switch {
	case !p.alive:
	case !w.calm && w.rnd.IntN(40) == 0:
		w.exit("exit")
	case !w.calm && w.rnd.IntN(40) == 0:
		w.exit("runner")
	case p.asked:
		w.work()
	case len(p.waiting) > 0:
		p.asked = true
		w.takeUp("own")
	case w.rnd.IntN(8) == 0:
		w.write("log", 0)
	}
}

// work lets a prompted process do one step.
func (w *world) work() {
	p := &w.process
	switch {
	case len(p.waiting) > 0 && w.rnd.IntN(3) == 0:
		w.takeUp("folded")
	case p.todo > 0:
		p.todo--
		w.texts++
		w.write("text", w.texts)
	case len(p.waiting) > 0 && w.rnd.IntN(2) == 0:
		w.takeUp("own") // without text in between
	default:
		p.asked = false
		w.rests("idle")
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

// steers are the messages that arrive while the agent works.
type steers struct {
	// asked counts those that were requested, saved is what the checkpoint has.
	asked int
	saved steering.Messages
	// persisted is what the transcripts have, in the order in which it was taken.
	persisted []string
	interrupt *Interrupt
	// ended are the messages that the execution's end names.
	ended []string
}

// exit ends the process, which may have persisted some of what it took.
func (w *world) exit(how string) {
	w.process.alive = false
	w.write(how, 0)
	w.persist()
}

func (w *world) persist() {
	have := len(w.steers.persisted)
	w.steers.persisted = slices.Clone(w.process.taken[:have+w.rnd.IntN(len(w.process.taken)-have+1)])
}

func (w *world) takeUp(how string) {
	p := &w.process
	id := p.waiting[0]
	p.waiting, p.taken, p.todo = p.waiting[1:], append(p.taken, id), p.todo+w.rnd.IntN(3)
	w.spool = append(w.spool, spooled{how, int(id[1] - '0')})
	w.persist()
}

// hand writes a message to the process, once per id.
func (w *world) hand(id string) {
	input := id
	if w.resume != nil {
		input += fmt.Sprint("-resumed-", w.resume.Times)
	}
	if _, known := w.journal[input]; known || !w.process.alive {
		return
	}
	w.journal[input] = w.write("in", 2)
	if w.rnd.IntN(6) == 0 {
		w.write("refused", int(id[1]-'0'))
		return
	}
	w.process.waiting = append(w.process.waiting, id)
}

// stop is an interrupt: the agent drops what it has not taken, or starts with it.
func (w *world) stop(id string) {
	p := &w.process
	if _, known := w.journal[id]; known || !p.alive {
		return
	}
	w.journal[id] = w.write("in", 3)
	switch {
	case p.asked && len(p.waiting) > 0 && w.rnd.IntN(2) == 0:
		w.takeUp("own")
	case p.asked:
		p.asked, p.todo = false, 0
		if w.rnd.IntN(2) == 0 {
			p.waiting = nil
		}
		w.rests("stopped")
	}
}

// rests makes the agent idle, with all that it took in its transcripts.
func (w *world) rests(how string) {
	w.steers.persisted = slices.Clone(w.process.taken)
	w.write(how, 0)
}

// want sends the turn a request.
func (w *world) want(m *Machine) (done bool) {
	var s Signal = InterruptRequested{ID: "interrupt"}
	if w.rnd.IntN(8) > 0 && w.steers.asked < 9 && !w.refuses(m.Read) {
		id := fmt.Sprint("s", w.steers.asked)
		if w.rnd.IntN(4) > 0 || w.steers.asked == 0 {
			w.steers.asked++
		} else {
			id = fmt.Sprint("s", w.steers.asked-1)
		}
		s = SteerRequested{steering.Message{ID: id, BlockIDs: []string{id}}}
	}
	return w.all(m, m.Step(s))
}

// refuses reports whether a refusal was not read yet: the agent's server refuses a message
// at once, before a person sends the next one.
func (w *world) refuses(read int64) bool {
	return slices.ContainsFunc(w.spool[read/recordBytes:], func(s spooled) bool { return s.kind == "refused" })
}

// transcripts returns what is persisted.
func (w *world) transcripts() (s reducer.State) {
	for _, id := range w.steers.persisted {
		s.Blocks = append(s.Blocks, event.Block{ID: id, Type: event.BlockUserMessage})
	}
	return s
}

// refused returns what the stream has as refused.
func (w *world) refused() map[string]bool {
	h := NewHistory(Scope{})
	for i, s := range w.stream {
		s.event.Context.Seq = uint64(i + 1)
		h.Add(s.event)
	}
	return h.Refused
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
	m := NewMachine(Config{ExecutionID: "x1", Patience: time.Hour, Began: w.now, Steers: true}, "")
	m.Steered = w.steers.saved
	if w.steers.interrupt != nil {
		m.ContinueInterrupt("", w.now, w.now)
	}
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
		m.Resume = *w.resume
	}
	w.start()
	m.Step(Attached{w.process.began})
	if w.dies() {
		return false
	}
	w.saved.Open, w.saved.OpenMessage = "x1", "m1"
	if place := (Place{Offset: w.offset}); m.Concluded == nil && !m.Has(place) {
		if w.resume != nil {
			m.Steered, _ = m.Steered.Persisted(w.transcripts(), w.refused())
			w.steers.saved = m.Steered
		}
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
			var over bool
			if prompted, over = w.ask(m); over {
				return false
			}
		}
		if prompted && !w.calm && w.rnd.IntN(20) == 0 && w.want(m) {
			return false
		}
		if w.rnd.IntN(2) == 0 {
			w.live()
		}
		if at := int(read / recordBytes); at < len(w.spool) && w.rnd.IntN(3) > 0 {
			r := w.record(at)
			read = r.Next
			if w.all(m, m.Step(r)) {
				return false
			}
		}
	}
	require.Fail(w.t, "the turn never ends")
	return false
}

// ask writes the prompt.
func (w *world) ask(m *Machine) (prompted, over bool) {
	id := "prompt"
	if w.resume != nil {
		id = fmt.Sprint("prompt-resumed-", w.resume.Times)
	}
	span, ok := w.prompt(id)
	return ok, ok && w.all(m, m.Step(Prompted{span}))
}

// all carries out actions; over reports whether the attempt is over.
func (w *world) all(m *Machine, actions []Action) (over bool) {
	for _, a := range actions {
		if w.dies() || w.do(m, a) {
			return true
		}
	}
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
			ID: fmt.Sprint("t", s.n), Type: event.BlockAssistantText, Status: event.StatusComplete, Content: new("text"),
		}})
	case "folded":
		r.Events = main(event.MessageFolded{MessageRef: event.MessageRef{MessageID: fmt.Sprint("s", s.n)}})
	case "own":
		r.Events = main(event.MessageOwnTurn{MessageRef: event.MessageRef{MessageID: fmt.Sprint("s", s.n)}})
	case "refused":
		r.Events = main(event.Error{MessageID: fmt.Sprint("s", s.n)})
	case "idle":
		r.Events = main(event.SessionIdle{})
	case "stopped":
		r.Events = main(event.SessionIdle{Interrupted: true})
	case "exit":
		r.Exit = &Exit{How: "exit 1", Offset: offset}
	case "runner":
		r.Exit = &Exit{How: "signal killed", Offset: offset, WithRunner: true}
	}
	return r
}

// do carries out an action; done reports whether the attempt is over.
func (w *world) do(m *Machine, a Action) (done bool) {
	switch a := a.(type) {
	case Append:
		w.append(a.Place, a.Events...)
	case StopAgent:
		if w.process.alive {
			w.exit("exit")
		}
	case SteerAgent:
		w.steers.saved = m.Steered
		if w.dies() {
			return true
		}
		w.hand(a.Message.ID)
	case RefuseSteer:
	case InterruptAgent:
		w.stop(a.ID)
		m.Step(Interrupting{Now: w.now})
		w.steers.interrupt = m.Interrupt
	case ResumeLater:
		w.resume, w.offset, w.saved.RunnerLost = &a.Resume, a.Next, true
		return true
	case Finish:
		if m.Concluded == nil {
			place := Place{a.Offset, IndexEnd}
			require.False(w.t, m.Has(place), "an end that would not be appended")
			if a.Ending.Exited {
				m.Steered, _ = m.Steered.Persisted(w.transcripts(), w.refused())
			}
			end := m.EndEvent(Message{ID: "m1"}, a.Ending, 0, w.now)
			q, _ := endOf(end.Payload)
			w.steers.ended = q.MessageIDs
			w.append(place, end)
			w.requireSteered()
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

// requireSteered: at the end of an execution a message that was sent is named if, and only
// if, the agent has it: one that is not is sent again, and one that is never is.
func (w *world) requireSteered() {
	have := w.steers.persisted
	if w.process.alive {
		require.Empty(w.t, w.process.waiting, "a live agent has no pending message")
		have = w.process.taken
	}
	require.Equal(w.t, append([]string{"m1"}, have...), w.steers.ended, "spool %v, process %+v, saved %+v, journal %v", w.spool, w.process, w.steers.saved, w.journal)
}

// TestTurnsAtRandom: whatever dies, in whatever order, the message is written to a process
// once, messages that are sent while it works are named by the end if and only if the agent
// has them (requireSteered), the stream has each text once and in order and one end as its
// last event, and the message is answered or failed.
func TestTurnsAtRandom(t *testing.T) {
	t.Parallel()
	worlds := uint64(20_000)
	if testing.Short() {
		worlds = 4_000
	}
	attempts, resumed, folded := 0, 0, 0
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
		folded += len(w.steers.ended) - 1
		w.require(seed)
	}
	t.Logf("%d worlds, %d attempts, %d turns were resumed, %d messages folded", worlds, attempts, resumed, folded)
	require.Greater(t, folded, int(worlds/20), "the agents are left alone")
	require.Greater(t, resumed, int(worlds/100), "the worlds are too peaceful")
}

func (w *world) require(seed uint64) {
	require.Equal(w.t, 1, w.ends(), "seed %d: ends", seed)
	_, last := endOf(w.stream[len(w.stream)-1].event.Payload)
	require.True(w.t, last, "seed %d: the end is the last event", seed)
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
