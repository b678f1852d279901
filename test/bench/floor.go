package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/stream"
)

// noopWorkflow is a plain workflow with two updates: bareUpdate does nothing, the least that
// a receipt can cost; noopUpdate runs one activity that does nothing, the least that a turn
// can.
type noopWorkflow struct {
	c      client.Client
	worker worker.Worker
	run    client.WorkflowRun
}

const noopQueue, bareUpdate, noopUpdate, noopActivity = "bench-noop", "bare", "noop", "noop"

func startNoop(ctx context.Context, c client.Client) (*noopWorkflow, error) {
	w := worker.New(c, noopQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(noop, workflow.RegisterOptions{Name: "Noop"})
	w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: noopActivity})
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "bench-noop-" + uuid.NewString(), TaskQueue: noopQueue}, "Noop")
	if err != nil {
		w.Stop()
		return nil, fmt.Errorf("floor: %w", err)
	}
	return &noopWorkflow{c, w, run}, nil
}

// noop is the workflow. It ends when the servers do.
func noop(ctx workflow.Context) error {
	err := workflow.SetUpdateHandler(ctx, noopUpdate, func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, noopActivity).Get(ctx, nil)
	})
	if err == nil {
		err = workflow.SetUpdateHandler(ctx, bareUpdate, func(workflow.Context) error { return nil })
	}
	if err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return false })
}

// update is one round of an update: accepted, completed.
func (n *noopWorkflow) update(ctx context.Context, name string) (time.Duration, error) {
	began := time.Now()
	u, err := n.c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: n.run.GetID(), UpdateName: name, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = u.Get(ctx, nil)
	}
	if err != nil {
		return 0, fmt.Errorf("floor: update: %w", err)
	}
	return time.Since(began), nil
}

func (n *noopWorkflow) stop() { n.worker.Stop() }

// pipeAndPublish is the floor of a line's path: an agent writes to a pipe, the reader
// publishes the line, and a subscriber receives it from the server.
func pipeAndPublish(ctx context.Context, program, url string, access stream.Access, n int, pause time.Duration) (took []time.Duration, err error) {
	publisher, err := stream.Connect(url, access)
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	defer publisher.Close()
	subscriber, err := stream.Connect(url, access)
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	defer subscriber.Close()
	came := make(chan time.Duration, n+1)
	const subject = "bench.floor"
	if _, err := subscriber.Subscribe(subject, func(m *nats.Msg) {
		now := monotonic()
		if at, err := readStamp(string(m.Data)); err == nil {
			came <- now - at
		}
	}); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	if err := subscriber.Flush(); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	err = eachLine(ctx, program, n, pause, func(line []byte) error {
		if err := publisher.Publish(subject, line); err != nil {
			return err
		}
		select {
		case d := <-came:
			took = append(took, d)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	return took, nil
}

// eachLine runs the floor's agent, which prints n stamps, and calls do for each line.
func eachLine(ctx context.Context, program string, n int, pause time.Duration, do func([]byte) error) error {
	cmd := exec.CommandContext(ctx, program, pipedArgument, fmt.Sprint(n), pause.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && err == nil {
		err = do(lines.Bytes())
	}
	return errors.Join(err, lines.Err(), cmd.Wait())
}

// pipedMain prints stamps; it is the floor's agent.
func pipedMain(args []string, say func(string) error) error {
	message := fmt.Sprintf(`{"content":[{"text":%q}]}`, "PACE "+strings.Join(args, " "))
	n, pause, err := parsePace([]byte(message))
	if err != nil {
		return err
	}
	tick := time.NewTicker(max(pause, time.Microsecond))
	defer tick.Stop()
	for range n {
		<-tick.C
		if err := say(stamp(monotonic())); err != nil {
			return err
		}
	}
	return nil
}
