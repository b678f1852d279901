package workflows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer/ticks"
	"github.com/sojourn-run/sojourn/session"
)

// host is the only machine of a world.
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
//	LOST   is never taken: its host is lost; LOST n only n times
//	ENDED  is taken, and its host is lost before it completes
//	EXIT   is answered by an agent that ends with it
//	LIMIT  is interrupted by a limit
//	PARK n is parked n times, with n requests the first time and one less each time
type world struct {
	mu sync.Mutex
	// complete ends a running activity.
	complete func(token []byte, result any, err error) error
	// now is the workflow's clock.
	now func() time.Time
	// nudge wakes a session: a test environment wakes only the root for an activity that is
	// completed from outside.
	nudge func(id string) error

	stream []said
	seqs   map[string]uint64
	epochs map[string]uint64
	keys   map[string]bool
	// plays counts the test environments; each has a clock of its own.
	plays int

	begun    []contract.BeginInput
	turns    []contract.RunTurnInput
	controls []contract.ControlInput
	emits    []contract.EmitInput
	places   []contract.CreateSandboxInput
	ended    []contract.EndSandboxInput
	// background are the commands that run in the sandbox between turns.
	background []string
	finished   []contract.FinishInput
	queues     map[string]string
	running    map[string]held
	// hostOf moves the sandboxes of a session to another host.
	hostOf  map[string]string
	waiting []held
	// deaf is how many controls the agents ignore; with deafOne only that session's.
	deaf    int
	deafOne string
	crowded bool
	// steered are the messages that the agent was sent while it worked, by execution.
	// unsteered is how many it refuses; forgets omits them from the execution's end; mute
	// takes them without an answer.
	steered   map[string][]string
	unsteered int
	forgets   bool
	mute      bool
	// spent is what a held turn has used so far.
	spent contract.ControlOutput
	// slow leaves the next message without an answer until answerSteer.
	slow      bool
	offered   []byte
	noAgent   bool
	record    *session.Record
	lostHosts bool
	// behind is what the archive misses after each turn.
	behind string
	// ahead is the state of a session whose workflow was reset: until the workflow catches
	// up, its activities are refused.
	ahead    *contract.CatchUpOutput
	caughtUp []contract.CatchUpInput
	// endedBefore is how given-up executions had ended before their host was lost.
	endedBefore *session.Result
	// usedBefore is what given-up executions had used.
	usedBefore limits.Execution
	// entered is called when a turn is held.
	entered func(contract.RunTurnInput)
	// beginning is called inside Begin, ending inside EndSandbox, before it ends, finishing
	// inside Finish, catching inside CatchUp, and refusing when a message is refused that was
	// sent to the working agent.
	beginning, ending, finishing, catching, refusing func()
	// made are the last sandboxes, by session. lostShares of those in a parent's sandbox are
	// on a host that does not answer.
	made       map[string]session.Sandbox
	lostShares int
	// awaited are the children of an earlier run whose ends are awaited, and told the
	// requests that were sent to them: their own workflows are in another environment.
	awaited map[string]contract.AwaitChildInput
	awaits  map[string][]byte
	told    []string
}

// held is an activity that is not completed yet.
type held struct {
	token []byte
	turn  contract.RunTurnInput
	place contract.CreateSandboxInput
}

func newWorld() *world {
	return &world{
		seqs: map[string]uint64{}, epochs: map[string]uint64{}, keys: map[string]bool{},
		hostOf: map[string]string{}, made: map[string]session.Sandbox{}, steered: map[string][]string{}, queues: map[string]string{}, running: map[string]held{}, awaited: map[string]contract.AwaitChildInput{}, awaits: map[string][]byte{},
	}
}

// activities returns the activities by the names under which the workflow calls them.
func (w *world) activities() map[string]any {
	return map[string]any{
		contract.ActivityBegin: w.Begin, contract.ActivityCreateSandbox: w.CreateSandbox,
		contract.ActivityRunTurn: w.RunTurn, contract.ActivitySendControl: w.SendControl,
		contract.ActivityEmit: w.Emit, contract.ActivityEndSandbox: w.EndSandbox, contract.ActivityFinish: w.Finish,
		contract.ActivityCatchUp: w.CatchUp, contract.ActivityAwaitChild: w.AwaitChild, contract.ActivityParentSandbox: w.ParentSandbox,
	}
}

func (w *world) AwaitChild(ctx context.Context, in contract.AwaitChildInput) (session.Output, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaited[in.SessionID], w.awaits[in.SessionID] = in, activity.GetInfo(ctx).TaskToken
	return session.Output{}, activity.ErrResultPending
}

// childEnds ends a child of an earlier run.
func (w *world) childEnds(id string, out session.Output, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	token, ok := w.awaits[id]
	if !ok {
		return fmt.Errorf("the end of %s is not waited for", id)
	}
	delete(w.awaits, id)
	if err != nil {
		return w.complete(token, nil, err)
	}
	return w.complete(token, out, nil)
}

// interruptElsewhere and cancelElsewhere reach a child of an earlier run.
func (w *world) interruptElsewhere(_, id, _, name string, arg any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf("%s %s: %v", name, id, arg.(session.InterruptRequest).Reason))
	return nil
}

func (w *world) cancelElsewhere(_, id, _ string) error {
	w.mu.Lock()
	w.told = append(w.told, "cancel "+id)
	w.mu.Unlock()
	return nil
}

func (w *world) say(id string, payloads ...event.Payload) uint64 {
	for _, p := range payloads {
		w.stream = append(w.stream, said{id, p})
	}
	w.seqs[id] += uint64(len(payloads))
	return w.seqs[id]
}

// sayOnce is say for what may be retried.
func (w *world) sayOnce(id, key string, events []event.Event) uint64 {
	if strings.Contains(key, "test-run-id") && len(events) > 0 {
		// A test environment has one id for all runs; they differ in their times.
		key += events[0].Context.Timestamp.String()
	}
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
	if w.beginning != nil {
		w.beginning()
	}
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
	if in.Shared != nil && w.lostShares > 0 {
		w.lostShares--
		return contract.CreateSandboxOutput{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	}
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
	w.made[id] = sb
	return contract.CreateSandboxOutput{Sandbox: sb, LastSeq: w.say(id, event.EEReady{Environment: event.Environment{SandboxID: sb.ID}})}
}

func (w *world) ParentSandbox(_ context.Context, in contract.ParentSandboxInput) (session.Sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sb, made := w.made[in.Parent]
	if !made {
		return sb, temporal.NewApplicationError("it has none yet", session.TypeNoSlot)
	}
	return sb, nil
}

// makeRoom grants a slot to everything that waits for one.
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
		// What failed the attempt before is the cause of a timeout.
		return contract.RunTurnOutput{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, temporal.NewApplicationError("the worker has ended", "WorkerEnded"))
	}
	if verb == "ENDED" && in.Resumes == nil {
		out := w.answered(in)
		return out, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil, contract.HeartbeatDetails{Ended: &out.Result})
	}
	w.say(id, event.QueryStarted{Query: event.Query{ExecutionID: in.ExecutionID, MessageIDs: []string{in.Message.ID}}})
	switch verb {
	case "FAIL":
		return contract.RunTurnOutput{}, temporal.NewNonRetryableApplicationError("the agent said no", session.TypeAgentFailed, nil)
	case "PARK":
		if out, parks := w.parked(in); parks {
			return out, nil
		}
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
		out = limitReached(out)
	}
	return out, nil
}

// limitReached returns the output of a turn that a limit interrupted.
func limitReached(out contract.RunTurnOutput) contract.RunTurnOutput {
	out.Result.Outcome, out.Result.Error = session.Interrupted, &event.ErrorInfo{Message: "enough", Code: session.TypeLimit}
	return out
}

// parked returns the output of a turn that waits for a person.
func (w *world) parked(in contract.RunTurnInput) (out contract.RunTurnOutput, parks bool) {
	n, done := 1, 0
	_, _ = fmt.Sscanf(in.Message.Text, "PARK %d", &n)
	if in.Resumes != nil {
		done = in.Resumes.Parks
	}
	p := permission.Parked{Since: w.now(), Deadline: in.Agent.PermissionDeadline}
	for i := range n - done {
		ask := event.PermissionRequested{RequestID: fmt.Sprintf("r%d-%d", done+1, i+1), ToolName: "Bash", Input: json.RawMessage(`{"command":"make"}`)}
		w.say(in.Agent.SessionID, ask)
		p.Add(ask, w.now())
	}
	used := session.Progress{Ticks: ptr(3)}
	return contract.RunTurnOutput{Parked: &p, Usage: event.Usage{InputTokens: 1}, Progress: used, LastSeq: w.seqs[in.Agent.SessionID], LastBlock: "Bash"}, len(p.Requests) > 0
}

func lost(l *session.Lost) int {
	if l == nil {
		return 0
	}
	return l.Times
}

// times returns the number after a prompt's verb; without one there is no limit.
func times(text string) int {
	var n int
	if _, err := fmt.Sscanf(text, "LOST %d", &n); err != nil {
		return math.MaxInt
	}
	return n
}

// answered returns the output of a turn that the agent completed.
func (w *world) answered(in contract.RunTurnInput) contract.RunTurnOutput {
	res := &event.QueryResult{Response: "echo: " + in.Message.Text, StopReason: "end_turn"}
	q := event.Query{ExecutionID: in.ExecutionID, MessageIDs: w.messages(in), Result: res}
	return contract.RunTurnOutput{
		Result:  ended(event.QueryCompleted{Query: q}),
		Usage:   event.Usage{InputTokens: 10, OutputTokens: 5},
		CostUSD: new(0.25), LastSeq: w.say(in.Agent.SessionID, event.QueryCompleted{Query: q}),
		LastBlockID: "block-" + in.ExecutionID, LastBlock: "said " + res.Response,
		Progress: session.Progress{Ticks: new(2), Tools: []ticks.Tool{{ToolUseID: "t-" + in.ExecutionID, Name: "bash"}}},
	}
}

// messages returns the messages that an execution answers.
func (w *world) messages(in contract.RunTurnInput) []string {
	ids := []string{in.Message.ID}
	if !w.forgets {
		ids = append(ids, w.steered[in.ExecutionID]...)
	}
	return ids
}

func ended(p event.Payload) session.Result {
	res, _ := session.ResultOf(event.Event{Payload: p}, messagesOf(said{payload: p})[0])
	return res
}

// lose loses the host of the held turn of a session.
func (w *world) lose(id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.running[id]
	delete(w.running, id)
	return w.complete(h.token, nil, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil))
}

// letGo completes the held turn of a session.
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

// cut has a limit interrupt the held turn of a session.
func (w *world) cut(id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.running[id]
	delete(w.running, id)
	return w.complete(h.token, limitReached(w.answered(h.turn)), nil)
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
	case in.Steer != nil && w.unsteered > 0:
		w.unsteered--
		if w.refusing != nil {
			w.refusing()
		}
		return contract.ControlOutput{}, nil
	case in.Steer != nil:
		w.steered[in.ExecutionID] = append(w.steered[in.ExecutionID], in.Steer.ID)
		if w.slow {
			w.slow, w.offered = false, activity.GetInfo(ctx).TaskToken
			return contract.ControlOutput{}, activity.ErrResultPending
		}
		if w.mute {
			return contract.ControlOutput{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil)
		}
	case in.Answer != nil && in.Answer.RequestID == "unknown":
		return contract.ControlOutput{}, session.ToTemporal(session.Invalid("requestId", `"unknown" is not open`, "an open one"))
	case in.Interrupt != nil:
		delete(w.running, in.SessionID)
		return contract.ControlOutput{Handed: true}, w.complete(h.token, w.interrupted(h.turn, in.Interrupt.Reason), nil)
	}
	out := w.spent
	out.Handed = true
	return out, nil
}

// answerSteer has the turn take the message that it left without an answer.
func (w *world) answerSteer() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.complete(w.offered, contract.ControlOutput{Handed: true}, nil)
}

// offers returns the ids of the messages that were offered to the agents, in order.
func (w *world) offers() (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.controls {
		if c.Steer != nil {
			ids = append(ids, c.Steer.ID)
		}
	}
	return ids
}

func (w *world) interrupted(in contract.RunTurnInput, reason string) contract.RunTurnOutput {
	q := event.Query{ExecutionID: in.ExecutionID, MessageIDs: w.messages(in), Reason: reason}
	return contract.RunTurnOutput{
		Result:  ended(event.QueryInterrupted{Query: q}),
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
			return contract.EmitOutput{Epoch: in.Epoch, LastSeq: w.seqs[in.SessionID], Ended: ended, Used: w.usedBefore}, nil
		}
		return contract.EmitOutput{Epoch: in.Epoch, LastSeq: w.sayOnce(in.SessionID, in.Key, in.Events), Used: w.usedBefore}, nil
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
	if in.UnlessBusy && len(w.background) > 0 {
		return contract.EndSandboxOutput{Background: w.background}, nil
	}
	return contract.EndSandboxOutput{LastSeq: w.say(in.Agent.SessionID, event.EETerminated{Environment: event.Environment{Reason: in.Reason}})}, nil
}

func (w *world) Finish(ctx context.Context, in contract.FinishInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues[contract.ActivityFinish] = activity.GetInfo(ctx).TaskQueue
	w.finished = append(w.finished, in)
	if w.finishing != nil {
		w.finishing()
	}
	w.say(in.Session.SessionID, event.SessionClosed{Reason: in.Reason})
	return nil
}

func fencedOff() error {
	return temporal.NewNonRetryableApplicationError("a higher epoch writes", session.TypeFenced, nil)
}

// CatchUp returns the state of a session whose workflow was reset.
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
	if w.catching != nil {
		w.catching()
	}
	return out, nil
}

// prompts returns the texts that the agent of a session was sent, in order.
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

// heard returns the payloads of one type in the stream of a session.
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

// results returns how every message of a session ended, by message id, from the events of
// the stream.
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

// order returns the index of the first matching event in the stream of all sessions; -1 for
// none.
func (w *world) order(fits func(said) bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.IndexFunc(w.stream, fits)
}
