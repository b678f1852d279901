package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// abort ends an execution whose host is lost. It appends in.Events, unless the stream or
// the host's last heartbeat has the execution's end: the host may be lost right after it.
// Either way, what was streamed and did not reach the archive is marked as lost, and the
// message is kept. The epoch is the caller's: the lost host can write nothing after it.
func (s *Session) abort(ctx context.Context, in contract.EmitInput) (contract.EmitOutput, error) {
	out := contract.EmitOutput{Epoch: in.Epoch}
	if err := fenceLostHost(ctx, s.Stream, in.SessionID, in.Epoch, in.LastSeq); err != nil {
		return out, err
	}
	if err := s.fenceArchive(ctx, in); err != nil {
		return out, err
	}
	f := in.Abort
	adapter, err := s.Agents.Get(f.Agent)
	if err != nil {
		return out, err
	}
	h := turn.NewHistory(turn.Scope{
		ExecutionID: f.ExecutionID, MessageID: f.MessageID, BlockIDs: promptIDs(adapter, f.MessageID), After: f.AfterSeq, Anchor: in.Anchor,
	})
	read := func() error {
		return eachAfter(ctx, s.Stream, in.SessionID, h.Next(), func(ev event.Event) bool { h.Add(ev); return true })
	}
	if err := read(); err != nil {
		return out, err
	}
	out.Ended = f.Ended
	if h.Ended != nil {
		ended, _ := session.ResultOf(*h.Ended, f.MessageID)
		out.Ended = &ended
	}
	last := max(in.LastSeq, h.Next())
	events, folded, err := s.unarchived(ctx, in, adapter, h)
	if err != nil {
		return out, err
	}
	if out.Ended == nil {
		if len(folded) > 0 {
			out.MessageIDs = append([]string{f.MessageID}, folded...)
		}
		events = append(events, endingAll(in.Events, out.MessageIDs)...)
	}
	if len(events) > 0 {
		if last, err = s.Stream.Emit(ctx, in.SessionID, stream.Emission{
			Fence: stream.Fence{Epoch: in.Epoch}, LastSeq: last, Key: in.Key, Events: events,
		}); err != nil {
			return out, err
		}
	}
	out.LastSeq = last
	if err := read(); err != nil {
		return out, err
	}
	placed, anchor := h.Server()
	out.LastBlockID = anchor
	return out, s.Archive.AppendServerEntries(ctx, in.SessionID, in.Epoch, serverEntriesOf(placed)...)
}

// fenceLostHost makes sure that a worker of a lost host writes nothing more to the stream:
// it may be about to write the execution's end, and what is read after this call must be
// complete.
func fenceLostHost(ctx context.Context, log *stream.Log, sessionID string, epoch, lastSeq uint64) error {
	_, err := log.Emit(ctx, sessionID, stream.Emission{
		Fence: stream.Fence{Epoch: epoch}, LastSeq: lastSeq, Key: fmt.Sprintf("lost-host-%d", epoch),
		Events: []event.Event{fromServer(event.Status{Epoch: epoch, Message: "the session's host is lost; what the stream has of it is kept"})},
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

// unarchived returns the events that make the stream agree with the archive, and that keep
// the message of an execution whose agent had not streamed it. folded are the messages that
// the agent had taken into the execution.
func (s *Session) unarchived(ctx context.Context, in contract.EmitInput, a adapters.Adapter, h *turn.History) (events []event.Event, folded []string, err error) {
	sources, err := s.Archive.Sources(ctx, in.SessionID)
	if err != nil {
		return nil, nil, fmt.Errorf("session %s: look for what was lost: %w", in.SessionID, err)
	}
	m := messageOf(a, in.Abort.Message)
	m.BlockIDs, m.Steered = promptIDs(a, in.Abort.MessageID), steeredBefore(a, in.Abort.Steered)
	persisted := loss.Persisted(a.Parse(sources), m.BlockIDs, h.Streamed())
	kept, _ := m.Steered.Persisted(persisted)
	return m.Lost(turn.Ending{Exited: true}, h, persisted, time.Now().UTC()), kept.Taken(), ctx.Err()
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
