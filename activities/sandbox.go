package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// CreateSandbox makes a sandbox on this host with everything that the
// session's agent needs: its transcripts from the archive, its profile, its
// workspace. It takes the session's next epoch, so whatever served the session
// before is fenced from then on.
func (h *Host) CreateSandbox(ctx context.Context, in contract.CreateSandboxInput) (contract.CreateSandboxOutput, error) {
	var show atomic.Pointer[contract.HeartbeatDetails]
	show.Store(&contract.HeartbeatDetails{Phase: "waiting for a free place"})
	defer beat(ctx, &show)()
	out, err := h.createSandbox(ctx, in, &show)
	if errors.Is(err, archive.ErrCorrupt) {
		// No other try mends it, and nobody would see what is waited for.
		err = temporal.NewNonRetryableApplicationError(err.Error(), session.TypeAgentFailed, nil)
	}
	return out, toApplicationError(err)
}

func (h *Host) createSandbox(ctx context.Context, in contract.CreateSandboxInput, show *atomic.Pointer[contract.HeartbeatDetails]) (contract.CreateSandboxOutput, error) {
	id := in.Agent.SessionID
	claimed, err := h.takePlace(ctx)
	if err != nil {
		return contract.CreateSandboxOutput{}, err
	}
	defer claimed.drop()
	show.Store(&contract.HeartbeatDetails{Phase: "creating sandbox"})
	epoch, err := h.o.Archive.TakeEpoch(ctx, id)
	if err != nil {
		return contract.CreateSandboxOutput{}, err
	}
	at := place{id, epoch, in.LastSeq}
	if in.Lost != nil {
		if at.lastSeq, err = h.tellLost(ctx, at, *in.Lost); err != nil {
			return contract.CreateSandboxOutput{}, err
		}
	}
	made := session.Sandbox{Host: h.o.ID, ID: fmt.Sprintf("%s-e%d", id, epoch), Provider: h.o.Provider.Name(), Epoch: epoch, Status: "ready"}
	env := made.Environment("starting")
	env.RestartCount = in.Restarts
	if at.lastSeq, err = h.tell(ctx, at, event.EECreating{Environment: env}, env); err != nil {
		return contract.CreateSandboxOutput{}, err
	}
	if err := h.furnish(ctx, in.Agent, env.SandboxID, at, claimed); err != nil {
		env.Status, env.Message = "terminated", err.Error()
		_, terr := h.tell(ctx, at, event.EEError{Environment: env}, env)
		return contract.CreateSandboxOutput{}, errors.Join(err, terr)
	}
	env.Status = made.Status
	last, err := h.tell(ctx, at, event.EEReady{Environment: env}, env)
	if err != nil {
		// Nobody will hear of it: it must not stay.
		return contract.CreateSandboxOutput{}, errors.Join(err, h.discard(context.WithoutCancel(ctx), env.SandboxID))
	}
	h.o.Places.rest(env.SandboxID)
	return contract.CreateSandboxOutput{Sandbox: made, LastSeq: last}, nil
}

// tellLost ends, for subscribers, a sandbox that went with its host: nobody else
// can say it.
func (h *Host) tellLost(ctx context.Context, at place, lost session.Sandbox) (uint64, error) {
	return h.o.Stream.Emit(ctx, at.session, stream.Emission{
		Fence: stream.Fence{Epoch: at.epoch}, LastSeq: at.lastSeq, Key: "lost-" + lost.ID,
		Events: []event.Event{own(event.EETerminated{Environment: lostEnvironment(lost)}), own(runtime(true))},
	})
}

func lostEnvironment(sb session.Sandbox) event.Environment {
	env := sb.Environment("terminated")
	env.Reason, env.Message = "unhealthy", "its host is lost"
	return env
}

func (h *Host) discard(ctx context.Context, sandboxID string) error {
	sb, err := h.o.Provider.Open(ctx, sandboxID)
	if err != nil {
		return err
	}
	return h.terminate(ctx, sb)
}

// tell appends an event about the sandbox, what comes before it, and behind it
// the unified status: what runs for the session from then on.
func (h *Host) tell(ctx context.Context, in place, p event.Payload, env event.Environment, before ...event.Event) (uint64, error) {
	ev := own(p)
	now := unified(env)
	if env.Status == "terminated" {
		now.Runtime.Sandbox = nil
	}
	return h.o.Stream.Emit(ctx, in.session, stream.Emission{
		Fence: stream.Fence{Epoch: in.epoch}, LastSeq: in.lastSeq, Key: fmt.Sprintf("%s-%d", ev.Type(), in.epoch),
		Events: append(before, ev, own(now)),
	})
}

// place is where in a session's stream the sandbox is spoken of.
type place struct {
	session string
	epoch   uint64
	lastSeq uint64
}

// furnish makes the sandbox and puts everything into it; after an error
// nothing of it is left.
func (h *Host) furnish(ctx context.Context, in contract.Agent, sandboxID string, at place, claimed *claim) error {
	a, err := h.o.Agents.Get(in.Name)
	if err != nil {
		return err
	}
	if _, err := a.Locate(h.o.Getenv); err != nil {
		return fmt.Errorf("host %s: %w", h.o.ID, err)
	}
	profile, err := h.profile(ctx, in.Profile)
	if err != nil {
		return err
	}
	if err := h.clearOlder(ctx, in.SessionID, at.epoch); err != nil {
		return err
	}
	h.mu.Lock()
	h.made[sandboxID] = true
	h.mu.Unlock()
	sb, err := h.o.Provider.Create(ctx, sandbox.Spec{
		ID: sandboxID, SessionID: in.SessionID, Epoch: at.epoch, Workspace: in.Workspace,
		Labels: map[string]string{"agent": in.Name},
	})
	if err != nil {
		return h.refusedWorkspace(err)
	}
	claimed.hold(sandboxID)
	if err := h.fill(ctx, in, a, profile, sb, at); err != nil {
		return errors.Join(err, h.terminate(context.WithoutCancel(ctx), sb))
	}
	return nil
}

// refusedWorkspace makes bad input of a workspace that this host refuses: no
// retry on it would help.
func (h *Host) refusedWorkspace(err error) error {
	if refused, ok := errors.AsType[*sandbox.WorkspaceError](err); ok {
		return session.Invalid("workspace", fmt.Sprintf("%s %s, on host %s", refused.Dir, refused.Reason, h.o.ID), refused.Want)
	}
	return err
}

// clearOlder ends what an attempt before, or an earlier epoch, left of the
// session's sandboxes on this host.
func (h *Host) clearOlder(ctx context.Context, sessionID string, epoch uint64) error {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		return err
	}
	for _, info := range infos {
		if info.SessionID != sessionID || info.Epoch >= epoch {
			continue
		}
		sb, err := h.o.Provider.Open(ctx, info.SandboxID)
		if errors.Is(err, sandbox.ErrNotFound) {
			continue
		}
		if err == nil {
			h.forget(info.SandboxID)
			err = h.terminate(ctx, sb)
		}
		if err != nil {
			return fmt.Errorf("end sandbox %s of an earlier epoch: %w", info.SandboxID, err)
		}
	}
	return nil
}

// terminate ends a sandbox and everything that the host knows of it.
func (h *Host) terminate(ctx context.Context, sb sandbox.Sandbox) error {
	_, err := h.terminateNaming(ctx, sb)
	return err
}

// terminateNaming is terminate, and names the files that could not be removed
// yet; empty for none. The sandbox has ended all the same.
func (h *Host) terminateNaming(ctx context.Context, sb sandbox.Sandbox) (left string, err error) {
	err = sb.Terminate(ctx)
	if le, ok := errors.AsType[*sandbox.LeftError](err); ok {
		h.o.Log.Warn("files of an ended sandbox remain", "sandbox", sb.ID(), "path", le.Path, "error", err)
		left, err = turn.Truncate(err.Error(), leftShown), nil
	}
	if err != nil {
		return "", err
	}
	h.o.Places.free(sb.ID())
	h.mu.Lock()
	delete(h.made, sb.ID())
	h.mu.Unlock()
	h.dropSyncer(sb.ID())
	return left, h.checkpoints.Remove(sb.ID())
}

// fill puts transcripts first, then the profile, then the workspace's files.
func (h *Host) fill(ctx context.Context, in contract.Agent, a adapters.Adapter, p adapters.Profile, sb sandbox.Sandbox, at place) error {
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	l, err := h.launch(in, a, p, info.Paths, info.Env)
	if err != nil {
		return err
	}
	if err := h.restore(ctx, a, l, sb, at); err != nil {
		return err
	}
	files, err := a.ProfileFiles(p, l)
	if err != nil {
		return fmt.Errorf("%w %q: %w", errProfile, in.Profile, err)
	}
	if err := copyProfile(ctx, sb, filesOf(files, adapters.InHome), sandbox.AreaHome); err != nil {
		return err
	}
	if err := installBundled(ctx, p, sb, info); err != nil {
		return err
	}
	return h.provisionWorkspace(ctx, in, sb, at.epoch, files)
}

// restore writes the archive's transcripts back into the home and says so.
func (h *Host) restore(ctx context.Context, a adapters.Adapter, l adapters.Launch, sb sandbox.Sandbox, at place) error {
	var err error
	var written []event.Event
	if e, ok := a.(adapters.Exporter); ok {
		written, err = h.importTranscripts(ctx, e, l, sb, at.epoch)
	} else {
		written, err = h.copyTranscripts(ctx, a, l, sb, at.epoch)
	}
	if err != nil {
		return fmt.Errorf("restore transcripts: %w", err)
	}
	if len(written) == 0 {
		return nil
	}
	_, err = h.o.Stream.Emit(ctx, l.SessionID, stream.Emission{
		Fence: stream.Fence{Epoch: at.epoch}, LastSeq: at.lastSeq, Key: fmt.Sprintf("restored-%d", at.epoch), Events: written,
	})
	return err
}

func restored(f archive.RestoredFile) event.Event {
	return own(event.TranscriptWritten{Transcript: event.Transcript{ID: f.ID, Offset: f.Size, SHA256: f.SHA256}})
}

// copyTranscripts puts the archived files where the adapter wants them.
func (h *Host) copyTranscripts(ctx context.Context, a adapters.Adapter, l adapters.Launch, sb sandbox.Sandbox, epoch uint64) ([]event.Event, error) {
	var written []event.Event
	files := func(yield func(sandbox.File, error) bool) {
		for f, err := range h.o.Archive.RestoreFiles(ctx, l.SessionID, epoch) {
			if err != nil {
				yield(sandbox.File{}, err)
				return
			}
			body, err := f.Open()
			ok := yield(sandbox.File{Path: a.Place(f.Transcript, l), Mode: f.Mode, Size: f.Size, Body: body}, err)
			if body != nil {
				err = errors.Join(err, body.Close())
			}
			if !ok || err != nil {
				return
			}
			written = append(written, restored(f))
		}
	}
	err := sb.CopyIn(ctx, sandbox.AreaHome, files)
	return written, err
}

// importTranscripts makes a database of what was exported from one.
func (h *Host) importTranscripts(ctx context.Context, e adapters.Exporter, l adapters.Launch, sb sandbox.Sandbox, epoch uint64) ([]event.Event, error) {
	var written []event.Event
	var sources []adapters.Source
	for f, err := range h.o.Archive.RestoreFiles(ctx, l.SessionID, epoch) {
		if err != nil {
			return nil, err
		}
		sources = append(sources, adapters.Source{Transcript: f.Transcript, Open: f.Open})
		written = append(written, restored(f))
	}
	if len(sources) == 0 {
		return nil, nil
	}
	files, err := e.Import(sources, l)
	if err != nil {
		return nil, err
	}
	return written, sb.CopyIn(ctx, sandbox.AreaHome, filesOf(files, adapters.InHome))
}

func copyProfile(ctx context.Context, sb sandbox.Sandbox, files iter.Seq2[sandbox.File, error], area sandbox.Area) error {
	if err := sb.CopyIn(ctx, area, files); err != nil {
		return fmt.Errorf("copy profile into %s: %w", area, err)
	}
	return nil
}

func filesOf(files []adapters.File, base adapters.Base) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		for _, f := range files {
			if f.Base != base {
				continue
			}
			mode := fs.FileMode(f.Mode)
			if mode == 0 {
				mode = 0o644
			}
			if !yield(sandbox.File{Path: f.Path, Mode: mode, Size: int64(len(f.Data)), Body: bytes.NewReader(f.Data)}, nil) {
				return
			}
		}
	}
}

// installBundled runs the install commands of the profile's own MCP servers,
// shut in as the agent will be.
func installBundled(ctx context.Context, p adapters.Profile, sb sandbox.Sandbox, info sandbox.Info) error {
	for _, name := range slices.Sorted(maps.Keys(p.BundledMCP)) {
		argv := p.BundledMCP[name].Install
		if len(argv) == 0 {
			continue
		}
		spec := runner.RunSpec{
			Argv: argv, Env: info.Env, Dir: filepath.Join(info.Paths.Home, adapters.BundledDir(name)), Isolation: isolation(info.Paths),
		}
		if err := runner.Run(ctx, sb, info.Paths.Runner, spec); err != nil {
			return fmt.Errorf("%w: install MCP server %s: %w", errProfile, name, err)
		}
	}
	return nil
}

// isolation is how everything that runs for the agent is shut in.
func isolation(paths sandbox.Paths) runner.IsolationSpec {
	mode := runner.IsolationAuto
	if paths.Confine {
		mode = runner.IsolationRequire
	}
	return runner.IsolationSpec{Mode: mode, Hide: paths.Hide, Keep: paths.Keep, KeepReadOnly: paths.KeepReadOnly, Network: paths.Network}
}

// EndSandbox stops the agent, archives what is left and ends the sandbox. It
// fails, and is tried again, for as long as the archive can't be reached. A
// sandbox that is gone already is ended.
func (h *Host) EndSandbox(ctx context.Context, in contract.EndSandboxInput) (contract.EndSandboxOutput, error) {
	var show atomic.Pointer[contract.HeartbeatDetails]
	show.Store(&contract.HeartbeatDetails{Phase: "ending sandbox: archiving"})
	defer beat(ctx, &show)()
	out, err := h.endSandbox(ctx, in)
	return out, toApplicationError(err)
}

func (h *Host) endSandbox(ctx context.Context, in contract.EndSandboxInput) (contract.EndSandboxOutput, error) {
	var kept []event.Event
	var left []string
	sb, err := h.o.Provider.Open(ctx, in.Sandbox.ID)
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		// An attempt before may have died before it forgot the rest.
		h.o.Places.free(in.Sandbox.ID)
		h.dropSyncer(in.Sandbox.ID)
		if err := h.checkpoints.Remove(in.Sandbox.ID); err != nil {
			return contract.EndSandboxOutput{}, err
		}
	case err != nil:
		return contract.EndSandboxOutput{}, err
	default:
		if kept, left, err = h.drain(ctx, in, sb); err != nil {
			return contract.EndSandboxOutput{}, err
		}
	}
	env := in.Sandbox.Environment("terminated")
	env.Reason, env.Message = in.Reason, strings.Join(left, "; ")
	last, err := h.tell(ctx, place{in.Agent.SessionID, in.Sandbox.Epoch, in.LastSeq}, event.EETerminated{Environment: env}, env, kept...)
	return contract.EndSandboxOutput{LastSeq: last}, err
}

// drain archives what is in a sandbox and ends it. Whatever an agent made of
// it, that ends: what can't be archived or removed is named in left.
func (h *Host) drain(ctx context.Context, in contract.EndSandboxInput, sb sandbox.Sandbox) (kept []event.Event, left []string, err error) {
	if kept, left, err = h.emptyOut(ctx, in); err != nil {
		return nil, nil, err
	}
	unkept, err := h.syncLast(ctx, in, sb)
	if err != nil {
		return nil, nil, err
	}
	unremoved, err := h.terminateNaming(ctx, sb)
	if err != nil {
		return nil, nil, err
	}
	for _, words := range []string{unkept, unremoved} {
		if words != "" {
			left = append(left, words)
		}
	}
	return kept, left, nil
}

// leftShown bounds what is told of what an ended sandbox left, in bytes.
const leftShown = 1000

// stopPatienceAtEnd bounds the stop of an agent whose sandbox ends; then its
// processes are killed with the sandbox.
const stopPatienceAtEnd = time.Minute

// emptyOut stops the agent, so that it writes its last lines, and archives. It
// gives what the archive has in the end: whoever follows the transcripts has
// not heard of what came behind the last turn. What can't be read is in left.
func (h *Host) emptyOut(ctx context.Context, in contract.EndSandboxInput) (kept []event.Event, left []string, err error) {
	a, err := h.find(ctx, in.Agent, in.Sandbox.ID, in.Sandbox.Epoch)
	if err != nil {
		return nil, nil, err
	}
	if err := h.stopAtEnd(ctx, a); err != nil {
		return nil, nil, err
	}
	checkpoint, err := h.checkpoints.Load(in.Sandbox.ID)
	if errors.Is(err, host.ErrDamaged) {
		// What it held back for the archive is lost; the rest is not.
		h.o.Log.Error("a sandbox is ended without its checkpoint", "sandbox", in.Sandbox.ID, "error", err)
		err = nil
	}
	if err != nil {
		return nil, nil, err
	}
	store := h.o.Archive
	if err := store.AppendOwn(ctx, in.Agent.SessionID, in.Sandbox.Epoch, checkpoint.Own...); err != nil {
		return nil, nil, err
	}
	all := h.archiverOf(a)
	_, err = all.sync(ctx)
	if left, err = unreadableOf(err); err != nil {
		return nil, nil, err
	}
	if len(left) > 0 {
		h.o.Log.Warn("a sandbox is ended with transcripts that can't be archived", "sandbox", in.Sandbox.ID, "left", left)
	}
	if err := all.ready(ctx); err != nil {
		return nil, nil, err
	}
	return changed(slices.SortedFunc(maps.Values(all.known), byID)), left, nil
}

// stopAtEnd stops an agent whose sandbox ends. One that does not stop ends with
// the sandbox.
func (h *Host) stopAtEnd(ctx context.Context, a *agent) error {
	short, cancel := context.WithTimeout(ctx, stopPatienceAtEnd)
	defer cancel()
	err := h.stopAgent(short, a)
	if err == nil || errors.Is(err, runner.ErrEpoch) || ctx.Err() != nil {
		return err
	}
	h.o.Log.Warn("an agent does not stop and is ended with its sandbox", "sandbox", a.sb.ID(), "error", err)
	return nil
}

// stopAgent ends the agent's process, if there is one.
func (h *Host) stopAgent(ctx context.Context, a *agent) error {
	h.forget(a.sb.ID())
	if err := h.attach(ctx, a); err != nil {
		if errors.Is(err, runner.ErrEpoch) {
			return err
		}
		// No supervisor answers: no agent was started, or it ended long ago.
		h.o.Log.Debug("no runner to stop", "sandbox", a.sb.ID(), "error", err)
		return nil
	}
	_, err := a.conn.Stop(ctx, runner.Grace{})
	return errors.Join(err, a.detach())
}
