package activities

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// CatchUp returns the state of a session whose run is behind its stream: the stream has
// more than the run knows, most often because the workflow was reset. The stream wins, and
// nothing in it is done again. A live sandbox is kept; otherwise the session's next epoch
// is taken, which fences whatever an earlier run still has running.
func (s *Session) CatchUp(ctx context.Context, in contract.CatchUpInput) (contract.CatchUpOutput, error) {
	out, err := s.catchUp(ctx, in)
	return out, toApplicationError(err)
}

func (s *Session) catchUp(ctx context.Context, in contract.CatchUpInput) (contract.CatchUpOutput, error) {
	p, err := replay(ctx, s.Stream, in, "")
	if err != nil {
		return contract.CatchUpOutput{}, err
	}
	newest, err := s.Archive.Epoch(ctx, in.SessionID)
	if err != nil {
		return contract.CatchUpOutput{}, err
	}
	if p.sandbox == nil || p.sandbox.Epoch != newest {
		if newest, err = s.fenceOff(ctx, in, p.closed); err != nil {
			return contract.CatchUpOutput{}, err
		}
		// No earlier run can write after this.
		if p, err = replay(ctx, s.Stream, in, ""); err != nil {
			return contract.CatchUpOutput{}, err
		}
		p.sandbox = nil
	}
	out := p.output(newest)
	if in.Record {
		if out.Record, err = s.record(ctx, in.SessionID); err != nil {
			return out, err
		}
	}
	if p.sandbox != nil {
		tail, err := s.Stream.Tail(ctx, in.SessionID)
		if err != nil {
			return out, err
		}
		if tail.Fence.Epoch == newest {
			out.MinTurn = turnOf(tail.Fence.Attempt)
		}
	}
	return out, nil
}

// fenceOff takes the next epoch and appends it to the stream. It reopens a closed session.
func (s *Session) fenceOff(ctx context.Context, in contract.CatchUpInput, closed bool) (uint64, error) {
	epoch, err := s.Archive.TakeEpoch(ctx, in.SessionID)
	if err != nil {
		return 0, err
	}
	events := []event.Event{fromServer(event.Status{Epoch: epoch, Message: "the session's workflow was behind its stream and caught up; what the stream has is kept"})}
	if closed {
		if err := s.Archive.MarkOpen(ctx, in.SessionID, epoch); err != nil {
			return 0, err
		}
		events = append(events, fromServer(event.SessionInitialized{Agent: in.Agent, Reopened: true}), fromServer(runtime(true)))
	}
	_, err = s.Stream.Emit(ctx, in.SessionID, stream.Emission{
		Fence: stream.Fence{Epoch: epoch}, LastSeq: in.LastSeq, Key: fmt.Sprintf("catch-up-%s-%d", in.RunID, epoch), Events: events,
	})
	return epoch, err
}

// replayed is what a part of the stream has of a session.
type replayed struct {
	seq        uint64
	sandbox    *session.Sandbox
	results    []session.Result
	running    *contract.Running
	executions int
	blocks     loss.ServerBlocks
	lastBlock  string
	closed     bool
}

// replay reads everything after the last event that the workflow knows, but for what concerns
// the block own. Where retention has removed some of it, the rest is read.
func replay(ctx context.Context, log *stream.Log, in contract.CatchUpInput, own string) (*replayed, error) {
	p := &replayed{seq: in.LastSeq, sandbox: in.Sandbox}
	p.blocks = loss.NewServerBlocks(in.Anchor)
	return p, eachAfter(ctx, log, in.SessionID, in.LastSeq, func(ev event.Event) bool {
		if block, concerns := loss.BlockOf(ev); !concerns || block != own {
			p.add(ev)
		}
		return true
	})
}

// eachAfter calls yield with the events after a sequence number until it returns false.
func eachAfter(ctx context.Context, log *stream.Log, sessionID string, after uint64, yield func(event.Event) bool) error {
	for ev, err := range log.Read(ctx, sessionID, after, stream.ReadOptions{}) {
		var gap *stream.GapError
		if errors.As(err, &gap) && gap.Purged {
			if gap.Have <= after+1 {
				return nil
			}
			return eachAfter(ctx, log, sessionID, gap.Have-1, yield)
		}
		if err != nil {
			return fmt.Errorf("read what session %s has come to: %w", sessionID, err)
		}
		if !yield(ev) {
			return nil
		}
	}
	return nil
}

func (p *replayed) add(ev event.Event) {
	p.seq = ev.Context.Seq
	p.blocks.Add(ev)
	switch e := ev.Payload.(type) {
	case event.BlockUpsert:
		if ev.Context.Conversation() == event.Main {
			p.lastBlock = brief.Describe(e.Block, p.lastBlock)
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

// ended records that a sandbox was terminated.
func (p *replayed) ended(env event.Environment) {
	if p.sandbox != nil && env.Status == "terminated" && env.SandboxID == p.sandbox.ID {
		p.sandbox = nil
	}
}

func (p *replayed) started(ev event.Event, q event.Query) {
	p.number(q.ExecutionID)
	if len(q.MessageIDs) == 0 {
		return
	}
	p.running = &contract.Running{
		ExecutionID: q.ExecutionID, MessageID: q.MessageIDs[0], AfterSeq: ev.Context.Seq - 1,
		Anchor: p.blocks.Last(),
	}
}

func (p *replayed) answered(ev event.Event) {
	ids := endedMessages(ev.Payload)
	if len(ids) == 0 {
		return
	}
	res, _ := session.ResultOf(ev, ids[0]) // the other messages are in it
	p.number(res.ExecutionID)
	p.results = append(p.results, shortened(res))
	if p.running != nil && p.running.MessageID == ids[0] {
		p.running = nil
	}
}

// endedMessages returns the messages whose execution an event ends.
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

// number records the number in an execution's id.
func (p *replayed) number(id string) {
	if n, err := strconv.Atoi(strings.TrimPrefix(id, "x")); err == nil {
		p.executions = max(p.executions, n)
	}
}

func (p *replayed) output(epoch uint64) contract.CatchUpOutput {
	for i := range len(p.results) - session.KeptResults {
		if r := p.results[i].Result; r != nil {
			r.Response, r.Truncated = "", r.Truncated || r.Response != ""
		}
	}
	return contract.CatchUpOutput{
		Epoch: epoch, LastSeq: p.seq, LastBlockID: p.blocks.Last(), LastBlock: p.lastBlock,
		Sandbox: p.sandbox, Results: p.results, Running: p.running, Executions: p.executions,
	}
}

// sandboxOf returns the sandbox that an event is about.
func sandboxOf(env event.Environment) *session.Sandbox {
	return &session.Sandbox{Host: env.Host, ID: env.SandboxID, Provider: env.Provider, Epoch: env.Epoch, Status: env.Status}
}
