package activities

import (
	"context"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/limits/prices"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/workspace"
)

// HostOptions are the dependencies of a host's activities. All fields are required unless
// they say otherwise.
type HostOptions struct {
	host.Options
	// Memory bounds what a session may use of this process's memory. Default:
	// DefaultMemory.
	Memory Memory
	// Prices are of models whose agents report no cost. Default: such a cost is unknown.
	Prices  prices.Table
	Stream  *stream.Log
	Archive *archive.Archive
	// Reconcile starts the cleanup of a session whose workflow was ended from outside.
	// Default: no cleanup.
	Reconcile func(ctx context.Context, d session.TerminatedRun) error
	// Warnings are what operators must know about the isolation of agents on this host, a
	// sentence each. Default: none.
	Warnings []string
}

// Host has the activities of one host: its sandboxes, the turns in them, and control over
// those. Safe for concurrent use; Close waits for background work.
type Host struct {
	*host.Host
	o HostOptions

	mu sync.Mutex
	// turns are the running ones, by session.
	turns map[string]*attempt
	// arrived is closed and replaced when a turn starts.
	arrived chan struct{}
	// made are the sandboxes that this process made and that exist.
	made map[string]bool
	// ending are the sandboxes that are being ended: none is made in them, and a check that fails
	// in one has no verdict.
	ending map[string]bool
	// left is what the last sweep could not remove; nil for nothing.
	left error
	// archivers archive transcripts, and syncers workspaces, by sandbox id.
	archivers map[string]*archiver
	syncers   map[string]*workspace.Syncer
	// versions are those of the agents' programs, by programFile.
	versions sync.Map
}

// NewHost returns a host's activities.
func NewHost(o HostOptions) *Host {
	return &Host{
		Host: host.New(o.Options), o: o,
		turns: map[string]*attempt{}, arrived: make(chan struct{}), made: map[string]bool{}, ending: map[string]bool{},
		archivers: map[string]*archiver{}, syncers: map[string]*workspace.Syncer{},
	}
}

// awaitPredecessor waits until the attempt of a replaced workflow run has left, if it is
// still here: it learns that from its next heartbeat, and may save until then that the turn
// has ended. The wait is shorter than a heartbeat may take; after it, only the stream's
// fence keeps the two apart.
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

// enter makes a turn the session's live one. A turn of an earlier attempt that is still
// here is fenced by the stream, and leaves by itself.
func (h *Host) enter(t *attempt) (leave func()) {
	id := t.in.Agent.SessionID
	h.Slots.Busy(t.in.Sandbox.ID)
	h.mu.Lock()
	h.turns[id] = t
	close(h.arrived)
	h.arrived = make(chan struct{})
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		if h.turns[id] == t {
			delete(h.turns, id)
			h.rest(t)
		}
		h.mu.Unlock()
		close(t.left)
	}
}

// rest allows the sandbox of a turn that has left to be evicted: behind one of a job, only
// when its check could have begun.
func (h *Host) rest(t *attempt) {
	if contract.OfJob(t.in.Message.ID) {
		h.Slots.Spare(t.in.Sandbox.ID)
		return
	}
	h.Slots.Idle(t.in.Sandbox.ID)
}

// live returns the running turn of an execution, and a channel that is closed when another
// turn starts.
func (h *Host) live(sessionID, executionID string) (*attempt, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.turns[sessionID]; t != nil && t.in.ExecutionID == executionID {
		return t, h.arrived
	}
	return nil, h.arrived
}

// A turn of the previous run whose end is in the stream saves it within this time.
const (
	savePatience = 2 * time.Second
	saveEvery    = 20 * time.Millisecond
)

// settledCheckpoint returns the checkpoint for a turn. The attempt of a run that was reset
// may be about to save the end that the next run has read in the stream already: this waits
// for that.
func (h *Host) settledCheckpoint(ctx context.Context, in contract.RunTurnInput) (host.Checkpoint, error) {
	for until := time.Now().Add(savePatience); ; {
		c, err := h.Checkpoints.Load(in.Sandbox.ID)
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
