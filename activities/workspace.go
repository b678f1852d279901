package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/workspace"
)

// workspacePatience is how long a turn's end waits until the workspace is archived. What
// was uploaded by then is not uploaded again.
const workspacePatience = 30 * time.Second

// syncEvery is how often a running turn's workspace is archived, in case its host is lost.
const syncEvery = time.Minute

// syncer returns the syncer of a sandbox's workspace; nil if the workspace is a folder of
// the user's, which is neither archived nor reported, or the parent's, which its own sandbox
// archives and reports.
func (h *Host) syncer(in contract.Agent, sb sandbox.Sandbox, epoch uint64) *workspace.Syncer {
	if in.Workspace != "" || in.Shares != "" {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.syncers[sb.ID()]
	if s == nil {
		s = workspace.NewSyncer(h.o.Archive, sb, in.SessionID, epoch)
		h.syncers[sb.ID()] = s
	}
	return s
}

// forget drops the state of a sandbox that has ended.
func (h *Host) forget(sandboxID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.made, sandboxID)
	delete(h.ending, sandboxID)
	delete(h.syncers, sandboxID)
	delete(h.archivers, sandboxID)
}

// provisionWorkspace writes the files into a workspace of the sandbox's own.
func (h *Host) provisionWorkspace(ctx context.Context, in contract.Agent, sb sandbox.Sandbox, epoch uint64, profile []adapters.File) error {
	s := h.syncer(in, sb, epoch)
	if s == nil {
		return nil
	}
	left, err := s.Provision(ctx, filesOf(profile, adapters.InWorkspace))
	h.warnLeft(in, left)
	return err
}

// warnLeft logs which files of a session are not kept.
func (h *Host) warnLeft(in contract.Agent, left string) {
	if left != "" {
		h.o.Log.Warn(left, "session", in.SessionID)
	}
}

// syncWorkspace archives the workspace at the turn's end and reports the changes that were
// not reported yet. It returns what is not archived, as text; "" for nothing.
func (a *attempt) syncWorkspace(ctx context.Context) (behind string) {
	s := a.host.syncer(a.in.Agent, a.agent.Sandbox, a.in.Sandbox.Epoch)
	if s == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspacePatience)
	defer cancel()
	seen, left, err := s.Sync(ctx)
	if err := a.emitFileEvents(context.WithoutCancel(ctx), s, seen); err != nil {
		a.host.o.Log.Debug("changes of the workspace were not said", "session", a.in.Agent.SessionID, "error", err)
	}
	if err != nil {
		return err.Error()
	}
	a.host.warnLeft(a.in.Agent, left)
	return left
}

// emitFileEvents streams new changes of files.
func (a *attempt) emitFileEvents(ctx context.Context, s *workspace.Syncer, seen []workspace.Observation) error {
	return s.Notifier.Publish(seen, func(events []event.Event) error { return a.out.Add(ctx, events, stream.Position{}) })
}

// syncLast archives the workspace before its sandbox ends, and reports what changed since
// the last turn. It returns what can't be read of it as text; "" for nothing.
func (h *Host) syncLast(ctx context.Context, in contract.EndSandboxInput, sb sandbox.Sandbox) (left string, err error) {
	s := h.syncer(in.Agent, sb, in.Sandbox.Epoch)
	if s == nil {
		return "", nil
	}
	seen, left, err := s.SyncLast(ctx)
	unread, err := unreadableOf(err)
	left = strings.TrimPrefix(strings.Join(append([]string{left}, unread...), "; "), "; ")
	h.warnLeft(in.Agent, left)
	err = errors.Join(err, s.Notifier.Publish(seen, func(events []event.Event) error {
		_, err := h.o.Stream.Emit(ctx, in.Agent.SessionID, stream.Emission{
			Fence: stream.Fence{Epoch: in.Sandbox.Epoch}, LastSeq: in.LastSeq,
			Key: fmt.Sprintf("files-%d-%d", in.Sandbox.Epoch, time.Now().UnixNano()), Events: events,
		})
		return err
	}))
	return brief.Truncate(left, leftShown), err
}

// watching follows a workspace during a turn: changes are reported at once, and archived
// periodically.
type watching struct {
	syncer *workspace.Syncer
	seen   chan []workspace.Observation
	ends   sync.WaitGroup
}

// watchWorkspace starts to follow the workspace, until ctx ends; stop waits for that. A
// folder of the user's is not followed.
func (a *attempt) watchWorkspace(ctx context.Context) *watching {
	w := &watching{syncer: a.host.syncer(a.in.Agent, a.agent.Sandbox, a.in.Sandbox.Epoch), seen: make(chan []workspace.Observation)}
	if w.syncer == nil {
		return w
	}
	log := a.host.o.Log.With("session", a.in.Agent.SessionID)
	w.ends.Go(func() {
		if err := w.follow(ctx, a); err != nil && ctx.Err() == nil {
			// The syncs find the same changes, later.
			log.Warn("the workspace is not watched", "error", err)
		}
	})
	w.ends.Go(func() {
		for range ticks(ctx, syncEvery) {
			seen, _, err := w.syncer.Sync(ctx)
			w.pass(ctx, seen)
			if err != nil && ctx.Err() == nil {
				log.Warn("the workspace is archived later", "error", err)
			}
		}
	})
	return w
}

func (w *watching) stop() { w.ends.Wait() }

// pass hands over what was seen. At the turn's end that is left to the last sync, which does
// not read a file again that was read before.
func (w *watching) pass(ctx context.Context, seen []workspace.Observation) {
	if len(seen) == 0 {
		return
	}
	select {
	case w.seen <- seen:
	case <-ctx.Done():
		w.syncer.Notifier.Keep(seen)
	}
}

// follow reports what the runner's watch sees.
func (w *watching) follow(ctx context.Context, t *attempt) error {
	if err := w.catchUp(ctx, t); err != nil {
		return err
	}
	info, err := t.agent.Sandbox.Info(ctx)
	if err != nil {
		return err
	}
	spec := runner.WatchSpec{Dir: info.Paths.Workspace, Ignore: workspace.QuietFolders(), Since: t.began}
	for c, err := range runner.Watch(ctx, t.agent.Sandbox, info.Paths.Runner, spec) {
		if err != nil {
			return err
		}
		w.pass(ctx, []workspace.Observation{{
			Path: c.Path, Gone: c.Gone, SHA256: c.SHA256, Mode: c.Mode, Size: c.Size, Content: c.Content, At: time.Now(),
		}})
	}
	return nil
}

// catchUp reads what earlier attempts have reported.
func (w *watching) catchUp(ctx context.Context, t *attempt) error {
	if err := w.syncer.Load(ctx); err != nil {
		return err
	}
	if !t.again && t.in.Resumes == nil {
		return nil
	}
	for ev, err := range t.host.o.Stream.Read(ctx, t.in.Agent.SessionID, t.since(), stream.ReadOptions{}) {
		if errors.Is(err, stream.ErrPurged) {
			return nil
		}
		if err != nil {
			return err
		}
		w.syncer.Notifier.Replay(ev)
	}
	return nil
}

// ticks yields the time every d until ctx ends.
func ticks(ctx context.Context, d time.Duration) func(func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		clock := time.NewTicker(d)
		defer clock.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-clock.C:
				if !yield(now) {
					return
				}
			}
		}
	}
}
