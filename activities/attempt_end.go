package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn"
)

// finish writes the end of the turn: first the stream, then the checkpoint, so that an
// attempt that dies in between repeats only what can be repeated; the archive last, because
// it may be unavailable.
func (a *attempt) finish(ctx context.Context, f turn.Finish) (contract.RunTurnOutput, error) {
	if a.machine.Interrupt != nil || f.Ending.Outcome == turn.Interrupted {
		a.sweep(ctx)
	}
	if a.machine.Concluded == nil {
		var err error
		if f.Ending, err = a.keepEnding(f.Ending); err == nil {
			err = a.writeEnd(ctx, f)
		}
		if err != nil {
			return contract.RunTurnOutput{}, err
		}
	}
	state, err := a.dialogue.State()
	if err != nil {
		return contract.RunTurnOutput{}, err
	}
	out := a.output(f.Ending)
	if a.machine.Concluded != nil {
		out.Result = a.resultOf(*a.history.Ended)
	}
	a.checkpoint.Offset, a.checkpoint.Translator = f.Next, state
	if err := a.saveOutput(ctx, out); err != nil {
		return contract.RunTurnOutput{}, err
	}
	a.heartbeatEnded(ctx)
	if f.Ending.Exited {
		a.host.Disconnect(a.in.Sandbox.ID)
	}
	if err := a.awaitAnswer(ctx, f); err != nil {
		return contract.RunTurnOutput{}, err
	}
	return a.archived(ctx)
}

// keepEnding returns the ending, and saves first that a turn is completed. An attempt that
// comes after the stream was deleted with its end must not call the turn interrupted
// because it was asked to interrupt meanwhile. Any other ending may be another one the next
// time: a failed turn may be resumed.
func (a *attempt) keepEnding(e turn.Ending) (turn.Ending, error) {
	open := a.checkpoint.Open
	switch {
	case open == nil || e.Outcome == turn.Completed && open.Completed:
		return e, nil
	case open.Completed:
		e.Outcome, e.Failure = turn.Completed, nil
		return e, nil
	case e.Outcome != turn.Completed:
		return e, nil
	}
	open.Completed = true
	return e, a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// saveOutput saves that the execution has ended, with the entries for the archive: the
// stream may be deleted before a later attempt archives them.
func (a *attempt) saveOutput(ctx context.Context, out contract.RunTurnOutput) error {
	if err := a.collectServer(ctx); err != nil {
		return err
	}
	a.checkpoint.Ended, a.checkpoint.Output, a.checkpoint.Open, a.checkpoint.Unarchived = a.in.ExecutionID, &out, nil, true
	return a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// writeEnd appends the turn's end and what precedes it: what messages took, what silent
// subagents did, which blocks the agent will not persist, and why it failed.
func (a *attempt) writeEnd(ctx context.Context, f turn.Finish) error {
	if err := a.emitSilentUsage(ctx, f); err != nil {
		return err
	}
	if err := a.emitSilentThreads(ctx, f); err != nil {
		return err
	}
	if err := a.keepLost(ctx, f); err != nil {
		return err
	}
	if said := a.machine.FailureBlock(a.message(), f.Ending, time.Now()); len(said) > 0 {
		if f.Ending.Exited && f.Ending.Outcome == turn.Failed {
			said = append(said, a.unhealthy(f.Ending.Failure.Message)...)
		}
		if err := a.appendAt(ctx, turn.Place{Offset: f.Offset, Index: turn.IndexFailure}, said...); err != nil {
			return err
		}
		a.machine.HasServer = true
	}
	if err := a.out.Flush(ctx); err != nil {
		return err
	}
	end := a.machine.EndEvent(a.message(), f.Ending, a.writer.Tail().LastSeq, time.Now())
	if err := a.appendAt(ctx, turn.Place{Offset: f.Offset, Index: turn.IndexEnd}, end); err != nil {
		return err
	}
	return a.out.Flush(ctx)
}

// keepLost keeps what the agent streamed and will not persist, because it has exited or
// dropped it (such as a text that an interrupt cut off). While the agent is alive, only the
// dropped blocks are read into memory.
func (a *attempt) keepLost(ctx context.Context, f turn.Finish) error {
	place := turn.Place{Offset: f.Offset, Index: turn.IndexLost}
	tookBack, any := a.machine.Summary.TookBack()
	if !any && !f.Ending.Exited || a.machine.Has(place) && len(a.machine.Steered) == 0 {
		return nil
	}
	blocks := tookBack
	if f.Ending.Exited {
		blocks, a.agent.Launch.Unfinished = nil, a.unfinished()
		if err := a.host.Mend(ctx, a.agent); err != nil {
			return fmt.Errorf("make whole what the agent was killed at: %w", err)
		}
	} else {
		a.history = nil // it has no blocks
	}
	h, err := a.read(ctx, blocks)
	if err != nil {
		return fmt.Errorf("look for lost blocks: %w", err)
	}
	persisted := reducer.State{}
	if f.Ending.Exited {
		if persisted, err = persistedBy(ctx, a.agent, h.History); err != nil {
			return fmt.Errorf("look for lost blocks: %w", err)
		}
	}
	events := a.message().Lost(f.Ending, h.History, persisted, f.At)
	h.DropBlocks()
	// The last block may be among them: the stream is read again.
	a.machine.HasServer = a.machine.HasServer || len(events) > 0
	if f.Ending.Exited {
		a.machine.Steered, _ = a.machine.Steered.Persisted(persisted, h.Refused)
	}
	return a.appendAt(ctx, place, events...)
}

// adopt takes over the end that the stream has of an execution whose host was lost before
// the end was reported to Temporal. What was streamed and did not reach the archive is
// kept.
func (a *attempt) adopt(ctx context.Context) (out contract.RunTurnOutput, err error) {
	if err := a.find(ctx); err != nil {
		return out, err
	}
	out.LastBlock = a.history.LastBlock
	if ended := a.history.Ended; ended != nil {
		out.Result = a.resultOf(*ended)
	} else {
		out.Result = *a.in.Resumes.Ended // from the lost host's last heartbeat; the stream was deleted
	}
	out.SetUsed(a.history.used.Execution)
	if err := a.emitLostOfEnded(ctx); err != nil {
		return out, err
	}
	if err := a.saveOutput(ctx, out); err != nil {
		return out, err
	}
	return a.archived(ctx)
}

// archiveLate archives a turn that ended, and whose worker died before it was archived.
func (a *attempt) archiveLate(ctx context.Context) (contract.RunTurnOutput, error) {
	if err := a.takeStream(ctx); err != nil {
		return contract.RunTurnOutput{}, err
	}
	if err := a.find(ctx); err != nil {
		return contract.RunTurnOutput{}, err
	}
	return a.archived(ctx)
}

// find returns the sandbox of a turn that has ended, and starts nothing in it.
func (a *attempt) find(ctx context.Context) (err error) {
	if a.agent, err = a.host.Find(ctx, a.in.Agent, a.in.Sandbox.ID, a.in.Sandbox.Epoch); err != nil {
		return err
	}
	a.archiver, a.machine.HasServer = a.host.archiverOf(a.agent), true
	return nil
}

// archived archives what an ended turn left, saves that, and returns its output.
func (a *attempt) archived(ctx context.Context) (contract.RunTurnOutput, error) {
	if err := a.collectServer(ctx); err != nil {
		return contract.RunTurnOutput{}, err
	}
	a.archiveEnd(ctx)
	out := *a.checkpoint.Output
	out.LastBlockID = cmp.Or(a.machine.Summary.Last(), out.LastBlockID)
	out.ArchiveBehind, out.NotKept, out.LastSeq = a.behind, a.notKept, max(out.LastSeq, a.writer.Tail().LastSeq)
	a.checkpoint.Output, a.checkpoint.Unarchived = &out, false
	if err := a.saveEnded(); err != nil {
		return out, err
	}
	a.trimSpool(ctx)
	return out, nil
}

// trimSpool frees the disk from what an archived turn has read: no attempt reads it again.
func (a *attempt) trimSpool(ctx context.Context) {
	if a.behind != "" || a.agent.Conn == nil {
		return
	}
	if err := a.agent.Conn.Trim(ctx, a.checkpoint.Offset); err != nil {
		a.host.o.Log.Debug("the spool is not trimmed", "session", a.in.Agent.SessionID, "error", err)
	}
}

// sweep ends the processes that an interrupted turn left.
func (a *attempt) sweep(ctx context.Context) {
	swept, err := a.agent.Conn.Sweep(ctx, a.checkpoint.Open.Running)
	if err != nil {
		// With an agent that has exited, all its processes ended.
		a.host.o.Log.Debug("sweep after an interrupt", "session", a.in.Agent.SessionID, "error", err)
		return
	}
	if len(swept.Left) > 0 {
		a.host.o.Log.Warn("processes survived an interrupt", "session", a.in.Agent.SessionID, "left", len(swept.Left))
	}
}

// resultOf returns the result that is in the stream.
func (a *attempt) resultOf(ended event.Event) session.Result {
	res, _ := session.ResultOf(ended, a.in.Message.ID)
	return shortened(res)
}

func (a *attempt) output(e turn.Ending) contract.RunTurnOutput {
	s, last := &a.machine.Summary, a.writer.Tail().LastSeq
	res := session.Result{ExecutionID: a.in.ExecutionID, MessageID: a.in.Message.ID, Outcome: session.Outcome(e.Outcome), Error: e.Failure}
	res.Result = a.machine.Result(e, last)
	if taken := a.machine.Steered.Taken(); len(taken) > 0 {
		res.MessageIDs = append([]string{a.in.Message.ID}, taken...)
	}
	if e.Outcome == turn.Interrupted {
		res.Reason = a.machine.Reason()
	}
	return contract.RunTurnOutput{
		Result: shortened(res), Usage: s.Usage, CostUSD: s.CostUSD, LastSeq: last,
		LastBlockID: s.Last(), LastBlock: s.LastBlock, AgentExited: e.Exited, Progress: progressOf(s),
	}
}

// archivePatience is how long a turn waits for the archive at its end. Later syncs archive
// the rest.
const archivePatience = 5 * time.Second

// archiveEnd archives what the turn left, and syncs once more after the turn: an agent may
// write its last lines after it reported that it is idle.
func (a *attempt) archiveEnd(ctx context.Context) {
	if len(a.checkpoint.Server) > 0 {
		a.archiveOwn(ctx)
		if err := a.saveEnded(); err != nil {
			a.behind = err.Error()
		}
	}
	once, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	grown, err := a.archiver.sync(once)
	if err != nil {
		a.behind = err.Error()
	} else {
		if len(a.checkpoint.Server) == 0 {
			a.behind = ""
		}
		a.notKept = a.syncWorkspace(once)
	}
	if err := errors.Join(a.emitGrown(ctx, grown), a.out.Flush(ctx)); err != nil {
		a.host.o.Log.Debug("the growth of the archive was not said", "session", a.in.Agent.SessionID, "error", err)
	}
	begun := a.archiver.turns.Load()
	a.host.Go(func(ctx context.Context) { a.host.syncLater(ctx, a.archiver, begun) })
}

// archiveOwn archives Sojourn's own entries; those that fail stay in the checkpoint.
func (a *attempt) archiveOwn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	if err := a.host.o.Archive.AppendServerEntries(ctx, a.in.Agent.SessionID, a.fence.Epoch, a.checkpoint.Server...); err != nil {
		a.behind = err.Error()
		return
	}
	a.checkpoint.Server = nil
}

// saveEnded saves the result of an ended turn, unless another turn has written the
// checkpoint since: after a reset two may run concurrently.
func (a *attempt) saveEnded() error {
	return a.host.Checkpoints.SaveIf(a.in.Sandbox.ID, a.checkpoint, func(saved host.Checkpoint) bool {
		return saved.Ended == a.in.ExecutionID && saved.Open == nil
	})
}

// laterEvery is the interval of further syncs of a turn's transcripts, laterTimes their
// maximum number: S3 may be unavailable.
const (
	laterEvery = time.Second
	laterTimes = 60
)

// syncLater archives what an agent wrote after its turn, unless the next one, which
// archives that too, has begun.
func (h *Host) syncLater(ctx context.Context, a *archiver, begun int64) {
	for range laterTimes {
		select {
		case <-time.After(laterEvery):
		case <-ctx.Done():
			return
		}
		if a.turns.Load() != begun {
			return
		}
		once, cancel := context.WithTimeout(ctx, archivePatience)
		_, err := a.sync(once)
		cancel()
		if err == nil || errors.Is(err, archive.ErrFenced) {
			return
		}
		h.o.Log.Debug("archive after a turn", "session", a.agent.Launch.SessionID, "error", err)
	}
}
