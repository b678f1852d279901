package starter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// A fair server takes the tasks of keys in turns, and any other in their order. No request
// asks a server which it is, so the doctor tries: a crowd of tasks with one key, and a few
// behind it with another.
const (
	crowdKey, lateKey   = "crowd", "late"
	crowdTasks          = 24
	lateTasks           = 6
	fairnessProbe       = "SojournFairnessProbe"
	fairnessTask        = "SojournFairnessTask"
	fairnessTimeout     = time.Minute
	fairnessLook        = 50 * time.Millisecond
	fairnessTaskTimeout = 10 * time.Second
)

// checkFairness tries the server with a workflow of its own, on task queues of its own, and
// deletes it.
func (c *cli) checkFairness(ctx context.Context, t client.Client) (detail string, err error) {
	defer c.patience("trying whether the server is fair: its count of tasks is some seconds old")()
	id := "sojourn-doctor-" + uuid.NewString()
	queue := worker.New(t, id, worker.Options{})
	queue.RegisterWorkflowWithOptions(crowdedQueue, workflow.RegisterOptions{Name: fairnessProbe})
	if err := queue.Start(); err != nil {
		return "", err
	}
	defer queue.Stop()
	run, err := t.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: id, WorkflowExecutionTimeout: fairnessTimeout}, fairnessProbe)
	if err != nil {
		return "", err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		_, gone := t.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: c.conns.options.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: run.GetRunID()},
		})
		err = errors.Join(err, gone)
	}()
	// History hands tasks on in any order, so the late ones are made when the crowd waits.
	if err := c.awaitTasks(ctx, t, run, crowdTasks); err != nil {
		return "", err
	}
	if err := t.SignalWorkflow(ctx, run.GetID(), run.GetRunID(), lateKey, nil); err != nil {
		return "", err
	}
	if err := c.awaitTasks(ctx, t, run, crowdTasks+lateTasks); err != nil {
		return "", err
	}
	order, err := takeTasks(ctx, t, run)
	if err != nil {
		return "", err
	}
	if !fair(order) {
		return "", failed("set matching.enableFairness in its dynamic configuration, or have Temporal Cloud turn fairness on for the namespace",
			"the server takes tasks in their order, whatever their fairness key: a batch that is started behind another one waits for its places")
	}
	return "the server takes tasks by their fairness keys, so batches share places", nil
}

// fairnessTasks is the queue of the tasks, which is served when all are in it.
func fairnessTasks(workflowID string) string { return workflowID + "-tasks" }

// crowdedQueue is the workflow that the doctor tries a server with.
func crowdedQueue(ctx workflow.Context) error {
	var all []workflow.Future
	schedule := func(key string, n int) {
		ctx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:           fairnessTasks(workflow.GetInfo(ctx).WorkflowExecution.ID),
			StartToCloseTimeout: fairnessTaskTimeout, Priority: temporal.Priority{FairnessKey: key},
		})
		for range n {
			all = append(all, workflow.ExecuteActivity(ctx, fairnessTask, key))
		}
	}
	schedule(crowdKey, crowdTasks)
	workflow.GetSignalChannel(ctx, lateKey).Receive(ctx, nil)
	schedule(lateKey, lateTasks)
	for _, f := range all {
		if err := f.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// awaitTasks waits until so many tasks are in their queue.
func (c *cli) awaitTasks(ctx context.Context, t client.Client, run client.WorkflowRun, n int64) error {
	for {
		d, err := t.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: c.conns.options.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: fairnessTasks(run.GetID())},
			TaskQueueType: enumspb.TASK_QUEUE_TYPE_ACTIVITY, ReportStats: true,
		})
		if err != nil || d.GetStats().GetApproximateBacklogCount() >= n {
			return err
		}
		select {
		case <-time.After(fairnessLook):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// takeTasks takes the tasks one by one, and returns their keys in that order.
func takeTasks(ctx context.Context, t client.Client, run client.WorkflowRun) (keys []string, err error) {
	var mu sync.Mutex
	w := worker.New(t, fairnessTasks(run.GetID()), worker.Options{
		DisableWorkflowWorker: true, MaxConcurrentActivityExecutionSize: 1, MaxConcurrentActivityTaskPollers: 1,
	})
	w.RegisterActivityWithOptions(func(_ context.Context, key string) error {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, key)
		return nil
	}, activity.RegisterOptions{Name: fairnessTask})
	if err := w.Start(); err != nil {
		return nil, err
	}
	defer w.Stop()
	err = run.Get(ctx, nil)
	mu.Lock()
	defer mu.Unlock()
	return keys, err
}

// fair reports whether the late tasks were, in the mean, in the first half. They are the last
// of each partition of the queue, or at its beginning.
func fair(order []string) bool {
	sum, n := 0, 0
	for i, key := range order {
		if key == lateKey {
			sum, n = sum+i, n+1
		}
	}
	return n > 0 && 2*sum < n*len(order)
}
