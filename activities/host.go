package activities

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/workspace"
)

// HostOptions is what a host's activities depend on. All fields are required
// unless they say otherwise.
type HostOptions struct {
	// ID names the host; its task queues have it in their names.
	ID string
	// DataDir is the host's own folder; checkpoints are stored in it.
	DataDir string
	// Secret makes the tokens of the host's runners.
	Secret   []byte
	Temporal Temporal
	// Lease is how long an agent in the middle of a turn lives without word
	// from Temporal. Default: DefaultLease.
	Lease time.Duration
	// IdleLease is how long an agent lives without a worker while no turn runs.
	// Default: runner.DefaultIdleLease.
	IdleLease time.Duration
	// Memory is about what a session may cost this process. Default:
	// DefaultMemory.
	Memory   Memory
	Stream   *stream.Log
	Archive  *archive.Archive
	Provider sandbox.Provider
	// Places counts Provider's sandboxes.
	Places *Places
	Agents adapters.Registry
	// Reconcile has a session cleaned up whose workflow was ended from outside.
	// Default: nothing does.
	Reconcile func(ctx context.Context, d session.TerminatedRun) error
	// Evict asks a session to give up an idle sandbox. Default: none gives way.
	Evict func(ctx context.Context, sessionID string, req session.EvictRequest) error
	// Profile loads a profile by id. Default: no profile is known.
	Profile func(ctx context.Context, id string) (adapters.Profile, error)
	// Getenv is how agents' programs are found.
	Getenv func(string) string
	Log    *slog.Logger
	// Warnings are what operators must know of how agents are shut in on this
	// host, a sentence each. Default: nothing.
	Warnings []string
}

// Host has the activities that belong to one host: its sandboxes, the turns in
// them, and control over those. Safe for concurrent use; Close waits for what
// goes on behind the activities.
type Host struct {
	o HostOptions
	// after are the tail syncs that outlive their turns.
	after sync.WaitGroup
	stop  context.CancelFunc
	ctx   context.Context
	// checkpoints are those of the host's sandboxes.
	checkpoints *host.Checkpoints

	mu sync.Mutex
	// turns are the running ones, by session.
	turns map[string]*attempt
	// arrived is closed and replaced when a turn enters.
	arrived chan struct{}
	// agents are the warm connections, by sandbox id.
	agents map[string]*agent
	// made are the sandboxes that this process made and that stand.
	made map[string]bool
	// left is what the last sweep could not remove; nil for nothing.
	left error
	// syncers archive the workspaces, by sandbox id.
	syncers map[string]*workspace.Syncer
}

// NewHost makes a host's activities.
func NewHost(o HostOptions) *Host {
	ctx, stop := context.WithCancel(context.Background())
	o.Lease, o.IdleLease = cmp.Or(o.Lease, DefaultLease), cmp.Or(o.IdleLease, runner.DefaultIdleLease)
	if o.Evict == nil {
		o.Evict = func(context.Context, string, session.EvictRequest) error { return session.ErrBusy }
	}
	if o.Places == nil {
		o.Places = NewPlaces(0)
	}
	return &Host{
		o: o, ctx: ctx, stop: stop, checkpoints: host.NewCheckpoints(o.DataDir),
		turns: map[string]*attempt{}, arrived: make(chan struct{}), agents: map[string]*agent{},
		made: map[string]bool{}, syncers: map[string]*workspace.Syncer{},
	}
}

// Close ends the background work and the connections to the runners. The
// agents go on.
func (h *Host) Close() error {
	h.stop()
	h.after.Wait()
	h.mu.Lock()
	agents := h.agents
	h.agents = map[string]*agent{}
	h.mu.Unlock()
	for id, a := range agents {
		if err := a.detach(); err != nil {
			h.o.Log.Debug("close connection to runner", "sandbox", id, "error", err)
		}
	}
	return nil
}

// awaitPredecessor waits until the attempt of a workflow run that has made way
// has left, if it is still here: it learns that from its next heartbeat, and may
// note until then that the turn has ended. It waits for less than a heartbeat may
// take; then the stream's fence is what keeps them apart.
func (h *Host) awaitPredecessor(ctx context.Context, sessionID string) error {
	h.mu.Lock()
	before := h.turns[sessionID]
	h.mu.Unlock()
	if before == nil {
		return nil
	}
	patience := time.NewTimer(savePatience)
	defer patience.Stop()
	select {
	case <-before.left:
		return nil
	case <-patience.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter makes a turn the session's live one. A turn of an earlier attempt that
// is still there is fenced by the stream; it leaves by itself.
func (h *Host) enter(t *attempt) (leave func()) {
	id := t.in.Agent.SessionID
	h.o.Places.use(t.in.Sandbox.ID)
	h.mu.Lock()
	h.turns[id] = t
	close(h.arrived)
	h.arrived = make(chan struct{})
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		if h.turns[id] == t {
			delete(h.turns, id)
			h.o.Places.rest(t.in.Sandbox.ID)
		}
		h.mu.Unlock()
		close(t.left)
	}
}

// live gives the running turn of an execution, and what closes when another
// turn enters.
func (h *Host) live(sessionID, executionID string) (*attempt, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.turns[sessionID]; t != nil && t.in.ExecutionID == executionID {
		return t, h.arrived
	}
	return nil, h.arrived
}

// A turn of the run before that has told its end saves it within this time.
const (
	savePatience = 2 * time.Second
	saveEvery    = 20 * time.Millisecond
)

// settledCheckpoint returns the checkpoint for a turn. The attempt of a run that was
// reset may be about to save the end that the run after it has read in the stream
// already: that is waited for.
func (h *Host) settledCheckpoint(ctx context.Context, in contract.RunTurnInput) (host.Checkpoint, error) {
	for until := time.Now().Add(savePatience); ; {
		c, err := h.checkpoints.Load(in.Sandbox.ID)
		if err != nil || !in.Reset || c.Open == nil || c.Began(in) || time.Now().After(until) {
			return c, err
		}
		select {
		case <-time.After(saveEvery):
		case <-ctx.Done():
			return c, ctx.Err()
		}
	}
}
