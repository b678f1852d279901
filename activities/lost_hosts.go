package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/session"
)

const (
	// lookAgain is how long after a host was found without a worker it is looked at once
	// more: a Temporal server that was restarted knows no worker until it asks for work.
	lookAgain = 30 * time.Second
	// evictPatience bounds the eviction of one session, whose workflow may be stuck.
	evictPatience = 10 * time.Second
)

// EvictLost has sessions without a turn give up the sandboxes of lost hosts, as "unhealthy";
// a turn notices by itself. A host is lost if Temporal remembers no request of its worker for
// work, for which it has five minutes (matching.PollerHistoryTTL), also a moment later, and
// the host does not answer. The error names the sessions that could not be evicted; the next
// run of the schedule tries again.
func (r *Reconciler) EvictLost(ctx context.Context) error {
	held, err := r.sandboxes(ctx)
	if err != nil {
		return err
	}
	away, err := r.withoutWorker(ctx, slices.Sorted(maps.Keys(held)))
	if err != nil || len(away) == 0 {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lookAgain):
	}
	if away, err = r.withoutWorker(ctx, away); err != nil || len(away) == 0 {
		return err
	}
	reports, err := session.AskHosts(ctx, r.Temporal, away)
	if err != nil {
		return err
	}
	var failed error
	for _, report := range reports {
		if report.Error != session.NoWorker {
			continue
		}
		for _, id := range held[report.Host] {
			failed = errors.Join(failed, r.evictFrom(ctx, id, report.Host))
		}
	}
	if failed != nil {
		return temporal.NewNonRetryableApplicationError(failed.Error(), session.TypeHostLost, failed)
	}
	return nil
}

// sandboxes returns the sessions that have a sandbox and no turn, by its host.
func (r *Reconciler) sandboxes(ctx context.Context) (map[string][]string, error) {
	held := map[string][]string{}
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND %s IS NOT NULL AND %s != '%s'",
		session.WorkflowType, session.AttrHost.GetName(), session.AttrStatus.GetName(), session.StatusRunning)
	for info, err := range r.list(ctx, query) {
		if err != nil {
			return nil, fmt.Errorf("list sessions with a sandbox: %w", err)
		}
		var host string
		field := info.GetSearchAttributes().GetIndexedFields()[session.AttrHost.GetName()]
		if err := converter.GetDefaultDataConverter().FromPayload(field, &host); err != nil {
			return nil, fmt.Errorf("session %s: search attribute %s: %w", info.GetExecution().GetWorkflowId(), session.AttrHost.GetName(), err)
		}
		held[host] = append(held[host], info.GetExecution().GetWorkflowId())
	}
	return held, nil
}

// withoutWorker returns those of the hosts of which Temporal knows no worker.
func (r *Reconciler) withoutWorker(ctx context.Context, hosts []string) (away []string, err error) {
	for _, host := range hosts {
		queue, err := r.Temporal.DescribeTaskQueue(ctx, session.ControlQueue(host), enumspb.TASK_QUEUE_TYPE_ACTIVITY)
		if err != nil {
			return nil, fmt.Errorf("look for the worker of host %s: %w", host, err)
		}
		if len(queue.GetPollers()) == 0 {
			away = append(away, host)
		}
	}
	return away, nil
}

// evictFrom evicts a session's sandbox if it is on a host, unless the session is at work again.
func (r *Reconciler) evictFrom(ctx context.Context, id, host string) error {
	ctx, cancel := context.WithTimeout(ctx, evictPatience)
	defer cancel()
	var now session.Snapshot
	if err := session.Query(ctx, r.Temporal, id, session.QuerySnapshot, &now); err != nil {
		return fmt.Errorf("query session %s: %w", id, err)
	}
	if now.Sandbox == nil || now.Sandbox.Host != host {
		return nil
	}
	err := session.Evict(ctx, r.Temporal, id, session.EvictRequest{SandboxID: now.Sandbox.ID, Reason: session.EvictUnhealthy})
	if errors.Is(err, session.ErrBusy) {
		return nil
	}
	return err
}
