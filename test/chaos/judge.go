package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
)

// Fault is what must not be.
type Fault string

// The faults that the table counts.
const (
	// Lost: an accepted message has no end, or the end of an agent that lived
	// on is a failure.
	Lost Fault = "lost"
	// Wrong: more than one end, a failure without a name, or another answer
	// than the undisturbed run's.
	Wrong Fault = "wrong"
	// Gap: a subscriber was not given the next number, or text that stands in
	// the conversation never came.
	Gap Fault = "gap"
	// Repeat: a subscriber was given a number, or text, twice.
	Repeat Fault = "repeat"
	// Paid: a model request too many in a turn whose agent lived on.
	Paid Fault = "extra"
	// Torn: a transcript in the archive that is not what the agent wrote, or
	// has a line that is none.
	Torn Fault = "torn"
	// Differs: what was seen live is not what the archive gives.
	Differs Fault = "differs"
	// Twin: two agents of one session at the same time.
	Twin Fault = "twin"
	// Orphan: a process, folder, socket, file or consumer that nobody owns.
	Orphan Fault = "orphan"
	// Stuck: something did not come to its end, such as a close.
	Stuck Fault = "stuck"
)

// faults are all, in the order of the table.
var faults = []Fault{Lost, Wrong, Gap, Repeat, Paid, Torn, Differs, Twin, Orphan, Stuck}

// Finding is one fault and where it was seen.
type Finding struct {
	Fault Fault `json:"fault"`
	// Kind is the hardest kill that the turn met, or for what is no turn's
	// own, the session.
	Kind    Kind   `json:"kind"`
	Session string `json:"session,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Detail  string `json:"detail"`
}

// String is one line.
func (f Finding) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s (%s): %s", f.Fault, f.Session, f.Agent, f.Kind, f.Detail))
}

// Heard is an event as a subscriber got it.
type Heard struct {
	event.Event
	At time.Time
}

// Hit is a kill that a turn met.
type Hit struct {
	Kind Kind      `json:"kind"`
	At   time.Time `json:"at"`
}

// Turn is a message that was accepted and what is known of it from outside.
type Turn struct {
	Mark    string `json:"mark"`
	Script  string `json:"script"`
	Message string `json:"message"`
	Hits    []Hit  `json:"hits,omitempty"`
	// Requests are those that the model was asked about it.
	Requests int `json:"requests"`
	// Asked is the end by the workflow's query, where the event was deleted with
	// the stream.
	Asked *session.Result `json:"asked,omitempty"`
}

func (t Turn) kind() Kind {
	var met []Kind
	for _, h := range t.Hits {
		met = append(met, h.Kind)
	}
	return hardest(met)
}

// resumptions are how often a turn goes on after the loss of a runner or a host.
const resumptions = 3

// resumable says whether a turn must be answered: its agent was not killed by
// itself, and what is below it not too often.
func (t Turn) resumable() bool {
	losses := 0
	for _, h := range t.Hits {
		switch h.Kind {
		case AgentKill, HostileTool:
			return false
		case RunnerKill, HostKill:
			losses++
		}
	}
	return losses <= resumptions
}

// Told is a session as it was seen from outside.
type Told struct {
	ID    string
	Agent string
	Turns []Turn
	Heard []Heard
	// Announced are the numbers at which the subscriber was told, by an error, that
	// events continue.
	Announced []uint64
	// Deleted are the times in the session's life at which the stream was
	// deleted.
	Deleted []time.Time
}

// kind is the hardest that the session met.
func (s Told) kind() Kind {
	var met []Kind
	for _, t := range s.Turns {
		met = append(met, t.kind())
	}
	return hardest(met)
}

func (s Told) finding(f Fault, k Kind, format string, args ...any) Finding {
	return Finding{Fault: f, Kind: k, Session: s.ID, Agent: s.Agent, Detail: fmt.Sprintf(format, args...)}
}

// Normal is what a script costs and answers when nothing is killed.
type Normal struct {
	Requests int    `json:"requests"`
	Answer   string `json:"answer"`
	Events   int    `json:"events"`
}

// normals are by agent and script.
type normals map[string]map[string]Normal

// leaseSilence is less than an agent's lease by what a subscriber hears of the
// last heartbeats.
const leaseSilence = 30 * time.Second

// kindOf is what a turn met. A resumption after a silence as long as the lease
// is the lease's doing, whatever kept the worker away.
func (s Told) kindOf(t Turn) Kind {
	k := t.kind()
	begun, ended := span(s, t)
	if !k.agentLives() || k == Undisturbed || begun.IsZero() {
		return k
	}
	var silent, resumed bool
	last := begun
	for _, h := range s.Heard {
		if h.At.Before(begun) || (!ended.IsZero() && h.At.After(ended)) {
			continue
		}
		silent = silent || h.At.Sub(last) >= leaseSilence
		last = h.At
		if b, ok := h.Payload.(event.BlockUpsert); ok && b.Block.Subtype == "resumed" {
			resumed = true
		}
	}
	if silent && resumed {
		return LeaseOver
	}
	return k
}

// verdict is what became of a turn.
type verdict struct {
	kind             Kind
	answered, failed bool
	// extra are the requests beyond the normal ones, whoever is to blame.
	extra int
	// pauses are those of the turn's subscriber after each kill.
	pauses []pause
}

// pause is how long a subscriber heard nothing new after a kill.
type pause struct {
	kind Kind
	at   time.Time
	took time.Duration
}

// longPause is more than a worker's death should cost anyone.
const longPause = 10 * time.Second

// waits tells the long pauses that no host's loss and no absent server explains,
// and what else the session had met in the minute before.
func waits(s Told) (notes []string) {
	var met []Hit
	for _, t := range s.Turns {
		met = append(met, t.Hits...)
		for _, p := range pauses(s, t) {
			if p.took < longPause || !p.kind.workerDies() || p.kind == HostKill {
				continue
			}
			note := fmt.Sprintf("a subscriber of %s (%s) waited %s behind a %s in %s", s.ID, s.Agent, seconds(p.took), p.kind, t.Mark)
			for _, h := range met {
				if before := p.at.Sub(h.At); before > 0 && before < time.Minute {
					note += fmt.Sprintf(", %s behind a %s", seconds(before), h.Kind)
				}
			}
			notes = append(notes, note)
		}
	}
	return notes
}

// judge holds a session against what must be.
func judge(s Told, normal normals) ([]verdict, []Finding) {
	var verdicts []verdict
	found := numbers(s)
	found = append(found, texts(s)...)
	s.Turns = handedOn(s)
	for _, t := range s.Turns {
		v, f := judgeTurn(s, t, normal[s.Agent][t.Script])
		verdicts, found = append(verdicts, v), append(found, f...)
	}
	return verdicts, found
}

// handedOn gives a kill of the agent to the turn that it hurt: one that came
// when the answer was already said takes effect in the turn behind.
func handedOn(s Told) []Turn {
	turns := slices.Clone(s.Turns)
	for i := 1; i < len(turns); i++ {
		before, after := ends(s, turns[i-1].Message), ends(s, turns[i].Message)
		if len(before) != 1 || len(after) != 1 || before[0].Outcome != session.Completed || after[0].Error == nil || after[0].Error.Code != session.TypeAgentFailed {
			continue
		}
		for _, h := range turns[i-1].Hits {
			if h.Kind == AgentKill && turns[i].resumable() {
				turns[i].Hits = append([]Hit{h}, turns[i].Hits...)
			}
		}
	}
	return turns
}

// ends are the ends of a message that were heard, each number once, without those
// that were forgotten. A turn that had ended when the stream was deleted, and whose
// worker died before it had written that down, is told anew with its end: the same
// end of the same execution behind a deletion is the one from before.
func ends(s Told, message string) []session.Result {
	var out []session.Result
	var last time.Time
	seen := map[uint64]bool{}
	for _, h := range s.Heard {
		r, ok := session.ResultOf(h.Event, message)
		if !ok || seen[h.Context.Seq] {
			continue
		}
		if len(out) > 0 && s.deleted(last, h.At) && (sameEnd(out[len(out)-1], r) || s.hostLost(last, h.At)) {
			out = out[:len(out)-1]
		}
		last, seen[h.Context.Seq] = h.At, true
		out = append(out, r)
	}
	return out
}

// forgotten reports whether a message had ended in the stream and on its host only,
// and both were lost before Temporal heard of it: the turn is run again, or fails
// with its host.
func (s Told) forgotten(message string) bool {
	var ended time.Time
	for _, h := range s.Heard {
		switch q, begins := h.Payload.(event.QueryStarted); {
		case ended.IsZero():
			if _, ends := session.ResultOf(h.Event, message); ends {
				ended = h.At
			}
		case begins && slices.Contains(q.MessageIDs, message):
			return s.deleted(ended, h.At) && s.hostLost(ended, h.At)
		}
	}
	return false
}

// hostLost reports whether the session's host was given up between two moments, or
// shortly behind: that is written in one step with what it does to a turn.
func (s Told) hostLost(from, to time.Time) bool {
	return slices.ContainsFunc(s.Heard, func(h Heard) bool {
		gone, ok := h.Payload.(event.EETerminated)
		return ok && gone.Reason == "unhealthy" && h.At.After(from) && !h.At.After(to.Add(time.Second))
	})
}

func sameEnd(a, b session.Result) bool {
	if a.ExecutionID != b.ExecutionID || a.Outcome != b.Outcome || (a.Result == nil) != (b.Result == nil) || (a.Error == nil) != (b.Error == nil) {
		return false
	}
	return (a.Result == nil || a.Result.Response == b.Result.Response) && (a.Error == nil || a.Error.Code == b.Error.Code)
}

// outcomes says of each end how and of which execution it is.
func outcomes(all []session.Result) string {
	var out []string
	for _, r := range all {
		said := fmt.Sprintf("%s (%s)", r.Outcome, r.ExecutionID)
		if r.Error != nil {
			said += " " + r.Error.Message
		}
		out = append(out, said)
	}
	return strings.Join(out, ", ")
}

func judgeTurn(s Told, t Turn, normal Normal) (verdict, []Finding) {
	v := verdict{kind: s.kindOf(t), pauses: pauses(s, t)}
	if normal.Requests > 0 {
		v.extra = max(0, t.Requests-normal.Requests)
	}
	var found []Finding
	say := func(f Fault, format string, args ...any) {
		found = append(found, s.finding(f, v.kind, t.Mark+" "+format, args...))
	}
	all := ends(s, t.Message)
	if len(all) == 0 && t.Asked != nil {
		all = append(all, *t.Asked)
	}
	if len(all) == 0 {
		say(Lost, "has no end")
		return v, found
	}
	if len(all) > 1 {
		say(Wrong, "has %d ends: %s", len(all), outcomes(all))
	}
	v.answered = all[0].Outcome == session.Completed
	v.failed = !v.answered
	if v.failed {
		judgeFailure(t, all[0], say)
	} else {
		judgeAnswer(v, t, all[0], normal, say)
	}
	if v.kind.agentLives() && v.extra > 0 && !s.forgotten(t.Message) {
		say(Paid, "cost %d requests in place of %d", t.Requests, normal.Requests)
	}
	return v, found
}

// judgeFailure checks the end of a turn that was not answered.
func judgeFailure(t Turn, r session.Result, say func(Fault, string, ...any)) {
	switch {
	case r.Error == nil || r.Error.Code == "":
		say(Wrong, "failed without a name")
	case t.resumable():
		say(Lost, "failed though nobody killed its agent: %s: %s", r.Error.Code, r.Error.Message)
	}
}

// judgeAnswer checks an answer whose agent was left alone: it is the undisturbed
// run's.
func judgeAnswer(v verdict, t Turn, r session.Result, normal Normal, say func(Fault, string, ...any)) {
	if !v.kind.agentLives() || v.kind == ToolKill {
		return
	}
	if r.Result != nil && unfill(r.Result.Response, t.Mark) != normal.Answer {
		say(Wrong, "%s", unlike(unfill(r.Result.Response, t.Mark), normal.Answer))
	}
	if t.Requests < normal.Requests {
		say(Wrong, "cost %d requests in place of %d", t.Requests, normal.Requests)
	}
}

// unlike shows where an answer is another than the undisturbed run's.
func unlike(got, want string) string {
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	around := func(s string) string { return s[max(0, n-20):min(len(s), n+100)] }
	return fmt.Sprintf("was answered %d bytes in place of %d, not the same from byte %d on: %q in place of %q", len(got), len(want), n, around(got), around(want))
}

// numbers checks that a subscriber was given every number once, in order. Behind a
// deletion of the stream it may be given a higher one, which an error named before,
// once.
func numbers(s Told) []Finding {
	var found []Finding
	var last uint64
	var before time.Time
	for _, h := range s.Heard {
		n := h.Context.Seq
		switch {
		case n > last+1 && !s.deleted(before, h.At):
			found = append(found, s.finding(Gap, s.kind(), "event %d came after %d", n, last))
		case n > last+1 && s.announcements(n) != 1:
			found = append(found, s.finding(Gap, s.kind(), "event %d came after %d, and %d errors said so", n, last, s.announcements(n)))
		case n <= last:
			found = append(found, s.finding(Repeat, s.kind(), "event %d came after %d", n, last))
		}
		last, before = max(last, n), h.At
	}
	return found
}

func (s Told) announcements(number uint64) (n int) {
	for _, a := range s.Announced {
		if a == number {
			n++
		}
	}
	return n
}

// deleted reports whether the stream was deleted between two moments, or shortly
// before: a subscriber may have read on for a moment.
func (s Told) deleted(from, to time.Time) bool {
	return slices.ContainsFunc(s.Deleted, func(at time.Time) bool { return at.After(from.Add(-time.Second)) && at.Before(to) })
}

// texts checks that the deltas of each text make up the text: a record that was
// skipped or translated twice shows here, however well the numbers are.
func texts(s Told) []Finding {
	if len(s.Deleted) > 0 {
		return nil // some of the deltas were deleted before they were read
	}
	var found []Finding
	deltas, order := deltasOf(s)
	final := finalBlocks(s)
	for _, id := range order {
		heard, said := deltas[id]
		b, ok := final[id]
		if !said || !ok || !textIsDeltas(b) || heard == *b.Content {
			continue // One that was not said anew was lost, and is as its transcript has it.
		}
		fault := Gap
		if len(heard) > len(*b.Content) {
			fault = Repeat
		}
		found = append(found, s.finding(fault, s.kind(), "block %s: %d bytes of deltas for %d of text", id, len(heard), len(*b.Content)))
	}
	return found
}

// textIsDeltas reports whether a block's text is what its deltas made.
func textIsDeltas(b event.Block) bool {
	return b.Type == event.BlockAssistantText && (b.Status == event.StatusComplete || reducer.Lost(b)) && b.Content != nil
}

// deltasOf joins the deltas of each block; order has the blocks as they were heard.
// What was heard of a block before it was lost doesn't count once it is said anew.
func deltasOf(s Told) (deltas map[string]string, order []string) {
	deltas = map[string]string{}
	lost := map[string]bool{}
	for _, h := range s.Heard {
		switch p := h.Payload.(type) {
		case event.BlockUpsert:
			if lost[p.Block.ID] && !reducer.Lost(p.Block) {
				delete(deltas, p.Block.ID)
			}
			lost[p.Block.ID] = reducer.Lost(p.Block)
		case event.BlockDelta:
			if _, known := deltas[p.BlockID]; !known && !slices.Contains(order, p.BlockID) {
				order = append(order, p.BlockID)
			}
			deltas[p.BlockID] += p.Delta
		}
	}
	return deltas, order
}

func finalBlocks(s Told) map[string]event.Block {
	fold := reducer.NewBuilder(reducer.State{})
	for _, h := range s.Heard {
		fold.Add(h.Event)
	}
	final := map[string]event.Block{}
	for _, b := range fold.State().Blocks {
		final[b.ID] = b
	}
	return final
}

// stopOver is longer than a worker is stopped, and an attempt then takes to
// follow: if none has by then, the stop was too short to cost the attempt.
const stopOver = 10 * time.Second

// pauses are how long the subscriber waited from each kill to the first word
// of the next attempt. Kills with no attempt between them make one pause, the
// hardest one's. A kill behind which no attempt followed gives none: the turn was
// over.
func pauses(s Told, t Turn) []pause {
	var out []pause
	begun, ended := span(s, t)
	var waiting []Hit
	for i, hit := range t.Hits {
		if len(waiting) == 1 && waiting[0].Kind == WorkerStop && hit.At.Sub(waiting[0].At) > stopOver {
			waiting = nil
		}
		if begun.IsZero() || hit.At.Before(begun) || (len(waiting) == 0 && !hit.Kind.workerDies()) {
			continue
		}
		waiting = append(waiting, hit)
		at := slices.IndexFunc(s.Heard, func(h Heard) bool { return h.At.After(hit.At) && fence(h.Event) })
		if at < 0 || (!ended.IsZero() && s.Heard[at].At.After(ended)) {
			break
		}
		next := s.Heard[at].At
		if i+1 == len(t.Hits) || !t.Hits[i+1].At.Before(next) {
			out = append(out, pause{Turn{Hits: waiting}.kind(), waiting[0].At, next.Sub(waiting[0].At)})
			waiting = nil
		}
	}
	return out
}

// workerDies says whether a new attempt must follow on the same host.
func (k Kind) workerDies() bool {
	return k == WorkerKill || k == WorkerTerm || k == WorkerStop || k == RunnerKill || k == HostKill
}

// fence says whether an event is the first of an attempt.
func fence(e event.Event) bool {
	st, ok := e.Payload.(event.Status)
	return ok && st.Runtime == nil && st.Attempt > 0
}

// span is when a turn's beginning and end were heard.
func span(s Told, t Turn) (begun, ended time.Time) {
	for _, h := range s.Heard {
		if q, ok := h.Payload.(event.QueryStarted); ok && begun.IsZero() && slices.Contains(q.MessageIDs, t.Message) {
			begun = h.At
		}
		if _, ok := session.ResultOf(h.Event, t.Message); ok && ended.IsZero() {
			ended = h.At
		}
	}
	return begun, ended
}
