package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

const (
	fewBlocks, manyBlocks = 10, 20_000
	// blockLength is the number of deltas after which a block is finished, as with
	// every agent: a text that grows without end would measure the machine's memory.
	blockLength = 4096
	// folds is the number of deltas of one repetition.
	folds = 400 * blockLength
	// repetitions: the best one counts, since noise only slows down.
	repetitions = 15
)

// reducer measures folds on one core, so the garbage collector gets no other one.
func (b *bench) reducer(ctx context.Context) ([]Figure, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	deltas, err := decodedDeltas(blockLength)
	if err != nil {
		return nil, err
	}
	few, many := conversationOf(fewBlocks), conversationOf(manyBlocks)
	var bare, quick, long, stepFew, stepMany float64
	for range repetitions {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		bare = max(bare, rate(folds, func() { appendAll(deltas) }))
		quick = max(quick, rate(folds, buildAll(few, deltas)))
		long = max(long, rate(folds, buildAll(many, deltas)))
		stepFew = max(stepFew, rate(20_000, func() { reduceAll(few, deltas, 20_000) }))
		stepMany = max(stepMany, rate(30, func() { reduceAll(many, deltas, 30) }))
	}
	const is = "the same deltas appended to a []byte"
	return []Figure{
		builderFigure(fewBlocks, quick).over(bare, is),
		builderFigure(manyBlocks, long).over(bare, is),
		Figure{Name: "Builder at 20 000 : at 10 blocks", Value: long / quick, Unit: "ratio"}.
			wants("within 20 %", math.Abs(long/quick-1) <= 0.2),
		Figure{Name: "Reduce, 10 blocks", Value: stepFew, Unit: "deltas/s"}.over(bare, is),
		Figure{Name: "Reduce, 20 000 blocks", Value: stepMany, Unit: "deltas/s"}.over(bare, is).
			noted("each step gives a state that stays, so it copies the conversation's spine; long folds use the Builder"),
	}, nil
}

func builderFigure(blocks int, perSecond float64) Figure {
	name := map[int]string{fewBlocks: "Builder, 10 blocks", manyBlocks: "Builder, 20 000 blocks"}[blocks]
	return Figure{Name: name, Value: perSecond, Unit: "deltas/s"}.wants("≥ 5 M/s", perSecond >= 5e6)
}

// rate returns n per second of this process's processor time. On one core that is a
// second of the core: it includes the garbage collector, and excludes the time in which
// the machine did something else.
func rate(n int, do func()) float64 {
	runtime.GC()
	began := processorTime()
	do()
	return float64(n) / (processorTime() - began).Seconds()
}

// decodedDeltas returns deltas decoded from JSON, as every reader gets them.
func decodedDeltas(n int) ([]event.Event, error) {
	all := make([]event.Event, n)
	for i := range all {
		line := fmt.Sprintf(`{"type":"block:delta","payload":{"blockId":%q,"delta":"word %d of it, "},`+
			`"context":{"sessionId":"s","conversationId":"main","source":"runner","timestamp":"2026-11-21T00:00:00Z","seq":%d}}`, lastBlock, i, i+1)
		if err := json.Unmarshal([]byte(line), &all[i]); err != nil {
			return nil, fmt.Errorf("decode delta: %w", err)
		}
	}
	return all, nil
}

// lastBlock is the id of the last block, whatever their number, so that all folds read
// the same deltas.
const lastBlock = "msg_last:0"

// blockName returns the id of the i-th of n blocks.
func blockName(i, n int) string {
	if i == n-1 {
		return lastBlock
	}
	return fmt.Sprintf("msg_%08d:0", i)
}

func ofMain(p event.Payload) event.Event {
	return event.Event{Payload: p, Context: event.Context{SessionID: "s", ConversationID: event.Main, Source: event.SourceRunner}}
}

func textBlock(id string, text string) event.Event {
	return ofMain(event.BlockUpsert{Block: event.Block{
		ID: id, Type: event.BlockAssistantText, Status: event.StatusPending, Content: new(text),
	}})
}

func conversationOf(n int) reducer.State {
	var b reducer.Builder
	for i := range n {
		b.Add(textBlock(blockName(i, n), "some text to begin with"))
	}
	return b.State()
}

func appendAll(deltas []event.Event) {
	var text []byte
	for i := range folds {
		at := i % len(deltas)
		if at == 0 {
			text = nil
		}
		text = append(text, deltas[at].Payload.(event.BlockDelta).Delta...)
	}
	runtime.KeepAlive(text)
}

// buildAll creates the builder outside of the timed function: its cost depends on the
// state, not on the deltas.
func buildAll(s reducer.State, deltas []event.Event) func() {
	builder := reducer.NewBuilder(s)
	done := textBlock(lastBlock, "whole")
	builder.Add(deltas[0])
	return func() {
		for i := range folds {
			at := i % len(deltas)
			if at == 0 {
				builder.Add(done)
			}
			builder.Add(deltas[at])
		}
	}
}

func reduceAll(s reducer.State, deltas []event.Event, n int) {
	for i := range n {
		reducer.Reduce(s, deltas[i%len(deltas)])
	}
}
