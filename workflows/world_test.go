package workflows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// host is the one machine of a world.
const host = "h1"

// said is one event in the stream of one session.
type said struct {
	session string
	payload event.Payload
}

// world is everything outside the workflow: stream, archive, sandboxes and an
// agent that does what its prompt says. Its methods have the signatures of the
// real activities.
//
// The agent answers "echo: …" at once, but a prompt that begins with
//
//	HOLD   is answered when it is interrupted or let go
//	FAIL   fails as an agent does
//	LOST   is never taken: its host is gone; LOST n only n times
//	ENDED  is taken, and its host is gone before it completes
//	EXIT   is answered by an agent that ends with it
//	LIMIT  is interrupted by a limit
type world struct {
	mu sync.Mutex
	// complete ends an activity that is under way.
	complete func(token []byte, result any, err error) error
	// nudge wakes a session: a test environment wakes only the root for an
	// activity that is completed from outside.
	nudge func(id string) error

	stream []said
	seqs   map[string]uint64
	epochs map[string]uint64
	keys   map[string]bool

	begun    []contract.BeginInput
	turns    []contract.RunTurnInput
	controls []contract.ControlInput
	emits    []contract.EmitInput
	places   []contract.CreateSandboxInput
	ended    []contract.EndSandboxInput
	finished []contract.FinishInput
	queues   map[string]string
	running  map[string]held
	// hostOf moves the sandboxes of a session to another host.
	hostOf  map[string]string
	waiting []held
	// deaf is how many controls no agent takes; with deafOne only that session's.
	deaf      int
	deafOne   string
	crowded   bool
	noAgent   bool
	record    *session.Record
	lostHosts bool
	// behind is what the archive misses behind each turn.
	behind string
	// ahead is how far a session has come whose workflow was set back: until that
	// is taken up, what its workflow wants done is refused.
	ahead    *contract.CatchUpOutput
	caughtUp []contract.CatchUpInput
	// endedBefore is how forsaken executions had ended before their host was lost.
	endedBefore *session.Result
	// entered is called when a turn is held.
	entered func(contract.RunTurnInput)
	// ending is called inside EndSandbox, before it ends.
	ending func()
}

// held is an activity that was not answered yet.
type held struct {
	token []byte
	turn  contract.RunTurnInput
	place contract.CreateSandboxInput
}

func newWorld() *world {
	return &world{
		seqs: map[string]uint64{}, epochs: map[string]uint64{}, keys: map[string]bool{},
		hostOf: map[string]string{}, queues: map[string]string{}, running: map[string]held{},
	}
}

// activities by the names under which the workflow calls them.
func (w *world) activities() map[string]any {
	return map[string]any{
		contract.ActivityBegin: w.Begin, contract.ActivityCreateSandbox: w.CreateSandbox,
		contract.ActivityRunTurn: w.RunTurn, contract.ActivitySendControl: w.SendControl,
		contract.ActivityEmit: w.Emit, contract.ActivityEndSandbox: w.EndSandbox, contract.ActivityFinish: w.Finish,
		contract.ActivityCatchUp: w.CatchUp,
	}
}

func (w *world) say(id string, payloads ...event.Payload) uint64 {
	for _, p := range payloads {
		w.stream = append(w.stream, said{id, p})
	}
	w.seqs[id] += uint64(len(payloads))
	return w.seqs[id]
}

// sayOnce is say for what may be tried again.
func (w *world) sayOnce(id, key string, events []event.Event) uint64 {
	if !w.keys[id+"/"+key] {
		w.keys[id+"/"+key] = true
		for _, ev := range events {
			w.say(id, ev.Payload)
		}
	}
	return w.seqs[id]
}

func (w *world) Begin(ctx context.Context, in contract.BeginInput) (contract.BeginOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues[contract.ActivityBegin] = activity.GetInfo(ctx).TaskQueue
	w.begun = append(w.begun, in)
	id := in.Session.SessionID
	w.epochs[id]++
	seq := w.say(id, event.SessionInitialized{Agent: in.Session.Options.Agent, Reopened: in.Session.Reopened})
	return contract.BeginOutput{Epoch: w.epochs[id], LastSeq: seq, Record: w.record}, nil
}

func (w *world) CreateSandbox(ctx context.Context, in contract.CreateSandboxInput) (contract.CreateSandboxOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	info := activity.GetInfo(ctx)
	w.queues[contract.ActivityCreateSandbox] = info.TaskQueue
	w.places = append(w.places, in)
	if w.noAgent {
		w.epochs[in.Agent.SessionID]++
		return contract.CreateSandboxOutput{}, temporal.NewNonRetryableApplicationError("claude is not installed", session.TypeAgentMissing, nil)
	}
	if w.crowded {
		w.waiting = append(w.waiting, held{token: info.TaskToken, place: in})
		return contract.CreateSandboxOutput{}, activity.ErrResultPending
	}
	return w.place(in), nil
}

func (w *world) place(in contract.CreateSandboxInput) contract.CreateSandboxOutput {
	id := in.Agent.SessionID
	w.epochs[id]++
	sb := session.Sandbox{Host: cmp.Or(w.hostOf[id], host), ID: fmt.Sprintf("%s-e%d", id, w.epochs[id]), Epoch: w.epochs[id], Status: "ready"}
	return contract.CreateSandboxOutput{Sandbox: sb, LastSeq: w.say(id, event.EEReady{Environment: event.Environment{SandboxID: sb.ID}})}
}

// makeRoom gives a place to everything that waits for one.
func (w *world) makeRoom() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.crowded = false
	for _, h := range w.waiting {
		if err := errors.Join(w.complete(h.token, w.place(h.place), nil), w.nudge(h.place.Agent.SessionID)); err != nil {
			return err
		}
	}
	w.waiting = nil
	return nil
}

func (w *world) RunTurn(ctx context.Context, in contract.RunTurnInput) (contract.RunTurnOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	info := activity.GetInfo(ctx)
	w.queues[contract.ActivityRunTurn] = info.TaskQueue
	if w.ahead != nil {
		return contract.RunTurnOutput{}, fencedOff()
	}
	w.turns = append(w.turns, in)
	verb, _, _ := strings.Cut(in.Message.Text, " ")
	id := in.Agent.SessionID
	if verb == "LOST" && lost(in.Resumes) < times(in.Message.Text) {
		return contract.RunTurnOutput{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	}
	if verb == "ENDED" && in.Resumes == nil {
		out := w.answered(in)
		return out, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil, contract.HeartbeatDetails{Ended: &out.Result})
	}
	w.say(id, event.QueryStarted{Query: event.Query{ExecutionID: in.ExecutionID, MessageIDs: []string{in.Message.ID}}})
	switch verb {
	case "FAIL":
		return contract.RunTurnOutput{}, temporal.NewNonRetryableApplicationError("the agent said no", session.TypeAgentFailed, nil)
	case "HOLD":
		w.running[id] = held{token: info.TaskToken, turn: in}
		if w.entered != nil {
			w.entered(in)
		}
		return contract.RunTurnOutput{}, activity.ErrResultPending
	}
	out := w.answered(in)
	out.ArchiveBehind = w.behind
	out.AgentExited = verb == "EXIT"
	if verb == "LIMIT" {
		out.Result.Outcome, out.Result.Error = session.Interrupted, &event.ErrorInfo{Message: "enough", Code: session.TypeLimit}
	}
	return out, nil
}

func lost(l *session.Lost) int {
	if l == nil {
		return 0
	}
	return l.Times
}

// times is the number behind a prompt's verb; without one there is no end.
func times(text string) int {
	var n int
	if _, err := fmt.Sscanf(text, "LOST %d", &n); err != nil {
		return math.MaxInt
	}
	return n
}

// answered is the output of a turn that the agent completed.
func (w *world) answered(in contract.RunTurnInput) contract.RunTurnOutput {
	res := &event.QueryResult{Response: "echo: " + in.Message.Text, StopReason: "end_turn"}
	q := event.Query{ExecutionID: in.ExecutionID, MessageIDs: []string{in.Message.ID}, Result: res}
	return contract.RunTurnOutput{
		Result:  session.Result{ExecutionID: in.ExecutionID, MessageID: in.Message.ID, Outcome: session.Completed, Result: res},
		Usage:   event.Usage{InputTokens: 10, OutputTokens: 5},
		CostUSD: new(0.25), LastSeq: w.say(in.Agent.SessionID, event.QueryCompleted{Query: q}),
		LastBlockID: "block-" + in.ExecutionID, LastBlock: "said " + res.Response,
	}
}

// letGo has the held turn of a session answered.
func (w *world) letGo(id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, ok := w.running[id]
	if !ok {
		return fmt.Errorf("no turn of %s is held", id)
	}
	delete(w.running, id)
	if err := w.complete(h.token, w.answered(h.turn), nil); err != nil {
		return err
	}
	return w.nudge(id)
}

func (w *world) SendControl(ctx context.Context, in contract.ControlInput) (contract.ControlOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues[contract.ActivitySendControl] = activity.GetInfo(ctx).TaskQueue
	w.controls = append(w.controls, in)
	h, ok := w.running[in.SessionID]
	if !ok || h.turn.ExecutionID != in.ExecutionID {
		return contract.ControlOutput{}, nil
	}
	if w.deaf > 0 && (w.deafOne == "" || w.deafOne == in.SessionID) {
		w.deaf--
		return contract.ControlOutput{}, nil
	}
	w.sayOnce(in.SessionID, in.ID, in.Events)
	switch {
	case in.Answer != nil && in.Answer.RequestID == "unknown":
		return contract.ControlOutput{}, session.ToTemporal(session.Invalid("requestId", `"unknown" is not open`, "an open one"))
	case in.Interrupt != nil:
		delete(w.running, in.SessionID)
		return contract.ControlOutput{Handed: true}, w.complete(h.token, w.interrupted(h.turn, in.Interrupt.Reason), nil)
	}
	return contract.ControlOutput{Handed: true}, nil
}

func (w *world) interrupted(in contract.RunTurnInput, reason string) contract.RunTurnOutput {
	q := event.Query{ExecutionID: in.ExecutionID, MessageIDs: []string{in.Message.ID}, Reason: reason}
	return contract.RunTurnOutput{
		Result:  session.Result{ExecutionID: in.ExecutionID, MessageID: in.Message.ID, Outcome: session.Interrupted, Reason: reason},
		LastSeq: w.say(in.Agent.SessionID, event.QueryInterrupted{Query: q}),
	}
}

func (w *world) Emit(ctx context.Context, in contract.EmitInput) (contract.EmitOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues[contract.ActivityEmit] = activity.GetInfo(ctx).TaskQueue
	if in.TakeEpoch {
		w.epochs[in.SessionID]++
		in.Epoch = w.epochs[in.SessionID]
	}
	if in.Epoch < w.epochs[in.SessionID] || w.ahead != nil {
		return contract.EmitOutput{}, fencedOff()
	}
	w.emits = append(w.emits, in)
	if in.Abort != nil {
		if ended := cmp.Or(w.endedBefore, in.Abort.Ended); ended != nil {
			return contract.EmitOutput{Epoch: in.Epoch, LastSeq: w.seqs[in.SessionID], Ended: ended}, nil
		}
	}
	return contract.EmitOutput{Epoch: in.Epoch, LastSeq: w.sayOnce(in.SessionID, in.Key, in.Events)}, nil
}

func (w *world) EndSandbox(ctx context.Context, in contract.EndSandboxInput) (contract.EndSandboxOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues[contract.ActivityEndSandbox] = activity.GetInfo(ctx).TaskQueue
	if w.lostHosts {
		return contract.EndSandboxOutput{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	}
	if w.ending != nil {
		w.ending()
	}
	w.ended = append(w.ended, in)
	return contract.EndSandboxOutput{LastSeq: w.say(in.Agent.SessionID, event.EETerminated{Environment: event.Environment{Reason: in.Reason}})}, nil
}

func (w *world) Finish(ctx context.Context, in contract.FinishInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues[contract.ActivityFinish] = activity.GetInfo(ctx).TaskQueue
	w.finished = append(w.finished, in)
	w.say(in.Session.SessionID, event.SessionClosed{Reason: in.Reason})
	return nil
}

func fencedOff() error {
	return temporal.NewNonRetryableApplicationError("a higher epoch writes", session.TypeFenced, nil)
}

// TakeUp tells a workflow that was set back how far the session has come.
func (w *world) CatchUp(ctx context.Context, in contract.CatchUpInput) (contract.CatchUpOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues[contract.ActivityCatchUp] = activity.GetInfo(ctx).TaskQueue
	w.caughtUp = append(w.caughtUp, in)
	if w.ahead == nil {
		return contract.CatchUpOutput{}, errors.New("the workflow is not behind")
	}
	out := *w.ahead
	w.ahead = nil
	return out, nil
}

// prompts are the texts that the agent of a session was given, in order.
func (w *world) prompts(id string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := []string{}
	for _, t := range w.turns {
		if t.Agent.SessionID == id {
			texts = append(texts, t.Message.Text)
		}
	}
	return texts
}

// heard gives the payloads of one type in the stream of a session.
func heard[P event.Payload](w *world, id string) []P {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := []P{}
	for _, s := range w.stream {
		if p, ok := s.payload.(P); ok && s.session == id {
			found = append(found, p)
		}
	}
	return found
}

// results gives how every message of a session ended, by message id, as a
// subscriber of the stream learns it.
func (w *world) results(id string) map[string]session.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	ends := map[string]session.Result{}
	for _, s := range w.stream {
		for _, m := range messagesOf(s) {
			if res, ok := session.ResultOf(event.Event{Payload: s.payload}, m); ok && s.session == id {
				ends[m] = res
			}
		}
	}
	return ends
}

func messagesOf(s said) []string {
	switch p := s.payload.(type) {
	case event.QueryCompleted:
		return p.MessageIDs
	case event.QueryFailed:
		return p.MessageIDs
	case event.QueryInterrupted:
		return p.MessageIDs
	}
	return nil
}

// order says where the first event that fits stands in the whole stream of all
// sessions; -1 when none does.
func (w *world) order(fits func(said) bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.IndexFunc(w.stream, fits)
}
