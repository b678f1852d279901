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
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
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
	if in.ArchiveBehind() {
		if err := r.keepLost(ctx, epoch, in); err != nil {
			return err
		}
	}
	closing, anchor, err := r.closing(ctx, in)
	if err != nil {
		return err
	}
	id, key := in.Run.SessionID, "termination-"+in.Run.RunID
	last, err := r.Stream.Emit(ctx, id, stream.Emission{
		Fence: stream.Fence{Epoch: epoch}, LastSeq: in.State.Record.LastSeq, Key: key, Events: closing,
	})
	if err != nil {
		return err
	}
	entries, anchor := serverEntries(key, closing, anchor)
	if err := r.Archive.AppendServerEntries(ctx, id, epoch, entries...); err != nil {
		return err
	}
	used, err := r.usedOf(ctx, in)
	if err != nil {
		return err
	}
	final := in.State.Record
	final.LastSeq, final.LastBlockID = last, anchor
	final.Usage, final.CostUSD, final.Ticks = final.Usage.Add(used.Usage), event.AddKnown(final.CostUSD, used.CostUSD), event.AddKnown(final.Ticks, used.Calls)
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

// usedOf returns what the stream has of what the running execution used: the workflow did not
// learn of it.
func (r *Reconciler) usedOf(ctx context.Context, in contract.RecordTerminationInput) (limits.Execution, error) {
	if in.State.Running == nil {
		return limits.Execution{}, nil
	}
	used := usedBefore{executionID: in.State.Running.ExecutionID}
	if l := in.State.Lost; l != nil {
		used.parks = l.Parks
	}
	err := eachAfter(ctx, r.Stream, in.Run.SessionID, in.Since().LastSeq, func(ev event.Event) bool {
		used.Add(ev)
		return true
	})
	return used.Execution, err
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

// keepLost keeps what was streamed and did not reach the archive before its host was lost,
// and marks the running turn's calls whose effect is unknown.
func (r *Reconciler) keepLost(ctx context.Context, epoch uint64, in contract.RecordTerminationInput) error {
	s := &Session{Stream: r.Stream, Archive: r.Archive, Agents: r.Agents}
	after := in.Since()
	emit := contract.EmitInput{
		SessionID: in.Run.SessionID, Epoch: epoch, LastSeq: in.State.Record.LastSeq, Key: fmt.Sprintf("unarchived-%d", epoch),
		Abort: &contract.Abort{Unarchived: in.State.Unarchived},
	}
	scope := turn.Scope{After: after.LastSeq, Anchor: after.Anchor}
	if m := in.State.Running; m != nil {
		scope.ExecutionID, scope.MessageID = m.ExecutionID, m.MessageID
	}
	l, err := s.readLost(ctx, emit, in.State.Agent.Name, scope)
	if err != nil {
		return err
	}
	at := time.Now().UTC()
	var events []event.Event
	if m := in.State.Running; m != nil {
		// The message itself is not known here, and fails by name.
		message := turn.Message{BlockIDs: promptIDs(l.adapter, m.MessageID)}
		if l := in.State.Lost; l != nil {
			message = parkedBefore(message, l.Parked)
		}
		events = message.Lost(turn.Ending{Exited: true}, l.stream, l.persisted, at)
	} else {
		events = l.stream.Difference(l.persisted, loss.Options{At: at})
	}
	_, err = s.keepLost(ctx, emit, l, contract.EmitOutput{}, events)
	return err
}

// terminatedBlock returns the id of the block that says how a run was ended.
func terminatedBlock(run session.TerminatedRun) string { return "sojourn-" + run.RunID + "-terminated" }

// closing reads from the stream what was answered, and returns events for what was not,
// with the block that they follow: not their own, which an earlier attempt may have streamed.
func (r *Reconciler) closing(ctx context.Context, in contract.RecordTerminationInput) (events []event.Event, anchor string, err error) {
	p, err := replay(ctx, r.Stream, in.Since(), terminatedBlock(in.Run))
	if err != nil {
		return nil, "", err
	}
	if l := in.State.Lost; l != nil && l.Ended != nil {
		p.results = append(p.results, *l.Ended) // the stream may have been deleted since
	}
	return closingEvents(in, p), p.blocks.Last(), nil
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
		ID: terminatedBlock(in.Run), Type: event.BlockSystem, Status: event.StatusComplete,
		Source: event.SourceServer, Subtype: "terminated", Message: new(text),
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
