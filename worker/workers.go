package worker

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/activities"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/batch"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/schedules"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/tools"
	"github.com/sojourn-run/sojourn/workflows"
	"github.com/sojourn-run/sojourn/workflows/hosts"
	"github.com/sojourn-run/sojourn/workflows/reconcile"
)

// workers are the pollers of this process, one per task queue.
type workers struct {
	all   []worker.Worker
	fatal chan error
}

// stop ends the polling; it may be called again.
func (w *workers) stop() {
	for _, one := range w.all {
		one.Stop()
	}
	w.all = nil
}

// maxWatched is how many child sessions a worker waits for at once; each is a
// goroutine. Only those of parents that continued as new are waited for.
const maxWatched = 10_000

// startWorkers polls the shared queues and this host's two. Turns get as many
// slots as the host may have sandboxes; control has separate slots, so an
// interrupt never waits behind a turn.
func startWorkers(c client.Client, hostID string, v versioning, light *activities.Session, h *activities.Host, j *jobs.Activities) (*workers, error) {
	set := &workers{fatal: make(chan error, 5)}
	base := worker.Options{
		// A turn is released at once when the worker stops: its agent continues, and
		// the next worker attaches to it.
		WorkerStopTimeout:                time.Second,
		MaxHeartbeatThrottleInterval:     time.Second,
		DefaultHeartbeatThrottleInterval: time.Second,
		// A killed worker can't report that its cache of workflows is gone: tasks wait
		// this long for it before another worker may take them.
		StickyScheduleToStartTimeout: time.Second,
		// A task may bring many large messages to a busy machine, and a query replays
		// them all; a task that takes too long is moved to another worker anyway.
		DeadlockDetectionTimeout: 30 * time.Second,
		// The next worker fails the activities that this one had in progress; writes of
		// a reset run against its stream are refused.
		Interceptors: []interceptor.WorkerInterceptor{h.Interceptor(), activities.ResetGuard(light.Stream)},
		OnFatalError: func(err error) { set.fatal <- err },
	}
	versioned := base
	versioned.DeploymentOptions = v.deployment()
	shared := worker.New(c, session.TaskQueue, versioned)
	shared.RegisterWorkflowWithOptions(workflows.Session, workflow.RegisterOptions{Name: session.WorkflowType, VersioningBehavior: v.sessions})
	shared.RegisterWorkflowWithOptions(reconcile.Session, workflow.RegisterOptions{Name: session.ReconcileType})
	shared.RegisterWorkflowWithOptions(reconcile.Scheduled, workflow.RegisterOptions{Name: session.ReconcilerType})
	shared.RegisterWorkflowWithOptions(hosts.Reports, workflow.RegisterOptions{Name: session.HostsType})
	shared.RegisterWorkflowWithOptions(hosts.Drain, workflow.RegisterOptions{Name: session.DrainType})
	reconciler := &activities.Reconciler{Temporal: c, Stream: light.Stream, Archive: light.Archive, Agents: builtin.Registry()}
	register(shared, map[string]any{
		contract.ActivityBegin: light.Begin, contract.ActivityEmit: light.Emit, contract.ActivityFinish: light.Finish, contract.ActivityCatchUp: light.CatchUp,
		contract.ActivityDescribeTerminated: reconciler.DescribeTerminated, contract.ActivityRecordTermination: reconciler.RecordTermination, contract.ActivityReconcileTerminated: reconciler.ReconcileTerminated,
		contract.ActivityEvictLost: reconciler.EvictLost,
	})

	children := &activities.Children{Temporal: c, Stream: light.Stream}
	register(shared, map[string]any{contract.ActivityCancelChildren: children.CancelChildren, contract.ActivityParentSandbox: children.ParentSandbox})

	watching := base
	watching.DisableWorkflowWorker, watching.MaxConcurrentActivityTaskPollers = true, 1
	watching.MaxConcurrentActivityExecutionSize = maxWatched
	watch := worker.New(c, session.WatchQueue, watching)
	register(watch, map[string]any{contract.ActivityAwaitChild: children.AwaitChild})
	if err := registerJobs(shared, watch, j, &batch.Activities{Temporal: c, Archive: light.Archive}); err != nil {
		return nil, err
	}

	creating := base
	tuner, err := slotTuner(h.Slots)
	if err != nil {
		return nil, err
	}
	creating.Tuner, creating.DisableWorkflowWorker, creating.MaxConcurrentActivityTaskPollers = tuner, true, 1
	create := worker.New(c, session.CreateQueue, creating)
	register(create, map[string]any{contract.ActivityCreateSandbox: h.CreateSandbox})

	turning := base
	turning.DisableWorkflowWorker, turning.MaxConcurrentActivityExecutionSize = true, h.Slots.Capacity()
	turns := worker.New(c, session.HostQueue(hostID), turning)
	register(turns, map[string]any{contract.ActivityRunTurn: h.RunTurn, contract.ActivityCheck: h.Check})

	controlling := base
	controlling.DisableWorkflowWorker, controlling.MaxConcurrentActivityExecutionSize = true, 64
	control := worker.New(c, session.ControlQueue(hostID), controlling)
	register(control, map[string]any{contract.ActivitySendControl: h.SendControl, contract.ActivityCreateSandbox: h.CreateSandbox, contract.ActivityEndSandbox: h.EndSandbox, contract.ActivityDescribeHost: h.DescribeHost, contract.ActivityDrainHost: h.DrainHost})

	for _, w := range []worker.Worker{turns, control, create, watch, shared} {
		if err := w.Start(); err != nil {
			set.stop()
			return nil, err
		}
		set.all = append(set.all, w)
	}
	return set, nil
}

// registerJobs registers what is built on sessions: jobs, batches of them, and schedules.
func registerJobs(shared, watch worker.Worker, j *jobs.Activities, b *batch.Activities) error {
	for name, f := range map[string]any{
		jobs.Type: jobs.Workflow, batch.Type: batch.Workflow, batch.ItemType: batch.ItemWorkflow, schedules.MessageType: schedules.MessageWorkflow,
		tools.Type: tools.Workflow,
	} {
		shared.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	service, err := jobs.Nexus()
	if err != nil {
		return fmt.Errorf("offer jobs by Nexus: %w", err)
	}
	shared.RegisterNexusService(service)
	forJobs, awaitingJobs := j.ByName()
	forBatches, awaitingItems := b.ByName()
	register(shared, forJobs)
	register(shared, forBatches)
	register(watch, awaitingJobs)
	register(watch, awaitingItems)
	register(watch, (&schedules.Activities{Sessions: j.Sessions}).ByName())
	return nil
}

func register(w worker.Worker, byName map[string]any) {
	for name, f := range byName {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

func slotTuner(slots *host.Slots) (worker.WorkerTuner, error) {
	few, err := worker.NewFixedSizeSlotSupplier(1)
	if err != nil {
		return nil, err
	}
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier: few, ActivitySlotSupplier: createSlots{slots}, LocalActivitySlotSupplier: few,
		NexusSlotSupplier: few, SessionActivitySlotSupplier: few,
	})
}

// createSlots lets the create queue be polled only while the host has a free slot, or
// an idle sandbox that can be evicted.
type createSlots struct{ slots *host.Slots }

func (s createSlots) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	if err := s.slots.Reserve(ctx); err != nil {
		return nil, err
	}
	return &worker.SlotPermit{}, nil
}

func (s createSlots) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit {
	if !s.slots.TryReserve() {
		return nil
	}
	return &worker.SlotPermit{}
}

func (s createSlots) MarkSlotUsed(worker.SlotMarkUsedInfo) {}
func (s createSlots) ReleaseSlot(worker.SlotReleaseInfo)   { s.slots.Release() }
func (s createSlots) MaxSlots() int                        { return s.slots.Capacity() }
