package activities

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// TakeUpInput is what a workflow knows that was set back: by an operator's
// reset, most of all.
type TakeUpInput struct {
	SessionID string `json:"sessionId"`
	Agent     string `json:"agent"`
	// RunID makes a repeated attempt say what it says once.
	RunID string `json:"runId"`
	// LastSeq and Anchor are the last event and block that the workflow knows.
	LastSeq uint64 `json:"lastSeq"`
	Anchor  string `json:"anchor,omitempty"`
	// Sandbox is what the workflow holds for its sandbox.
	Sandbox *session.Sandbox `json:"sandbox,omitempty"`
}

// TakeUpOutput is how far the session has come in truth.
type TakeUpOutput struct {
	// Epoch is the newest: that of Sandbox, or one that was taken now.
	Epoch       uint64 `json:"epoch"`
	LastSeq     uint64 `json:"lastSeq"`
	LastBlockID string `json:"lastBlockId,omitempty"`
	LastBlock   string `json:"lastBlock,omitempty"`
	// Sandbox is the one that stands and may go on; nil when there is none.
	Sandbox *session.Sandbox `json:"sandbox,omitempty"`
	// Results are the executions that ended, in order. Only of the last
	// session.KeptResults the texts are given.
	Results []session.Result `json:"results,omitempty"`
	// Running is the execution that began and did not end.
	Running *Running `json:"running,omitempty"`
	// Executions is the highest number of an execution.
	Executions int `json:"executions,omitempty"`
	// Turn is the last turn in Sandbox that is fenced.
	Turn int `json:"turn,omitempty"`
}

// Running is an execution that is under way.
type Running struct {
	ExecutionID string `json:"executionId"`
	MessageID   string `json:"messageId"`
	// AfterSeq is a sequence number before everything of the execution, and
	// Anchor the last block of the main conversation there.
	AfterSeq uint64 `json:"afterSeq"`
	Anchor   string `json:"anchor,omitempty"`
}

// TakeUp finds out how far a session has come whose workflow was set back. What
// the stream holds stands: nothing of it is done again. A sandbox that serves
// the session goes on; with none, the session's next epoch is taken, so that
// whatever is still under way for the run before is fenced.
func (s *Session) TakeUp(ctx context.Context, in TakeUpInput) (TakeUpOutput, error) {
	out, err := s.takeUp(ctx, in)
	return out, crossing(err)
}

func (s *Session) takeUp(ctx context.Context, in TakeUpInput) (TakeUpOutput, error) {
	p, err := readPast(ctx, s.Stream, in)
	if err != nil {
		return TakeUpOutput{}, err
	}
	newest, err := s.Archive.Epoch(ctx, in.SessionID)
	if err != nil {
		return TakeUpOutput{}, err
	}
	if p.sandbox == nil || p.sandbox.Epoch != newest {
		if newest, err = s.fenceOff(ctx, in, p.closed); err != nil {
			return TakeUpOutput{}, err
		}
		// Nothing of the run before can come behind this.
		if p, err = readPast(ctx, s.Stream, in); err != nil {
			return TakeUpOutput{}, err
		}
		p.sandbox = nil
	}
	out := p.output(newest)
	if p.sandbox != nil {
		tail, err := s.Stream.Tail(ctx, in.SessionID)
		if err != nil {
			return out, err
		}
		if tail.Fence.Epoch == newest {
			out.Turn = turnOf(tail.Fence.Attempt)
		}
	}
	return out, nil
}

// fenceOff takes the next epoch and says so in the stream. A session that was
// closed is open again.
func (s *Session) fenceOff(ctx context.Context, in TakeUpInput, closed bool) (uint64, error) {
	epoch, err := s.Archive.TakeEpoch(ctx, in.SessionID)
	if err != nil {
		return 0, err
	}
	events := []event.Event{own(event.Status{Epoch: epoch, Message: "the session's workflow was set back; what was said stands"})}
	if closed {
		if err := s.Archive.MarkOpen(ctx, in.SessionID, epoch); err != nil {
			return 0, err
		}
		events = append(events, own(event.SessionInitialized{Agent: in.Agent, Reopened: true}), own(runtime(true)))
	}
	_, err = s.Stream.Emit(ctx, in.SessionID, stream.Emission{
		Fence: stream.Fence{Epoch: epoch}, LastSeq: in.LastSeq, Key: fmt.Sprintf("take-up-%s-%d", in.RunID, epoch), Events: events,
	})
	return epoch, err
}

// past is what a part of the stream tells of a session.
type past struct {
	seq        uint64
	sandbox    *session.Sandbox
	results    []session.Result
	running    *Running
	executions int
	blocks     turn.ServerBlocks
	lastBlock  string
	closed     bool
}

// readPast reads everything behind what the workflow knows. Where retention
// took some of it, what is left is read.
func readPast(ctx context.Context, log *stream.Log, in TakeUpInput) (*past, error) {
	p := &past{seq: in.LastSeq, sandbox: in.Sandbox}
	p.blocks = turn.NewServerBlocks(in.Anchor)
	return p, eachAfter(ctx, log, in.SessionID, in.LastSeq, func(ev event.Event) bool { p.hear(ev); return true })
}

// eachAfter gives the events behind a sequence number, until told to stop.
func eachAfter(ctx context.Context, log *stream.Log, sessionID string, after uint64, hear func(event.Event) bool) error {
	for ev, err := range log.Read(ctx, sessionID, after, stream.ReadOptions{}) {
		var gap *stream.GapError
		if errors.As(err, &gap) && gap.Purged {
			if gap.Have <= after+1 {
				return nil
			}
			return eachAfter(ctx, log, sessionID, gap.Have-1, hear)
		}
		if err != nil {
			return fmt.Errorf("read what session %s has come to: %w", sessionID, err)
		}
		if !hear(ev) {
			return nil
		}
	}
	return nil
}

func (p *past) hear(ev event.Event) {
	p.seq = ev.Context.Seq
	p.blocks.Add(ev)
	switch e := ev.Payload.(type) {
	case event.BlockUpsert:
		if ev.Context.Conversation() == event.Main {
			p.lastBlock = turn.Describe(e.Block, p.lastBlock)
		}
	case event.EECreating:
		p.sandbox = nil
	case event.EEReady:
		p.sandbox = sandboxOf(e.Environment)
	case event.EETerminated:
		p.ended(e.Environment)
	case event.EEError:
		p.ended(e.Environment)
	case event.QueryStarted:
		p.started(ev, e.Query)
	case event.SessionClosed:
		p.closed = true
	case event.SessionInitialized:
		p.closed = false
	default:
		p.answered(ev)
	}
}

// ended hears that a sandbox is gone.
func (p *past) ended(env event.Environment) {
	if p.sandbox != nil && env.Status == "terminated" && env.SandboxID == p.sandbox.ID {
		p.sandbox = nil
	}
}

func (p *past) started(ev event.Event, q event.Query) {
	p.number(q.ExecutionID)
	if len(q.MessageIDs) == 0 {
		return
	}
	p.running = &Running{
		ExecutionID: q.ExecutionID, MessageID: q.MessageIDs[0], AfterSeq: ev.Context.Seq - 1,
		Anchor: p.blocks.Last(),
	}
}

func (p *past) answered(ev event.Event) {
	for _, id := range endedMessages(ev.Payload) {
		res, _ := session.ResultOf(ev, id)
		p.number(res.ExecutionID)
		if res.Result != nil {
			short := turn.Shorten(*res.Result, historyResponse)
			res.Result = &short
		}
		p.results = append(p.results, res)
		if p.running != nil && p.running.MessageID == id {
			p.running = nil
		}
	}
}

// endedMessages are the messages whose execution an event ends.
func endedMessages(p event.Payload) []string {
	switch p := p.(type) {
	case event.QueryCompleted:
		return p.MessageIDs
	case event.QueryFailed:
		return p.MessageIDs
	case event.QueryInterrupted:
		return p.MessageIDs
	}
	return nil
}

// number notes the number in an execution's id.
func (p *past) number(id string) {
	if n, err := strconv.Atoi(strings.TrimPrefix(id, "x")); err == nil {
		p.executions = max(p.executions, n)
	}
}

func (p *past) output(epoch uint64) TakeUpOutput {
	for i := range len(p.results) - session.KeptResults {
		if r := p.results[i].Result; r != nil {
			r.Response, r.Truncated = "", r.Truncated || r.Response != ""
		}
	}
	return TakeUpOutput{
		Epoch: epoch, LastSeq: p.seq, LastBlockID: p.blocks.Last(), LastBlock: p.lastBlock,
		Sandbox: p.sandbox, Results: p.results, Running: p.running, Executions: p.executions,
	}
}

// sandboxOf reads which sandbox an event is about; nil for one that is not
// named as ours are.
func sandboxOf(env event.Environment) *session.Sandbox {
	at := strings.LastIndex(env.SandboxID, "-e")
	if at < 0 {
		return nil
	}
	epoch, err := strconv.ParseUint(env.SandboxID[at+2:], 10, 64)
	if err != nil {
		return nil
	}
	return &session.Sandbox{Host: env.Host, ID: env.SandboxID, Epoch: epoch, Status: env.Status}
}

// errAhead says that the stream has more than the workflow knows of.
var errAhead = errors.New("the session has come further than its workflow, which was set back")

// notAhead fails with errAhead if the stream holds anything behind a sequence
// number that changes what a workflow would do. mine is what the caller itself
// may have said, in an attempt before.
func notAhead(ctx context.Context, log *stream.Log, sessionID string, after uint64, mine func(event.Payload) bool) error {
	var found event.Payload
	err := eachAfter(ctx, log, sessionID, after, func(ev event.Event) bool {
		if turning(ev.Payload) && (mine == nil || !mine(ev.Payload)) {
			found = ev.Payload
		}
		return found == nil
	})
	if err == nil && found != nil {
		err = fmt.Errorf("session %s: %s: %w", sessionID, found.EventType(), errAhead)
	}
	return err
}

// turning says whether an event changes what a workflow would do.
func turning(p event.Payload) bool {
	switch p.(type) {
	case event.QueryStarted, event.EEReady, event.EETerminated, event.SessionClosed:
		return true
	}
	return len(endedMessages(p)) > 0
}
