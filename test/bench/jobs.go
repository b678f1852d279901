package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/batch"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
)

const (
	batchItems = 1000
	// places are a worker's sandboxes; a batch has some more items at work, so that one that
	// ends is followed at once.
	places      = 32
	batchWindow = places + 8
	jobSeconds  = 5
	// bareRounds is how often the bare loop fills all places.
	bareRounds = 3
	// historyOfABatch bounds a run of a batch's workflow.
	historyOfABatch = 10_000

	fewItems, manyItems = 100, 10_000
	batchPatience       = 15 * time.Minute
)

// batch measures jobs of five seconds through the places of one worker, beside a loop that runs
// the same agent bare.
func (b *bench) batch(ctx context.Context) (_ []Figure, err error) {
	h, program, err := b.pacedWorker(ctx, fmt.Sprintf("--capacity=%d", places))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	bare, err := bareRate(ctx, program)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, batchPatience)
	defer cancel()
	began := time.Now()
	started, err := b.startBatch(ctx, fmt.Sprintf("PACE 1 %ds", jobSeconds), batchWindow, batchItems)
	if err != nil {
		return nil, err
	}
	report, err := started.Wait(ctx)
	if err != nil {
		return nil, err
	}
	rate := batchItems / time.Since(began).Seconds()
	if report.Completed != batchItems {
		return nil, fmt.Errorf("%d of %d jobs are completed: %v", report.Completed, batchItems, report.ByType)
	}
	longest, err := b.longestRun(ctx, started.ID())
	if err != nil {
		return nil, err
	}
	return []Figure{
		Figure{Name: "1 000 jobs of 5 s through 32 places", Value: rate, Unit: "jobs/s"}.
			over(bare, "a loop that starts the agent bare, 32 at a time").wants("≥ 90 % of the floor", rate >= 0.9*bare),
		eventFigure("the longest run of the batch's workflow", longest).wants("≤ 10 000", longest <= historyOfABatch),
	}, nil
}

func (b *bench) startBatch(ctx context.Context, prompt string, window, items int) (*batch.Batch, error) {
	in := batch.Input{Window: window, Job: jobs.Input{Prompt: prompt, Options: session.Options{Agent: "claude"}}}
	return batch.Start(ctx, b.stack.Temporal, b.stack.Archive, "", in, strings.NewReader(strings.Repeat("{}\n", items)))
}

// bareRate runs the agent without Sojourn, a process for each job, and returns the jobs per second.
func bareRate(ctx context.Context, program string) (float64, error) {
	g, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for range places {
		g.Go(func() error {
			for range bareRounds {
				cmd := exec.CommandContext(ctx, program)
				cmd.Stdin = strings.NewReader(pacedPrompt(fmt.Sprintf("PACE 1 %ds", jobSeconds)))
				if err := cmd.Run(); err != nil {
					return fmt.Errorf("floor: %w", err)
				}
			}
			return nil
		})
	}
	err := g.Wait()
	return places * bareRounds / time.Since(began).Seconds(), err
}

// longestRun returns the number of events of the longest run of a workflow.
func (b *bench) longestRun(ctx context.Context, id string) (longest float64, err error) {
	err = until(ctx, rest, func() (bool, error) {
		found, err := b.stack.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = %q", id)})
		if err != nil {
			return false, err
		}
		for _, run := range found.Executions {
			longest = max(longest, float64(run.HistoryLength))
		}
		return longest > 0, nil
	})
	return longest, err
}

// queue measures what the items of a batch cost a worker that wait for a place.
func (b *bench) queue(ctx context.Context) ([]Figure, error) {
	few, err := b.waiting(ctx, fewItems)
	if err != nil {
		return nil, err
	}
	many, err := b.waiting(ctx, manyItems)
	if err != nil {
		return nil, err
	}
	return []Figure{
		memoryFigure("worker with 10 000 items that wait", many).over(few, "a worker with 100 of them").wants("≤ 1.1", many <= 1.1*few),
	}, nil
}

// waiting returns the memory of a fresh worker that has two items of a batch at work, all others
// waiting for them.
func (b *bench) waiting(ctx context.Context, items int) (bytes float64, err error) {
	const atWork = 2
	h, _, err := b.pacedWorker(ctx, fmt.Sprintf("--capacity=%d", atWork))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	started, err := b.startBatch(ctx, longWork, atWork, items)
	if err != nil {
		return 0, err
	}
	if err := until(ctx, rest, func() (bool, error) {
		alive, err := harness.Agents(h.dataDir)
		return len(alive) >= atWork, err
	}); err != nil {
		return 0, err
	}
	// A worker's garbage goes within seconds: the least of some readings is what it needs.
	bytes, err = rss(h.PID())
	for range 20 {
		if err != nil {
			return 0, err
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		var now float64
		now, err = rss(h.PID())
		bytes = min(bytes, now)
	}
	if err := started.Cancel(ctx); err != nil {
		return 0, err
	}
	if _, err = started.Wait(ctx); errors.Is(err, batch.ErrCancelled) {
		err = nil
	}
	return bytes, err
}
