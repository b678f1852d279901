package activities

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// forsake ends an execution whose host is lost: by the events given, unless its
// end stands in the stream, because the host was lost right behind it. What was
// said live and did not reach the archive is marked as lost either way, and the
// message is kept. The epoch is the caller's: nothing of the lost host can come
// behind it.
func (s *Session) forsake(ctx context.Context, in EmitInput) (EmitOutput, error) {
	out := EmitOutput{Epoch: in.Epoch}
	if err := s.fenceArchive(ctx, in); err != nil {
		return out, err
	}
	f := in.Forsaken
	adapter, err := s.Agents.Get(f.Agent)
	if err != nil {
		return out, err
	}
	fold := reducer.NewBuilder(reducer.State{})
	asked := promptWatch{executionID: f.ExecutionID, ids: promptIDs(adapter, f.MessageID)}
	last := in.LastSeq
	err = eachAfter(ctx, s.Stream, in.SessionID, f.AfterSeq, func(ev event.Event) bool {
		fold.Add(ev)
		asked.add(ev)
		last = max(last, ev.Context.Seq)
		if r, ok := session.ResultOf(ev, f.MessageID); ok && r.ExecutionID == f.ExecutionID {
			out.Ended = &r
		}
		return true
	})
	if err != nil {
		return out, err
	}
	events, err := s.unarchived(ctx, in, adapter, fold.State(), asked)
	if err != nil {
		return out, err
	}
	if out.Ended == nil {
		events = append(events, in.Events...)
	}
	if len(events) > 0 {
		if last, err = s.Stream.Emit(ctx, in.SessionID, stream.Emission{
			Fence: stream.Fence{Epoch: in.Epoch}, LastSeq: last, Key: in.Key, Events: events,
		}); err != nil {
			return out, err
		}
	}
	out.LastSeq = last
	out.LastBlockID, err = s.archiveOwnSince(ctx, in)
	return out, err
}

// fenceArchive makes sure that a worker of the lost host commits nothing more.
func (s *Session) fenceArchive(ctx context.Context, in EmitInput) error {
	for _, err := range s.Archive.RestoreFiles(ctx, in.SessionID, in.Epoch) {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// unarchived are the events that make the live side say what the archive does, and
// that keep the message of an execution whose agent had not streamed it.
func (s *Session) unarchived(ctx context.Context, in EmitInput, a adapters.Adapter, live reducer.State, asked promptWatch) ([]event.Event, error) {
	sources, err := s.Archive.Sources(ctx, in.SessionID)
	if err != nil {
		return nil, fmt.Errorf("session %s: look for what was lost: %w", in.SessionID, err)
	}
	restored := foldSaved(a.Parse(sources), asked.ids, live)
	now := time.Now().UTC()
	events := unsaved(asked.ids, live, restored, now)
	if !asked.streamed {
		events = append(keepPrompt(in.Forsaken.Message, asked.ids, restored, now), events...)
	}
	return events, ctx.Err()
}

// archiveOwnSince archives Sojourn's own blocks of the execution, those too that
// were lost with the host, and gives the conversation's last block.
func (s *Session) archiveOwnSince(ctx context.Context, in EmitInput) (string, error) {
	c := collectorFrom(in.Anchor)
	err := eachAfter(ctx, s.Stream, in.SessionID, in.Forsaken.AfterSeq, func(ev event.Event) bool { c.hear(ev); return true })
	if err != nil {
		return "", err
	}
	return c.anchor(), s.Archive.AppendOwn(ctx, in.SessionID, in.Epoch, c.entries()...)
}
