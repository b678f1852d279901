package host

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
)

// Temporal is what a host needs of Temporal besides its tasks;
// [go.temporal.io/sdk/client.Client] implements it.
type Temporal interface {
	// RecordActivityHeartbeat returns when Temporal has acknowledged the heartbeat.
	RecordActivityHeartbeat(ctx context.Context, taskToken []byte, details ...any) error
	CompleteActivity(ctx context.Context, taskToken []byte, result any, err error) error
	// SignalWorkflow returns when Temporal has accepted the signal.
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// Options are a host's dependencies. All fields are required unless they say otherwise.
type Options struct {
	// ID is the host's id; its task queues have it in their names.
	ID string
	// DataDir is the host's own folder, for checkpoints and attempts.
	DataDir string
	// Secret makes the tokens of the host's runners.
	Secret   []byte
	Temporal Temporal
	// Lease is how long an agent in the middle of a turn lives without an acknowledged
	// heartbeat. Default: DefaultLease.
	Lease time.Duration
	// IdleLease is how long an agent lives without a worker while no turn runs.
	// Default: runner.DefaultIdleLease.
	IdleLease time.Duration
	// HealthEvery is the interval of health checks between turns. Default:
	// DefaultHealthEvery.
	HealthEvery time.Duration
	// MaxAge is the greatest age of a sandbox: its session ends an older one before the
	// next turn. Default: no bound.
	MaxAge   time.Duration
	Provider sandbox.Provider
	// Slots counts Provider's sandboxes. Default: none is allowed.
	Slots  *Slots
	Agents adapters.Registry
	// Evict asks a session to give up an idle sandbox. Default: none is evicted.
	Evict func(ctx context.Context, sessionID string, req session.EvictRequest) error
	// Profile loads a profile by id. Default: there are no profiles.
	Profile func(ctx context.Context, id string) (adapters.Profile, error)
	// Tools answers the calls of Sojourn's tools, and of programs', by the agents of sessions that
	// have any.
	// Default: no agent has tools.
	Tools func(ctx context.Context, sessionID string, call runner.ToolCall) runner.ToolResult
	// Getenv is used to find agents' programs.
	Getenv func(string) string
	Log    *slog.Logger
}

// DefaultHealthEvery is how often a host checks whether its idle agents live.
const DefaultHealthEvery = 30 * time.Second

// Host is this machine's side of the sandboxes on it: their slots and checkpoints, the
// agents in them, and the leases that end orphaned agents. Safe for concurrent use.
type Host struct {
	o Options
	// Checkpoints are the checkpoints of the host's sandboxes.
	Checkpoints *Checkpoints
	// Slots counts the host's sandboxes.
	Slots *Slots

	ctx        context.Context
	stop       context.CancelFunc
	background sync.WaitGroup

	mu sync.Mutex
	// agents are the connected ones, by sandbox id.
	agents map[string]*Agent
	// checks counts the running ones, by sandbox id.
	checks map[string]int
}

// New returns a host. Close ends its background work.
func New(o Options) *Host {
	ctx, stop := context.WithCancel(context.Background())
	o.Lease, o.IdleLease = cmp.Or(o.Lease, DefaultLease), cmp.Or(o.IdleLease, runner.DefaultIdleLease)
	o.HealthEvery = cmp.Or(o.HealthEvery, DefaultHealthEvery)
	if o.Evict == nil {
		o.Evict = func(context.Context, string, session.EvictRequest) error { return session.ErrBusy }
	}
	if o.Slots == nil {
		o.Slots = NewSlots(0)
	}
	o.Slots.setClosed(isDrained(o.DataDir))
	return &Host{
		o: o, Checkpoints: NewCheckpoints(o.DataDir), Slots: o.Slots,
		ctx: ctx, stop: stop, agents: map[string]*Agent{}, checks: map[string]int{},
	}
}

// Go runs a function in the background. Its context ends with Close, which waits for it.
func (h *Host) Go(f func(ctx context.Context)) {
	h.background.Go(func() { f(h.ctx) })
}

// Wait returns when nothing runs in the background.
func (h *Host) Wait() { h.background.Wait() }

// Close ends the background work and the connections to the runners. The agents
// continue.
func (h *Host) Close() error {
	h.stop()
	h.Wait()
	h.mu.Lock()
	agents := h.agents
	h.agents = map[string]*Agent{}
	h.mu.Unlock()
	for id, a := range agents {
		h.detach(id, a)
	}
	return nil
}

// Every calls do at once, then every period, until ctx ends.
func Every(ctx context.Context, period time.Duration, do func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		do()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
