package activities

import (
	"context"
	"errors"
	"slices"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/turn"
)

// errParks ends what an attempt was doing: from then on the turn is being parked, by this
// attempt or the next one.
var errParks = errors.New("the turn is being parked")

// beginPark saves that the turn is being parked, before anything is stopped, and what its
// agent has used: an attempt that only stops it reads none of that.
func (a *attempt) beginPark(do turn.Park) error {
	s := &a.machine.Summary
	a.checkpoint.Open.Parked = &do
	a.checkpoint.Open.ParkedOutput = &contract.RunTurnOutput{
		Usage: s.Usage, CostUSD: s.CostUSD, LastBlock: s.LastBlock, Progress: progressOf(s),
	}
	if err := a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint); err != nil {
		return err
	}
	return errParks
}

// atOnce stops an agent that waits for an answer without closing its stdin first: it would
// take that for an answer, and continue.
var atOnce = runner.Grace{Stdin: -1}

// park stops the agent and makes stream and transcripts agree, so that the turn can be
// resumed even if the stream is deleted. What the agent writes while it stops is not
// streamed: the transcripts have it. The workflow ends the sandbox.
func (a *attempt) park(ctx context.Context) (out contract.RunTurnOutput, err error) {
	saved := a.checkpoint.Open.Parked
	a.showPhase("parking")
	if err := a.find(ctx); err != nil {
		return out, err
	}
	if err := a.host.StopAgent(ctx, a.agent, atOnce); err != nil {
		return out, err
	}
	parked := saved.Parked
	h, err := a.read(ctx, nil)
	if err != nil {
		return out, err
	}
	if asked, ok := h.Asked(); ok {
		parked.PromptID = asked.ID
	} else if lost := a.in.Resumes; lost != nil && lost.Parked != nil {
		parked.PromptID = lost.Parked.PromptID
	}
	if !slices.ContainsFunc(parked.Requests, effects.IsQuestion) { // else they agree since the loss
		if err := a.emitLostOfEnded(ctx); err != nil {
			return out, err
		}
	}
	if err := a.emitParked(ctx, *saved); err != nil {
		return out, err
	}
	if err := a.collectServer(ctx); err != nil {
		return out, err
	}
	if used := a.checkpoint.Open.ParkedOutput; used != nil {
		out = *used
	}
	out.Parked, out.LastSeq, out.LastBlockID = &parked, a.writer.Tail().LastSeq, a.machine.Summary.Last()
	return out, a.host.Checkpoints.Save(a.in.Sandbox.ID, a.checkpoint)
}

// emitParked appends to the conversation that the turn is parked, once.
func (a *attempt) emitParked(ctx context.Context, p turn.Park) error {
	parks := parksOf(a.in) + 1
	notice := fromServer(event.SystemBlock(parkedID(a.in.ExecutionID, parks), "parked", p.Parked.Notice()))
	if err := a.appendAt(ctx, turn.Place{Offset: p.Read}, notice); err != nil {
		return err
	}
	return a.out.Flush(ctx)
}
