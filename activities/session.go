package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// Session has the light writes to stream and archive that need no sandbox.
type Session struct {
	Stream  *stream.Log
	Archive *archive.Archive
	// Agents read the transcripts of sessions whose host is lost.
	Agents adapters.Registry
}

// Begin opens a run: it takes an epoch, writes the record and appends session:initialized.
func (s *Session) Begin(ctx context.Context, in contract.BeginInput) (contract.BeginOutput, error) {
	out, err := s.begin(ctx, in.Session, in.RunID)
	return out, toApplicationError(err)
}

func (s *Session) record(ctx context.Context, id string) (*session.Record, error) {
	data, err := s.Archive.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	rec, err := session.RecordOf(data)
	return &rec, err
}

func (s *Session) begin(ctx context.Context, in session.Input, runID string) (contract.BeginOutput, error) {
	epoch, err := s.Archive.TakeEpoch(ctx, in.SessionID)
	if err != nil {
		return contract.BeginOutput{}, err
	}
	out := contract.BeginOutput{Epoch: epoch}
	if out.Record, err = s.openRecord(ctx, in, epoch); err != nil {
		return out, err
	}
	last := uint64(0)
	if out.Record != nil {
		last = out.Record.LastSeq
	}
	started := event.SessionInitialized{
		Agent: in.Options.Agent, Profile: in.Options.Profile, Title: in.Options.Title, Reopened: in.Reopened,
	}
	if in.Parent != nil {
		started.Parent = in.Parent.SessionID
	}
	out.LastSeq, err = s.Stream.Emit(ctx, in.SessionID, stream.Emission{
		Fence: stream.Fence{Epoch: epoch}, LastSeq: last, Since: firstTry(ctx), Key: "begin-" + runID,
		Events: []event.Event{fromServer(started), fromServer(runtime(true))},
	})
	if err != nil {
		return out, err
	}
	return out, s.Stream.Changed(ctx, in.SessionID, stream.ChangeCreated)
}

// firstTry returns when the running activity was first tried; zero in its first attempt.
func firstTry(ctx context.Context) time.Time {
	if activity.IsActivity(ctx) && activity.GetInfo(ctx).Attempt > 1 {
		return activity.GetInfo(ctx).ScheduledTime
	}
	return time.Time{}
}

// openRecord creates the session's record, or returns that of an earlier run.
func (s *Session) openRecord(ctx context.Context, in session.Input, epoch uint64) (*session.Record, error) {
	data, err := s.Archive.Session(ctx, in.SessionID)
	if err == nil {
		if err := s.Archive.MarkOpen(ctx, in.SessionID, epoch); err != nil {
			return nil, err
		}
		if !in.Reopened {
			// An earlier attempt wrote it.
			return nil, nil
		}
		rec, err := session.RecordOf(data)
		return &rec, err
	}
	if !errors.Is(err, archive.ErrNotFound) {
		return nil, err
	}
	data = archive.ListData{ID: in.SessionID}
	if in.Parent != nil {
		data.Parent = in.Parent.SessionID
	}
	if err := (session.Record{Options: in.Options, Native: 1}).Apply(&data); err != nil {
		return nil, err
	}
	_, err = s.Archive.CreateSession(ctx, data)
	return nil, err
}

// Emit appends server events while no turn runs. Blocks among them are archived too,
// anchored to the block that they follow.
func (s *Session) Emit(ctx context.Context, in contract.EmitInput) (contract.EmitOutput, error) {
	if in.TakeEpoch {
		var err error
		if in.Epoch, err = s.Archive.TakeEpoch(ctx, in.SessionID); err != nil {
			return contract.EmitOutput{}, toApplicationError(err)
		}
	}
	if in.Abort != nil {
		out, err := s.abort(ctx, in)
		return out, toApplicationError(err)
	}
	last, err := s.Stream.Emit(ctx, in.SessionID, stream.Emission{
		Fence: stream.Fence{Epoch: in.Epoch}, LastSeq: in.LastSeq, Key: in.Key, Events: in.Events,
	})
	if err != nil {
		return contract.EmitOutput{}, toApplicationError(err)
	}
	if err := announceChanges(ctx, s.Stream, in.SessionID, in.Events); err != nil {
		return contract.EmitOutput{}, toApplicationError(err)
	}
	entries, anchor := serverEntries(in.Key, in.Events, in.Anchor)
	if err := s.Archive.AppendServerEntries(ctx, in.SessionID, in.Epoch, entries...); err != nil {
		return contract.EmitOutput{}, toApplicationError(err)
	}
	return contract.EmitOutput{Epoch: in.Epoch, LastSeq: last, LastBlockID: anchor}, nil
}

// Finish closes a run: it writes the record and the list's marker, and appends
// session:closed.
func (s *Session) Finish(ctx context.Context, in contract.FinishInput) error {
	return toApplicationError(s.finish(ctx, in))
}

func (s *Session) finish(ctx context.Context, in contract.FinishInput) error {
	id := in.Session.SessionID
	if err := s.keepUnarchived(ctx, in, &in.Record); err != nil {
		return err
	}
	var events []event.Event
	if in.Lost != nil {
		events = append(events, fromServer(event.EETerminated{Environment: lostEnvironment(*in.Lost)}))
	}
	last, err := s.Stream.Emit(ctx, id, stream.Emission{
		Fence: stream.Fence{Epoch: in.Epoch}, LastSeq: in.Record.LastSeq, Key: fmt.Sprintf("closed-%d", in.Epoch),
		Events: append(events, fromServer(runtime(false)), fromServer(event.SessionClosed{Reason: in.Reason})),
	})
	if err != nil {
		return err
	}
	in.Record.LastSeq = last
	if _, err := s.Archive.UpdateSession(ctx, id, in.Record.Apply); err != nil {
		return err
	}
	if !in.Unlisted {
		if err := s.Archive.MarkClosed(ctx, id, in.Epoch, time.Now()); err != nil {
			return err
		}
	}
	return s.Stream.Changed(ctx, id, stream.ChangeClosed)
}

// announceChanges notifies subscribers of lists that a session has changed.
func announceChanges(ctx context.Context, log *stream.Log, sessionID string, events []event.Event) error {
	for _, ev := range events {
		if p, ok := ev.Payload.(event.OptionsUpdate); ok && p.Title != nil {
			return log.Changed(ctx, sessionID, stream.ChangeRenamed)
		}
	}
	return nil
}
