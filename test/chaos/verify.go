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

// Fault is a kind of violation.
type Fault string

// The faults that the table counts.
const (
	// Lost: an accepted message has no end, or its turn failed though the agent
	// survived.
	Lost Fault = "lost"
	// Wrong: more than one end, a failure without a name, or an answer that differs
	// from the undisturbed run's.
	Wrong Fault = "wrong"
	// Gap: a subscriber missed a sequence number, or text of the conversation.
	Gap Fault = "gap"
	// Repeat: a subscriber got a sequence number, or text, twice.
	Repeat Fault = "repeat"
	// Extra: a model request too many in a turn whose agent survived.
	Extra Fault = "extra"
	// Torn: an archived transcript differs from what the agent wrote, or has a
	// malformed line.
	Torn Fault = "torn"
	// Differs: the live conversation differs from the archived one.
	Differs Fault = "differs"
	// Duplicate: two agents of one session at the same time.
	Duplicate Fault = "duplicate"
	// Orphan: a process, folder, socket, file or consumer remains without a session.
	Orphan Fault = "orphan"
	// Stuck: something, such as a close, did not end in time.
	Stuck Fault = "stuck"
)

// faults are all, in the order of the table.
var faults = []Fault{Lost, Wrong, Gap, Repeat, Extra, Torn, Differs, Duplicate, Orphan, Stuck}

// Finding is one fault and where it was found.
type Finding struct {
	Fault Fault `json:"fault"`
	// Kind is the hardest kill that the turn met, or the session if the fault is not
	// one turn's.
	Kind    Kind   `json:"kind"`
	Session string `json:"session,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Detail  string `json:"detail"`
}

// String implements fmt.Stringer, on one line.
func (f Finding) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s (%s): %s", f.Fault, f.Session, f.Agent, f.Kind, f.Detail))
}

// Heard is an event as a subscriber received it.
type Heard struct {
	event.Event
	At time.Time
}

// Hit is a kill that a turn met.
type Hit struct {
	Kind Kind      `json:"kind"`
	At   time.Time `json:"at"`
}

// Turn is an accepted message and what is observed of it from outside.
type Turn struct {
	Mark    string `json:"mark"`
	Script  string `json:"script"`
	Message string `json:"message"`
	Hits    []Hit  `json:"hits,omitempty"`
	// Steered: its message was folded into another one's turn, or another one into its
	// turn.
	Steered bool `json:"steered,omitempty"`
	// Overdue: the run did not wait for its end, and that alone is a fault of the turn.
	Overdue bool `json:"overdue,omitempty"`
	sent    time.Time
	// Requests is the number of requests that the model received for it.
	Requests int `json:"requests"`
	// Asked is the end by the workflow's query, if the event was deleted with the
	// stream.
	Asked *session.Result `json:"asked,omitempty"`
}

func (t Turn) kind() Kind {
	var met []Kind
	for _, h := range t.Hits {
		met = append(met, h.Kind)
	}
	return hardest(met)
}

// due returns when a turn that was sent at a time is overdue.
func (t Turn) due(sent time.Time) time.Time {
	for _, h := range t.Hits {
		if !h.Kind.agentLives() && h.At.After(sent) {
			sent = h.At
		}
	}
	return sent.Add(turnPatience)
}

// resumptions is how often a turn continues after the loss of a runner or a host.
const resumptions = 3

// resumable reports whether a turn must be answered: its agent was not killed directly,
// and its runner or host not too often.
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

// Observed is a session as observed from outside.
type Observed struct {
	ID    string
	Agent string
	Turns []Turn
	Heard []Heard
	// Announced are the sequence numbers at which, by an error to the subscriber, the
	// events continue.
	Announced []uint64
	// Deleted are the times at which the stream was deleted, in the session's life or
	// so shortly before that there was none when it began.
	Deleted []time.Time
}

// kind returns the hardest kill that the session met.
func (s Observed) kind() Kind {
	var met []Kind
	for _, t := range s.Turns {
		met = append(met, t.kind())
	}
	return hardest(met)
}

func (s Observed) finding(f Fault, k Kind, format string, args ...any) Finding {
	return Finding{Fault: f, Kind: k, Session: s.ID, Agent: s.Agent, Detail: fmt.Sprintf(format, args...)}
}

// Normal is the requests and the answer of a script when nothing is killed.
type Normal struct {
	Requests int    `json:"requests"`
	Answer   string `json:"answer"`
	Events   int    `json:"events"`
}

// normals are by agent and script.
type normals map[string]map[string]Normal

// leaseSilence is an agent's lease without the time in which a subscriber still
// receives events of the last heartbeats.
const leaseSilence = 30 * time.Second

// parked reports whether the session was parked between two times.
func (s Observed) parked(from, to time.Time) bool {
	return slices.ContainsFunc(s.Heard, func(h Heard) bool {
		b, ok := h.Payload.(event.BlockUpsert)
		return ok && b.Block.Subtype == "parked" && !h.At.Before(from) && (to.IsZero() || !h.At.After(to))
	})
}

// kindOf returns what a turn met. A resumption after a silence as long as the lease
// counts as LeaseOver, whatever stopped the worker.
func (s Observed) kindOf(t Turn) Kind {
	k := t.kind()
	begun, ended := span(s, t)
	switch {
	case !k.agentLives():
		return k
	case s.parked(begun, ended):
		return Parked
	case t.Steered:
		return Steered
	}
	if k == Undisturbed || begun.IsZero() {
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

// verdict is the result for a turn.
type verdict struct {
	kind             Kind
	answered, failed bool
	// extra is the number of requests beyond the normal ones, whatever the cause.
	extra int
	// pauses are the subscriber's pauses after each kill.
	pauses []pause
}

// pause is how long a subscriber received nothing new after a kill.
type pause struct {
	kind Kind
	at   time.Time
	took time.Duration
}

// longPause is longer than a pause after a worker's death should be.
const longPause = 10 * time.Second

// waits returns the long pauses that neither a lost host nor an unreachable server
// explains, and what else the session had met in the minute before.
func waits(s Observed) (notes []string) {
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

// verify checks a session against the guarantees.
func verify(s Observed, normal normals) ([]verdict, []Finding) {
	var verdicts []verdict
	found := numbers(s)
	found = append(found, texts(s)...)
	s.Turns = handedOn(s)
	for _, t := range s.Turns {
		v, f := verifyTurn(s, t, normal[s.Agent][t.Script])
		verdicts, found = append(verdicts, v), append(found, f...)
	}
	return verdicts, found
}

// handedOn assigns a kill of the agent to the turn that it hurt. A kill after the
// answer takes effect in the next turn.
func handedOn(s Observed) []Turn {
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

// ends returns the ends of a message that were received, each sequence number once,
// without forgotten ones. If the stream was deleted after a turn's end, and the worker
// died before it had stored that end, the turn is emitted again: the same end of the
// same execution after a deletion replaces the earlier one.
func ends(s Observed, message string) []session.Result {
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
		last, seen[h.Context.Seq] = h.written(), true
		out = append(out, r)
	}
	return out
}

// forgotten reports whether a message's end was only in the stream and on its host, and
// both were lost before Temporal received it. The turn is then run again, or fails with
// its host if the session closes. Before its host is lost it may be streamed anew.
func (s Observed) forgotten(message string) bool {
	var ended time.Time
	for _, h := range s.Heard {
		q, begins := h.Payload.(event.QueryStarted)
		begins = begins && slices.Contains(q.MessageIDs, message)
		end, ends := session.ResultOf(h.Event, message)
		fails := end.Error != nil && end.Error.Code == session.TypeHostLost
		again := begins || ends && (end.Outcome == session.Completed || fails)
		switch {
		case ended.IsZero() && ends:
			ended = h.written()
		case !ended.IsZero() && again && s.deleted(ended, h.At) && s.hostLost(ended, h.At):
			return true
		}
	}
	return false
}

// hostLost reports whether the session's host was given up between two times, or
// shortly after: that event is written in one step with its effect on a turn.
func (s Observed) hostLost(from, to time.Time) bool {
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

// outcomes returns the outcome and execution of each end, in words.
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

func verifyTurn(s Observed, t Turn, normal Normal) (verdict, []Finding) {
	v := verdict{kind: s.kindOf(t), pauses: pauses(s, t)}
	if normal.Requests > 0 {
		v.extra = max(0, t.Requests-normal.Requests)
	}
	if t.Overdue {
		v.failed = true
		return v, nil
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
		verifyFailure(t, all[0], s.forgotten(t.Message), say)
	} else {
		verifyAnswer(v, t, all[0], normal, say)
	}
	if v.kind.agentLives() && v.extra > 0 && !s.forgotten(t.Message) {
		say(Extra, "cost %d requests in place of %d", t.Requests, normal.Requests)
	}
	return v, found
}

// verifyFailure checks the end of a turn that was not answered. A forgotten answer was
// received before.
func verifyFailure(t Turn, r session.Result, forgotten bool, say func(Fault, string, ...any)) {
	switch {
	case r.Error == nil || r.Error.Code == "":
		say(Wrong, "failed without a name")
	case t.resumable() && !forgotten:
		say(Lost, "failed though nobody killed its agent: %s: %s", r.Error.Code, r.Error.Message)
	}
}

// verifyAnswer checks that an answer is the undisturbed run's, if the agent survived, and
// else that it is not another message's.
func verifyAnswer(v verdict, t Turn, r session.Result, normal Normal, say func(Fault, string, ...any)) {
	if !v.kind.agentLives() || v.kind == ToolKill {
		if r.Result != nil && !t.Steered {
			if other := otherMark(r.Result.Response, t.Mark); other != "" {
				say(Wrong, "was answered with the words of %s", other)
			}
		}
		return
	}
	if r.Result != nil && unfill(r.Result.Response, t.Mark) != normal.Answer {
		say(Wrong, "%s", unlike(unfill(r.Result.Response, t.Mark), normal.Answer))
	}
	if t.Requests < normal.Requests {
		say(Wrong, "cost %d requests in place of %d", t.Requests, normal.Requests)
	}
}

// unlike shows where an answer differs from the undisturbed run's.
func unlike(got, want string) string {
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	around := func(s string) string { return s[max(0, n-20):min(len(s), n+100)] }
	return fmt.Sprintf("was answered %d bytes in place of %d, not the same from byte %d on: %q in place of %q", len(got), len(want), n, around(got), around(want))
}

// numbers checks that a subscriber got every sequence number once, in order. After a
// deletion of the stream it may get a higher one, once, if an error announced it.
func numbers(s Observed) []Finding {
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
		last, before = max(last, n), h.written()
	}
	return found
}

func (s Observed) announcements(number uint64) (n int) {
	for _, a := range s.Announced {
		if a == number {
			n++
		}
	}
	return n
}

// written returns when an event was written at the latest: a subscriber may get it seconds later.
func (h Heard) written() time.Time {
	if at := h.Context.Timestamp; !at.IsZero() && at.Before(h.At) {
		return at
	}
	return h.At
}

// deleted reports whether the stream was deleted between two times, or up to a second
// before: a subscriber may have read on for a moment.
func (s Observed) deleted(from, to time.Time) bool {
	return slices.ContainsFunc(s.Deleted, func(at time.Time) bool { return at.After(from.Add(-time.Second)) && at.Before(to) })
}

// texts checks that the deltas of each text make up the text. It finds records that
// were skipped or translated twice, which sequence numbers don't show.
func texts(s Observed) []Finding {
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
			continue // A block that was not streamed again was lost, and has its transcript's text.
		}
		fault := Gap
		if len(heard) > len(*b.Content) {
			fault = Repeat
		}
		found = append(found, s.finding(fault, s.kind(), "block %s: %d bytes of deltas for %d of text", id, len(heard), len(*b.Content)))
	}
	return found
}

// textIsDeltas reports whether a block's text is the sum of its deltas.
func textIsDeltas(b event.Block) bool {
	return b.Type == event.BlockAssistantText && (b.Status == event.StatusComplete || reducer.Lost(b)) && b.Content != nil
}

// deltasOf joins the deltas of each block; order has the blocks in the order received.
// Deltas from before a block was lost don't count once the block is streamed again.
func deltasOf(s Observed) (deltas map[string]string, order []string) {
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

func finalBlocks(s Observed) map[string]event.Block {
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

// stopOver is longer than a worker's stop and the start of the next attempt together.
// If no attempt has followed by then, the stop was too short to end the attempt.
const stopOver = 10 * time.Second

// pauses returns how long the subscriber waited from each kill to the first event of
// the next attempt. Kills with no attempt between them make one pause, of the hardest
// one. A kill after which no attempt followed makes none: the turn was over.
func pauses(s Observed, t Turn) []pause {
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

// workerDies reports whether a new attempt must follow.
func (k Kind) workerDies() bool {
	return k == WorkerKill || k == WorkerTerm || k == WorkerStop || k == RunnerKill || k == HostKill
}

// fence reports whether an event is the first of an attempt.
func fence(e event.Event) bool {
	st, ok := e.Payload.(event.Status)
	return ok && st.Runtime == nil && st.Attempt > 0
}

// span returns when a turn's start and end were received.
func span(s Observed, t Turn) (begun, ended time.Time) {
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
