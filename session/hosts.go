package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// HostsType is the workflow that queries hosts for their agents.
const HostsType = "SojournHosts"

// DrainType is the workflow that begins or ends the draining of a host.
const DrainType = "SojournDrain"

// HostReport is what a host's worker reports about the host.
type HostReport struct {
	Host   string       `json:"host"`
	Agents []HostsAgent `json:"agents,omitempty"`
	// Warnings are what operators must know about the isolation of agents there, a sentence
	// each.
	Warnings []string `json:"warnings,omitempty"`
	// Leftovers are what its last sweep could not remove of ended sandboxes, a sentence
	// each.
	Leftovers []string `json:"leftovers,omitempty"`
	// Sandboxes are how many the host holds.
	Sandboxes int `json:"sandboxes"`
	// Draining reports whether it takes no new sandboxes and gives up those that it has.
	Draining bool `json:"draining,omitempty"`
	// Error is why the host did not answer; empty if it did.
	Error string `json:"error,omitempty"`
}

// NoWorker is the Error of a host whose worker took no work.
const NoWorker = "its worker does not answer"

// HostsAgent is an agent's program on a host.
type HostsAgent struct {
	// Agent is the adapter's name.
	Agent string `json:"agent"`
	// Program is the path, and Version what the program reports.
	Program string `json:"program,omitempty"`
	Version string `json:"version,omitempty"`
	// Missing is why the agent can't run there; empty if it can.
	Missing string `json:"missing,omitempty"`
}

// pollAge is how long after its last request a worker is considered alive: a
// request for work stays open for a minute.
const pollAge = 75 * time.Second

// Workers are those that recently polled a task queue.
type Workers struct {
	// Identities are in order.
	Identities []string
	// Ago is how long ago the last one polled.
	Ago time.Duration
	// Versions are the builds that they are, in order: the zero value for those that take no
	// part in Worker Versioning.
	Versions []WorkerVersion
	// Current is the build that new sessions get, and those that may change their build.
	Current WorkerVersion
}

// Err returns nil if there are workers that new sessions get, or none at all.
func (w Workers) Err() error {
	if len(w.Versions) == 0 || slices.Contains(w.Versions, w.Current) {
		return nil
	}
	var have []string
	for _, v := range w.Versions {
		have = append(have, v.String())
	}
	return fmt.Errorf("new sessions are for %s, and there are workers of %s only", w.Current, strings.Join(have, ", "))
}

// WorkerVersion is a build in one of Temporal's worker deployments; the zero value is no
// versioning.
type WorkerVersion struct{ Deployment, Build string }

func (v WorkerVersion) String() string {
	if v == (WorkerVersion{}) {
		return "unversioned workers"
	}
	return fmt.Sprintf("build %s of deployment %s", v.Build, v.Deployment)
}

// WorkersOf returns the workers of a task queue.
func WorkersOf(ctx context.Context, t client.Client, queue string) (Workers, error) {
	reply, err := t.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return Workers{}, fmt.Errorf("describe task queue %s: %w", queue, err)
	}
	current := reply.GetVersioningInfo().GetCurrentDeploymentVersion()
	w := Workers{Ago: pollAge, Current: WorkerVersion{Deployment: current.GetDeploymentName(), Build: current.GetBuildId()}}
	for _, p := range reply.GetPollers() {
		since := time.Since(p.GetLastAccessTime().AsTime())
		if since >= pollAge {
			continue
		}
		w.Identities, w.Ago = append(w.Identities, p.GetIdentity()), min(w.Ago, since)
		var v WorkerVersion
		if o := p.GetDeploymentOptions(); o.GetWorkerVersioningMode() == enumspb.WORKER_VERSIONING_MODE_VERSIONED {
			v = WorkerVersion{Deployment: o.GetDeploymentName(), Build: o.GetBuildId()}
		}
		w.Versions = append(w.Versions, v)
	}
	slices.Sort(w.Identities)
	slices.SortFunc(w.Versions, func(a, b WorkerVersion) int {
		return cmp.Or(cmp.Compare(a.Deployment, b.Deployment), cmp.Compare(a.Build, b.Build))
	})
	w.Identities, w.Versions = slices.Compact(w.Identities), slices.Compact(w.Versions)
	return w, nil
}

// Hosts queries every host that has a worker for its agents. It returns when the
// slowest one has answered or timed out: the report of a host that does not
// answer has an Error. Without any worker the list is empty. A worker that has
// just ended may still be queried, so bound ctx. No host can be queried while there is no
// worker of the current version, see Workers.
func Hosts(ctx context.Context, t client.Client) ([]HostReport, error) {
	workers, err := WorkersOf(ctx, t, TaskQueue)
	if err == nil {
		err = workers.Err()
	}
	if err != nil {
		return nil, err
	}
	var hosts []string
	for _, identity := range workers.Identities {
		// A worker's identity is HOST@PID; a host has one worker at a time.
		if at := strings.LastIndex(identity, "@"); at > 0 {
			hosts = append(hosts, identity[:at])
		}
	}
	if hosts = slices.Compact(hosts); len(hosts) == 0 {
		return nil, nil
	}
	return AskHosts(ctx, t, hosts)
}

// AskHosts queries the named hosts for their agents and returns their reports, in order. It
// returns like [Hosts].
func AskHosts(ctx context.Context, t client.Client, hosts []string) ([]HostReport, error) {
	run, err := t.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "sojourn-hosts-" + uuid.NewString(), TaskQueue: TaskQueue, WorkflowRunTimeout: 2 * time.Minute,
		StaticSummary: "asks the hosts which agents they have",
	}, HostsType, hosts)
	if err != nil {
		return nil, fmt.Errorf("ask the hosts: %w", err)
	}
	var reports []HostReport
	if err := run.Get(ctx, &reports); err != nil {
		return nil, fmt.Errorf("ask the hosts: %w", err)
	}
	return reports, nil
}

// Drain begins to drain a host, or with on false ends that, and returns its report. A host
// that is drained makes no new sandboxes; each session that has one there gives it up, at
// once if it is idle, else before its next turn, and continues on another host. Commands in
// the background keep theirs until they end. It lasts until it is ended, also when the
// worker is restarted. It returns before the sandboxes have ended.
func Drain(ctx context.Context, t client.Client, host string, on bool) (HostReport, error) {
	if host == "" {
		return HostReport{}, Invalid("host", "is empty", "the name of a host, as SojournHost has it")
	}
	var report HostReport
	run, err := t.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "sojourn-drain-" + uuid.NewString(), TaskQueue: TaskQueue, WorkflowRunTimeout: 2 * time.Minute,
		StaticSummary: "drains host " + host,
	}, DrainType, DrainRequest{Host: host, On: on})
	if err == nil {
		err = run.Get(ctx, &report)
	}
	if err == nil && report.Error != "" {
		err = errors.New(report.Error)
	}
	if err != nil {
		return report, fmt.Errorf("drain host %s: %w", host, err)
	}
	return report, nil
}

// DrainRequest is the input of the workflow DrainType.
type DrainRequest struct {
	Host string `json:"host"`
	// On is false to end it.
	On bool `json:"on"`
}
