package activities

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// CreateSandbox creates a sandbox on this host with everything that the session's agent
// needs: its transcripts from the archive, its profile, its workspace. It takes the
// session's next epoch, which fences whatever served the session before.
func (h *Host) CreateSandbox(ctx context.Context, in contract.CreateSandboxInput) (contract.CreateSandboxOutput, error) {
	p := heartbeat(ctx, "waiting for a free slot")
	defer p.stop()
	out, err := h.createSandbox(ctx, in, p)
	if errors.Is(err, archive.ErrCorrupt) {
		// A retry would not help, and would hide the error.
		err = temporal.NewNonRetryableApplicationError(err.Error(), session.TypeAgentFailed, nil)
	}
	return out, toApplicationError(err)
}

func (h *Host) createSandbox(ctx context.Context, in contract.CreateSandboxInput, p *phase) (contract.CreateSandboxOutput, error) {
	id := in.Agent.SessionID
	slot, err := h.slotFor(ctx, in)
	if err != nil {
		return contract.CreateSandboxOutput{}, err
	}
	defer slot.Close()
	p.set("creating sandbox")
	epoch, err := h.o.Archive.TakeEpoch(ctx, id)
	if err != nil {
		return contract.CreateSandboxOutput{}, err
	}
	at := streamEnd{id, epoch, in.LastSeq}
	if in.Lost != nil {
		if at.lastSeq, err = h.emitLost(ctx, at, *in.Lost); err != nil {
			return contract.CreateSandboxOutput{}, err
		}
	}
	made := session.Sandbox{Host: h.o.ID, ID: fmt.Sprintf("%s-e%d", id, epoch), Provider: h.o.Provider.Name(), Epoch: epoch, Status: "ready"}
	env := made.Environment("starting")
	env.RestartCount = in.Restarts
	if at.lastSeq, err = h.emit(ctx, at, event.EECreating{Environment: env}, env); err != nil {
		return contract.CreateSandboxOutput{}, err
	}
	parts, err := h.provision(ctx, in, env.SandboxID, at, slot)
	if err != nil {
		env.Status, env.Message = "terminated", err.Error()
		_, terr := h.emit(ctx, at, event.EEError{Environment: env}, env)
		return contract.CreateSandboxOutput{}, errors.Join(err, terr)
	}
	env.Status = made.Status
	last, err := h.emit(ctx, at, event.EEReady{Environment: env}, env)
	if err != nil {
		// The caller gets no id of it: it must not stay.
		return contract.CreateSandboxOutput{}, errors.Join(err, h.discard(context.WithoutCancel(ctx), env.SandboxID))
	}
	h.Slots.Spare(env.SandboxID)
	return contract.CreateSandboxOutput{Sandbox: made, Parts: parts, LastSeq: last}, nil
}

// slotFor takes the slot of a new sandbox; nil for one in another sandbox.
func (h *Host) slotFor(ctx context.Context, in contract.CreateSandboxInput) (*host.Slot, error) {
	if in.Shared != nil {
		return nil, h.checkShared(in.Shared)
	}
	return h.TakeSlot(ctx)
}

// checkShared returns an error if the sandbox in which another one is made is being ended: its
// session will have another.
func (h *Host) checkShared(shared *session.Sandbox) error {
	if shared == nil || !h.isEnding(shared.ID) {
		return nil
	}
	return errGone(shared.ID)
}

func errGone(sandboxID string) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf("sandbox %s, in which to make one, has ended", sandboxID), session.TypeHostLost, nil)
}

// provision creates the sandbox, puts everything into it and returns what its profile consists
// of; after an error nothing of it is left.
func (h *Host) provision(ctx context.Context, in contract.CreateSandboxInput, sandboxID string, at streamEnd, slot *host.Slot) (adapters.Parts, error) {
	of := in.Agent
	a, err := h.o.Agents.Get(of.Name)
	if err != nil {
		return adapters.Parts{}, err
	}
	if _, err := a.Locate(h.o.Getenv); err != nil {
		return adapters.Parts{}, fmt.Errorf("host %s: %w", h.o.ID, err)
	}
	profile, err := h.Profile(ctx, of.Profile)
	if err != nil {
		return adapters.Parts{}, err
	}
	if err := h.clearOlder(ctx, of.SessionID, at.epoch); err != nil {
		return adapters.Parts{}, err
	}
	h.mu.Lock()
	h.made[sandboxID] = true
	h.mu.Unlock()
	spec := sandbox.Spec{
		ID: sandboxID, SessionID: of.SessionID, Epoch: at.epoch, Workspace: of.Workspace,
		Labels: map[string]string{"agent": of.Name},
	}
	if in.Shared != nil {
		spec.Shares = in.Shared.ID
	}
	sb, err := h.o.Provider.Create(ctx, spec)
	if errors.Is(err, sandbox.ErrNotFound) {
		return adapters.Parts{}, errGone(spec.Shares)
	}
	if err != nil {
		return adapters.Parts{}, h.refusedWorkspace(err)
	}
	slot.Fill(sandboxID)
	// The other one may have been asked for those in it before this one was there.
	if err = h.checkShared(in.Shared); err == nil {
		err = h.populate(ctx, of, a, profile, sb, at)
	}
	if err != nil {
		return adapters.Parts{}, errors.Join(err, h.terminate(context.WithoutCancel(ctx), sb))
	}
	return profile.Parts(), nil
}

// refusedWorkspace returns the bad-input error for a workspace that this host refuses: a
// retry on it would not help.
func (h *Host) refusedWorkspace(err error) error {
	if refused, ok := errors.AsType[*sandbox.WorkspaceError](err); ok {
		return session.Invalid("workspace", fmt.Sprintf("%s %s, on host %s", refused.Dir, refused.Reason, h.o.ID), refused.Want)
	}
	return err
}

// clearOlder ends what an earlier attempt or epoch left of the session's sandboxes on this
// host.
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
			h.Disconnect(info.SandboxID)
			err = h.terminate(ctx, sb)
		}
		if err != nil {
			return fmt.Errorf("end sandbox %s of an earlier epoch: %w", info.SandboxID, err)
		}
	}
	return nil
}

// populate writes the transcripts, then the profile, then the workspace's files.
func (h *Host) populate(ctx context.Context, in contract.Agent, a adapters.Adapter, p adapters.Profile, sb sandbox.Sandbox, at streamEnd) error {
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	l, err := h.Launch(in, a, p, info.Paths, info.Env)
	if err != nil {
		return err
	}
	if err := h.restore(ctx, a, l, sb, at); err != nil {
		return err
	}
	files, err := a.ProfileFiles(p, l)
	if err != nil {
		return fmt.Errorf("%w %q: %w", host.ErrProfile, in.Profile, err)
	}
	if err := copyProfile(ctx, sb, filesOf(files, adapters.InHome), sandbox.AreaHome); err != nil {
		return err
	}
	if err := installBundled(ctx, p, sb, info); err != nil {
		return err
	}
	return h.provisionWorkspace(ctx, in, sb, at.epoch, files)
}

// restore writes the archive's transcripts back into the home, and appends events about it.
// Behind it, what writers that were killed have left in the archive is deleted.
func (h *Host) restore(ctx context.Context, a adapters.Adapter, l adapters.Launch, sb sandbox.Sandbox, at streamEnd) error {
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
	if err == nil {
		h.Go(func(ctx context.Context) { h.sweepArchive(ctx, l.SessionID, at.epoch) })
	}
	return err
}

func (h *Host) sweepArchive(ctx context.Context, sessionID string, epoch uint64) {
	_, err := h.o.Archive.Sweep(ctx, sessionID, epoch)
	if err != nil && ctx.Err() == nil && !errors.Is(err, archive.ErrFenced) { // who has the session now sweeps it
		h.o.Log.Warn("sweep the archive", "session", sessionID, "epoch", epoch, "error", err)
	}
}

func restored(f archive.RestoredFile) event.Event {
	return fromServer(event.TranscriptWritten{Transcript: event.Transcript{ID: f.ID, Offset: f.Size, SHA256: f.SHA256}})
}

// copyTranscripts writes the archived files where the adapter wants them.
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

// importTranscripts creates a database from its export.
func (h *Host) importTranscripts(ctx context.Context, e adapters.Exporter, l adapters.Launch, sb sandbox.Sandbox, epoch uint64) (written []event.Event, err error) {
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
	scratch, err := os.MkdirTemp("", "sojourn-import-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	files, err := e.Import(sources, l, scratch)
	if err != nil {
		return nil, err
	}
	return written, sb.CopyIn(ctx, sandbox.AreaHome, filesFrom(files))
}

// filesFrom returns files of a home, each with the file that has its content.
func filesFrom(files map[string]string) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		for _, path := range slices.Sorted(maps.Keys(files)) {
			if !yieldFile(path, files[path], yield) {
				return
			}
		}
	}
}

func yieldFile(path, file string, yield func(sandbox.File, error) bool) bool {
	f, err := os.Open(file)
	if err != nil {
		return yield(sandbox.File{}, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return yield(sandbox.File{}, err)
	}
	return yield(sandbox.File{Path: path, Mode: 0o600, Size: info.Size(), Body: f}, nil)
}
