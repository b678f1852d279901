package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// history is what an attempt has read of the stream.
type history struct {
	*turn.History
	// whole reports whether it has all blocks.
	whole bool
	used  usedBefore
}

// Add adds the next event of the stream.
func (h *history) Add(ev event.Event) {
	h.History.Add(ev)
	h.used.Add(ev)
}

func (h *history) addAll(events []event.Event) {
	for _, ev := range events {
		h.Add(ev)
	}
}

// read reads what the stream has of the execution after the last read, and what this attempt
// has stored there itself, deleted or not. blocks selects those that Streamed must have; nil for
// all, noBlocks for none.
func (a *attempt) read(ctx context.Context, blocks func(event.Event) bool) (*history, error) {
	if err := a.out.Flush(ctx); err != nil {
		return nil, err
	}
	if a.history == nil || blocks == nil && !a.history.whole {
		a.history = &history{turn.NewHistory(a.scope(blocks)), blocks == nil, usedBefore{executionID: a.in.ExecutionID, parks: parksOf(a.in)}}
	}
	h := a.history
	err := eachAfter(ctx, a.host.o.Stream, a.in.Agent.SessionID, h.Next(), func(ev event.Event) bool {
		h.addAll(a.stored.between(h.Next(), ev.Context.Seq))
		h.Add(ev)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read what was streamed of execution %s: %w", a.in.ExecutionID, err)
	}
	h.addAll(a.stored.between(h.Next(), math.MaxUint64))
	if h.Incomplete {
		a.host.o.Log.Warn("a part of the turn is missing in the stream", "session", a.in.Agent.SessionID)
	}
	return h, nil
}

func noBlocks(event.Event) bool { return false }

// DropBlocks releases memory; see [turn.History.DropBlocks].
func (h *history) DropBlocks() {
	h.History.DropBlocks()
	h.whole = false
}

// since returns a sequence number before all events of this execution.
func (a *attempt) since() uint64 {
	if a.in.Resumes != nil {
		return a.in.Resumes.AfterSeq
	}
	return cmp.Or(a.in.AfterSeq, a.in.LastSeq)
}

func (a *attempt) scope(blocks func(event.Event) bool) turn.Scope {
	s := turn.Scope{
		ExecutionID: a.in.ExecutionID, MessageID: a.in.Message.ID, BlockIDs: a.message().BlockIDs,
		After: a.since(), Anchor: a.in.Anchor, Blocks: blocks,
	}
	if u := a.in.Unarchived; u != nil {
		s.After, s.Anchor, s.Earlier = min(u.AfterSeq, s.After), u.Anchor, messagesOf(a.adapter, u.Messages)
	}
	return s
}

// readStream reads whether the execution has ended. After a lost host it also needs what
// was streamed.
func (a *attempt) readStream(ctx context.Context) error {
	if err := a.takeStream(ctx); err != nil {
		return err
	}
	var blocks func(event.Event) bool
	if a.checkpoint.Began(a.in) {
		blocks = noBlocks
	}
	h, err := a.read(ctx, blocks)
	if err == nil {
		known := a.in.Resumes != nil && a.in.Resumes.Ended != nil
		a.facts.Stream = &turn.StreamFacts{Ended: h.Ended != nil || known && !a.checkpoint.Began(a.in)}
	}
	return err
}

// emitLostBefore makes the stream agree with the transcripts about the previous turn, whose
// agent has exited.
func (a *attempt) emitLostBefore(ctx context.Context) error {
	return a.emitDifference(ctx, func(h *history, persisted reducer.State) []event.Event {
		m := a.message() // that agent may have received it, and it is sent again now
		return h.Difference(persisted, loss.Options{At: time.Now().UTC(), Asked: m.BlockIDs, AskedAgain: m.BlockIDs})
	})
}

// emitLostOfEnded does the same for this turn, which has ended, and keeps its message: after
// the stream is deleted, nothing else has a turn that did not reach the archive.
func (a *attempt) emitLostOfEnded(ctx context.Context) error {
	return a.emitDifference(ctx, func(h *history, persisted reducer.State) []event.Event {
		return a.message().Lost(turn.Ending{Exited: true}, h.History, persisted, time.Now().UTC())
	})
}

func (a *attempt) emitDifference(ctx context.Context, lost func(h *history, persisted reducer.State) []event.Event) error {
	h, err := a.read(ctx, nil)
	if err != nil {
		return err
	}
	persisted, err := persistedBy(ctx, a.agent, h.History)
	if err != nil {
		return fmt.Errorf("look for what was lost: %w", err)
	}
	events := lost(h, persisted)
	h.DropBlocks()
	a.machine.HasServer = a.machine.HasServer || len(events) > 0
	if err := a.out.Add(ctx, events, stream.Position{}); err != nil {
		return err
	}
	return a.out.Flush(ctx)
}

// collectServer finds the server blocks that this turn's attempts appended to the stream,
// each with its anchor, for the archive. It reads the stream and not this attempt's memory:
// the stream has what earlier attempts wrote, in order, and at the end of the turn it is
// known which of the agent's blocks are permanent.
func (a *attempt) collectServer(ctx context.Context) error {
	if !a.machine.HasServer && !a.machine.Summary.HasServer {
		return nil
	}
	h, err := a.read(ctx, noBlocks)
	if err != nil {
		return err
	}
	placed, last := h.Server()
	a.checkpoint.Server = collect(a.checkpoint.Server, serverEntriesOf(placed))
	a.machine.Summary.SetLast(last)
	return nil
}

// collect adds entries to those that are not archived yet. Entries that were collected
// before may have another anchor now.
func collect(own, entries []archive.ServerEntry) []archive.ServerEntry {
	own = slices.DeleteFunc(own, func(old archive.ServerEntry) bool {
		return slices.ContainsFunc(entries, func(e archive.ServerEntry) bool { return e.ID == old.ID })
	})
	return append(own, entries...)
}

// persistedBy returns the part of the conversation in the agent's own transcripts that is
// comparable with the streamed one.
func persistedBy(ctx context.Context, a *host.Agent, h *turn.History) (reducer.State, error) {
	t, err := transcriptsOf(ctx, a)
	if err != nil {
		return reducer.State{}, err
	}
	state := h.Persisted(a.Adapter.Parse(t.sources))
	return state, errors.Join(t.failed(), ctx.Err())
}
