package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// abort ends an execution whose host is lost or was given up. It appends in.Events, unless the stream or
// the host's last heartbeat has the execution's end: the host may be lost right after it.
// Either way, what was streamed and did not reach the archive is marked as lost, and the
// message is kept. The epoch is the caller's: the lost host can write nothing after it.
func (s *Session) abort(ctx context.Context, in contract.EmitInput) (contract.EmitOutput, error) {
	f := in.Abort
	l, err := s.readLost(ctx, in, f.Agent, turn.Scope{ExecutionID: f.ExecutionID, MessageID: f.MessageID, After: f.AfterSeq, Anchor: in.Anchor})
	if err != nil {
		return contract.EmitOutput{}, err
	}
	out := contract.EmitOutput{Ended: f.Ended, Used: l.used.Execution}
	if l.stream.Ended != nil {
		ended, _ := session.ResultOf(*l.stream.Ended, f.MessageID)
		out.Ended = &ended
	}
	m := messageOf(l.adapter, f.Message)
	m.BlockIDs, m.Steered = promptIDs(l.adapter, f.MessageID), steeredBefore(l.adapter, f.Steered)
	events := parkedBefore(m, f.Parked).Lost(turn.Ending{Exited: true}, l.stream, l.persisted, time.Now().UTC())
	if out.Ended == nil {
		if kept, _ := m.Steered.Persisted(l.persisted, l.stream.Refused); len(kept) > 0 {
			out.MessageIDs = append([]string{f.MessageID}, kept.Taken()...)
		}
		events = append(events, endingAll(in.Events, out.MessageIDs)...)
	}
	return s.keepLost(ctx, in, l, out, events)
}

// keepUnarchived keeps what the archive does not have of a session that ends and whose host
// is lost, and sets the ends of its stream and conversation in the record.
func (s *Session) keepUnarchived(ctx context.Context, in contract.FinishInput, record *session.Record) error {
	if in.Unarchived == nil {
		return nil
	}
	emit := contract.EmitInput{
		SessionID: in.Session.SessionID, Epoch: in.Epoch, LastSeq: record.LastSeq, Key: fmt.Sprintf("unarchived-%d", in.Epoch),
		Abort: &contract.Abort{Unarchived: in.Unarchived},
	}
	l, err := s.readLost(ctx, emit, in.Session.Options.Agent, turn.Scope{After: record.LastSeq})
	if err != nil {
		return err
	}
	out, err := s.keepLost(ctx, emit, l, contract.EmitOutput{}, l.stream.Difference(l.persisted, loss.Options{At: time.Now().UTC()}))
	record.LastSeq, record.LastBlockID = out.LastSeq, out.LastBlockID
	return err
}

// lost is what the stream and the archive have of a session whose host is lost.
type lost struct {
	adapter   adapters.Adapter
	stream    *turn.History
	used      *usedBefore
	persisted reducer.State
}

// readLost reads both when the lost host can write nothing more, from the scope's start or
// from where the archive is behind.
func (s *Session) readLost(ctx context.Context, in contract.EmitInput, agent string, scope turn.Scope) (l lost, err error) {
	if err := fenceLostHost(ctx, s.Stream, in.SessionID, in.Epoch, in.LastSeq); err != nil {
		return l, err
	}
	if err := s.fenceArchive(ctx, in); err != nil {
		return l, err
	}
	if l.adapter, err = s.Agents.Get(agent); err != nil {
		return l, err
	}
	scope.BlockIDs = promptIDs(l.adapter, scope.MessageID)
	if u := in.Abort.Unarchived; u != nil {
		scope.After, scope.Anchor, scope.Earlier = min(u.AfterSeq, scope.After), u.Anchor, messagesOf(l.adapter, u.Messages)
	}
	l.stream, l.used = turn.NewHistory(scope), &usedBefore{executionID: scope.ExecutionID, parks: in.Abort.Parks}
	if err := l.read(ctx, s.Stream, in.SessionID); err != nil {
		return l, err
	}
	sources, err := s.Archive.Sources(ctx, in.SessionID)
	if err != nil {
		return l, fmt.Errorf("session %s: look for what was lost: %w", in.SessionID, err)
	}
	l.persisted = l.stream.Persisted(l.adapter.Parse(sources))
	return l, ctx.Err()
}

func (l lost) read(ctx context.Context, log *stream.Log, sessionID string) error {
	return eachAfter(ctx, log, sessionID, l.stream.Next(), func(ev event.Event) bool {
		l.stream.Add(ev)
		l.used.Add(ev)
		return true
	})
}

// keepLost appends the events, and archives all server blocks that the stream then has.
func (s *Session) keepLost(ctx context.Context, in contract.EmitInput, l lost, out contract.EmitOutput, events []event.Event) (contract.EmitOutput, error) {
	out.Epoch, out.LastSeq = in.Epoch, max(in.LastSeq, l.stream.Next())
	if len(events) > 0 {
		var err error
		if out.LastSeq, err = s.Stream.Emit(ctx, in.SessionID, stream.Emission{
			Fence: stream.Fence{Epoch: in.Epoch}, LastSeq: out.LastSeq, Key: in.Key, Events: events,
		}); err != nil {
			return out, err
		}
	}
	if err := l.read(ctx, s.Stream, in.SessionID); err != nil {
		return out, err
	}
	placed, anchor := l.stream.Server()
	out.LastBlockID = anchor
	return out, s.Archive.AppendServerEntries(ctx, in.SessionID, in.Epoch, serverEntriesOf(placed)...)
}

// fenceLostHost makes sure that a worker of a lost host writes nothing more to the stream:
// it may be about to write the execution's end, and what is read after this call must be
// complete.
func fenceLostHost(ctx context.Context, log *stream.Log, sessionID string, epoch, lastSeq uint64) error {
	_, err := log.Emit(ctx, sessionID, stream.Emission{
		Fence: stream.Fence{Epoch: epoch}, LastSeq: lastSeq, Key: fmt.Sprintf("lost-host-%d", epoch),
		Events: []event.Event{fromServer(event.Status{Epoch: epoch, Message: "the session has no host any more; what the stream has is kept"})},
	})
	return err
}

// fenceArchive makes sure that a worker of the lost host commits nothing more.
func (s *Session) fenceArchive(ctx context.Context, in contract.EmitInput) error {
	for _, err := range s.Archive.RestoreFiles(ctx, in.SessionID, in.Epoch) {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// endingAll sets the messages of the execution in the event that ends it; none if it has
// only its own.
func endingAll(events []event.Event, messages []string) []event.Event {
	if len(messages) == 0 {
		return events
	}
	events = slices.Clone(events)
	for i, ev := range events {
		switch p := ev.Payload.(type) {
		case event.QueryFailed:
			p.MessageIDs = messages
			events[i].Payload = p
		case event.QueryInterrupted:
			p.MessageIDs = messages
			events[i].Payload = p
		}
	}
	return events
}
