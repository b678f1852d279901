package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// RecordTermination closes a terminated session under a new epoch: every message that was
// accepted and not answered fails with a typed error, the record and the list's marker are
// written, session:closed is appended. A session that was reopened meanwhile is left alone.
func (r *Reconciler) RecordTermination(ctx context.Context, in contract.RecordTerminationInput) error {
	return toApplicationError(r.recordTermination(ctx, in))
}

func (r *Reconciler) recordTermination(ctx context.Context, in contract.RecordTerminationInput) error {
	epoch, err := r.takeEpoch(ctx, in.Run)
	if err != nil || epoch == 0 {
		return err
	}
	if in.HostLost {
		if err := fenceLostHost(ctx, r.Stream, in.Run.SessionID, epoch, in.State.Record.LastSeq); err != nil {
			return err
		}
	}
	rec, err := r.terminationRecord(ctx, in)
	if err != nil {
		return err
	}
	id, key := in.Run.SessionID, "termination-"+in.Run.RunID
	last, err := r.Stream.Emit(ctx, id, stream.Emission{
		Fence: stream.Fence{Epoch: epoch}, LastSeq: in.State.Record.LastSeq, Key: key, Events: slices.Concat(rec.lost, rec.closing),
	})
	if err != nil {
		return err
	}
	entries, anchor := serverEntries(key, rec.closing, rec.anchor)
	if err := r.Archive.AppendServerEntries(ctx, id, epoch, append(rec.before, entries...)...); err != nil {
		return err
	}
	final := in.State.Record
	final.LastSeq, final.LastBlockID = last, anchor
	if err := r.saveRecord(ctx, id, final); err != nil {
		return err
	}
	if !in.State.Unlisted {
		if err := r.Archive.MarkClosed(ctx, id, epoch, time.Now()); err != nil {
			return err
		}
	}
	return r.Stream.Changed(ctx, id, stream.ChangeClosed)
}

// takeEpoch takes the session's next epoch; 0 if the session is open again. Reopening
// starts the workflow before it takes an epoch, so at least one of the two sees the other.
func (r *Reconciler) takeEpoch(ctx context.Context, run session.TerminatedRun) (uint64, error) {
	for {
		seen, err := r.Archive.Epoch(ctx, run.SessionID)
		if err != nil {
			return 0, err
		}
		if t, err := r.termination(ctx, run); err != nil || t == "" {
			return 0, err
		}
		epoch, err := r.Archive.TakeEpochAfter(ctx, run.SessionID, seen)
		if !errors.Is(err, archive.ErrFenced) {
			return epoch, err
		}
	}
}

// saveRecord writes the session's totals, and creates the record of a session that ended
// before it had one.
func (r *Reconciler) saveRecord(ctx context.Context, id string, rec session.Record) error {
	_, err := r.Archive.UpdateSession(ctx, id, rec.Apply)
	if !errors.Is(err, archive.ErrNotFound) {
		return err
	}
	data := archive.ListData{ID: id}
	if err := rec.Apply(&data); err != nil {
		return err
	}
	_, err = r.Archive.CreateSession(ctx, data)
	return err
}

// terminationRecord is what is written for a terminated session.
type terminationRecord struct {
	// lost marks what was lost with the host; closing fails the pending messages and closes
	// the session.
	lost, closing []event.Event
	// before are server blocks that were lost with the host.
	before []archive.ServerEntry
	// anchor is the last archived block before closing.
	anchor string
}

// terminationRecord reads from the stream what was answered, and returns events for what
// was not.
func (r *Reconciler) terminationRecord(ctx context.Context, in contract.RecordTerminationInput) (terminationRecord, error) {
	since := contract.CatchUpInput{SessionID: in.Run.SessionID, LastSeq: in.State.Record.LastSeq, Anchor: in.State.Record.LastBlockID}
	if s := in.State.Since; s != nil {
		since.LastSeq, since.Anchor = s.AfterSeq, s.Anchor
	}
	p, err := replay(ctx, r.Stream, since)
	if err != nil {
		return terminationRecord{}, err
	}
	var rec terminationRecord
	if in.HostLost {
		if rec.lost, err = r.lost(ctx, in, since.LastSeq); err != nil {
			return rec, err
		}
		for i, ev := range rec.lost {
			ev.Context.Seq = p.seq + uint64(i) + 1 // the seq at which it will be appended
			p.blocks.Add(ev)
		}
		rec.before = serverEntriesOf(p.blocks.Placed())
	}
	rec.anchor = p.blocks.Last()
	rec.closing = closingEvents(in, p)
	return rec, nil
}

// lost marks what was streamed and is in no archived transcript, and the calls whose effect
// is unknown.
func (r *Reconciler) lost(ctx context.Context, in contract.RecordTerminationInput, since uint64) ([]event.Event, error) {
	a, err := r.Agents.Get(in.State.Agent.Name)
	if err != nil {
		return nil, err
	}
	live, saved := loss.NewTail(), reducer.NewBuilder(reducer.State{})
	running, calls := "", effects.Calls{}
	if m := in.State.Running; m != nil {
		running, calls.ExecutionID = m.MessageID, m.ExecutionID
	}
	err = eachAfter(ctx, r.Stream, in.Run.SessionID, since, func(ev event.Event) bool { live.Add(ev); calls.Add(ev); return true })
	if err != nil {
		return nil, err
	}
	for ev, err := range r.Archive.Events(ctx, in.Run.SessionID, a.Parse) {
		if err == nil {
			saved.Add(ev)
			calls.AddResult(ev)
		}
	}
	at := time.Now().UTC()
	lost := loss.Difference(live.State(), saved.State(), loss.Options{At: at, Asked: promptIDs(a, running)})
	if in.State.Running != nil {
		lost = append(lost, calls.Marks(at)...)
	}
	return lost, ctx.Err()
}

// closingEvents returns the events that fail what was not answered, in the stream and in
// the conversation, and close the session.
func closingEvents(in contract.RecordTerminationInput, p *replayed) []event.Event {
	why := in.Termination.Sentence()
	info := event.ErrorInfo{Message: why + " before this message was answered", Code: session.TypeTerminated}
	pending := in.State.Waiting
	if m := in.State.Running; m != nil {
		pending = append([]contract.PendingMessage{*m}, pending...)
	}
	var events []event.Event
	var names []string
	for _, m := range pending {
		end, ended := p.endOf(m.MessageID)
		if ended && (end.Error == nil || end.Error.Code != session.TypeTerminated) {
			continue
		}
		names = append(names, fmt.Sprintf("%s (%s)", m.Title, m.MessageID))
		if !ended {
			events = append(events, fromServer(event.QueryFailed{Query: event.Query{ExecutionID: m.ExecutionID, MessageIDs: []string{m.MessageID}, Error: &info}}))
		}
	}
	text := why
	if len(names) > 0 {
		text += " before these messages were answered: " + strings.Join(names, "; ")
	}
	if in.HostLost {
		text += "; its host " + in.State.Sandbox.Host + " did not answer, and what was not archived is lost"
	}
	events = append(events, fromServer(event.BlockUpsert{Block: event.Block{
		ID: "sojourn-" + in.Run.RunID + "-terminated", Type: event.BlockSystem, Status: event.StatusComplete,
		Source: event.SourceServer, Subtype: "terminated", Message: event.Text(text),
	}}))
	return append(events, fromServer(runtime(false)), fromServer(event.SessionClosed{Reason: string(in.Termination)}))
}

func (p *replayed) endOf(messageID string) (session.Result, bool) {
	for _, res := range p.results {
		if res.MessageID == messageID || slices.Contains(res.MessageIDs, messageID) {
			return res, true
		}
	}
	return session.Result{}, false
}
