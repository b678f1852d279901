package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
)

// EndSandbox stops the agent, archives the rest and ends the sandbox. It fails, and is
// retried, for as long as the archive can't be reached. A missing sandbox has ended.
func (h *Host) EndSandbox(ctx context.Context, in contract.EndSandboxInput) (contract.EndSandboxOutput, error) {
	defer heartbeat(ctx, "ending sandbox: archiving").stop()
	out, err := h.endSandbox(ctx, in)
	return out, toApplicationError(err)
}

func (h *Host) endSandbox(ctx context.Context, in contract.EndSandboxInput) (contract.EndSandboxOutput, error) {
	var end host.EndReport
	if in.UnlessBusy {
		commands, err := h.commandsIn(ctx, in.Sandbox.ID)
		if len(commands) == 0 && in.Shared {
			commands = []string{"a child session that has no place in it yet"}
		}
		if err != nil || len(commands) > 0 {
			return contract.EndSandboxOutput{LastSeq: in.LastSeq, Background: commands}, err
		}
	}
	if err := h.endThoseIn(ctx, in.Sandbox.ID); err != nil {
		return contract.EndSandboxOutput{}, err
	}
	sb, err := h.o.Provider.Open(ctx, in.Sandbox.ID)
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		// An earlier attempt may have died before it reported the end.
		h.Slots.Free(in.Sandbox.ID)
		h.forget(in.Sandbox.ID)
		end, err = h.endReport(in.Sandbox.ID)
	case err == nil:
		end, err = h.archiveAndTerminate(ctx, in, sb)
	}
	if err != nil {
		return contract.EndSandboxOutput{}, err
	}
	env := in.Sandbox.Environment("terminated")
	env.Reason, env.Message = in.Reason, strings.Join(end.Left, "; ")
	last, err := h.emit(ctx, streamEnd{in.Agent.SessionID, in.Sandbox.Epoch, in.LastSeq}, event.EETerminated{Environment: env}, env, end.Kept...)
	if err != nil {
		return contract.EndSandboxOutput{}, err
	}
	return contract.EndSandboxOutput{LastSeq: last}, h.Checkpoints.Remove(in.Sandbox.ID)
}

// endThoseIn has none made in a sandbox from now on, and asks the sessions that work in it to
// give theirs up. Each does after its turn; until then the error names it.
func (h *Host) endThoseIn(ctx context.Context, sandboxID string) error {
	h.markEnding(sandboxID)
	sharing, err := h.Sharing(ctx, sandboxID)
	for _, info := range sharing {
		err = errors.Join(err, fmt.Errorf("session %s works in it", info.SessionID),
			h.o.Evict(ctx, info.SessionID, session.EvictRequest{SandboxID: info.SandboxID, Reason: session.EvictForParent}))
	}
	return err
}

// endReport returns what an earlier attempt has saved of a sandbox that it ended.
func (h *Host) endReport(sandboxID string) (host.EndReport, error) {
	saved, err := h.Checkpoints.Load(sandboxID)
	if err != nil && !errors.Is(err, host.ErrDamaged) {
		return host.EndReport{}, err
	}
	if saved.EndReport == nil {
		return host.EndReport{}, nil
	}
	return *saved.EndReport, nil
}

// saveEndReport saves what is known of a sandbox only until it ends.
func (h *Host) saveEndReport(sandboxID string, p host.EndReport) error {
	saved, err := h.Checkpoints.Load(sandboxID)
	if err != nil && !errors.Is(err, host.ErrDamaged) {
		return err
	}
	saved.EndReport = &p
	return h.Checkpoints.Save(sandboxID, saved)
}

// commandsIn returns the running background commands of a sandbox; none if it does not
// exist.
func (h *Host) commandsIn(ctx context.Context, sandboxID string) ([]string, error) {
	sb, err := h.o.Provider.Open(ctx, sandboxID)
	if errors.Is(err, sandbox.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	return h.Background(ctx, info), nil
}

// archiveAndTerminate archives what is in a sandbox and ends it, whatever state an agent
// left it in. It returns what is to be reported, with what can't be archived or removed.
func (h *Host) archiveAndTerminate(ctx context.Context, in contract.EndSandboxInput, sb sandbox.Sandbox) (end host.EndReport, err error) {
	if end.Kept, end.Left, err = h.drain(ctx, in); err != nil {
		return end, err
	}
	unkept, err := h.syncLast(ctx, in, sb)
	if err != nil {
		return end, err
	}
	end.Left = appendWords(end.Left, unkept)
	if err := h.saveEndReport(sb.ID(), end); err != nil {
		return end, err
	}
	unremoved, err := h.terminateNaming(ctx, sb)
	end.Left = appendWords(end.Left, unremoved)
	return end, err
}

func appendWords(all []string, words string) []string {
	if words == "" {
		return all
	}
	return append(all, words)
}

// stopPatienceAtEnd bounds the stop of an agent whose sandbox ends; then its processes are
// killed with the sandbox.
const stopPatienceAtEnd = time.Minute

// drain stops the agent, so that it writes its last lines, and archives. It returns events
// of what the archive has in the end: subscribers of the transcripts have not seen what was
// archived after the last turn. What can't be read is in left.
func (h *Host) drain(ctx context.Context, in contract.EndSandboxInput) (kept []event.Event, left []string, err error) {
	a, err := h.Find(ctx, in.Agent, in.Sandbox.ID, in.Sandbox.Epoch)
	if err != nil {
		return nil, nil, err
	}
	if err := h.stopAtEnd(ctx, a); err != nil {
		return nil, nil, err
	}
	checkpoint, err := h.Checkpoints.Load(in.Sandbox.ID)
	if errors.Is(err, host.ErrDamaged) {
		// What was still to be archived from it is lost; the rest is not.
		h.o.Log.Error("a sandbox is ended without its checkpoint", "sandbox", in.Sandbox.ID, "error", err)
		err = nil
	}
	if err != nil {
		return nil, nil, err
	}
	store := h.o.Archive
	if err := store.AppendServerEntries(ctx, in.Agent.SessionID, in.Sandbox.Epoch, checkpoint.Server...); err != nil {
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

// stopAtEnd stops an agent whose sandbox ends. One that does not stop ends with the
// sandbox.
func (h *Host) stopAtEnd(ctx context.Context, a *host.Agent) error {
	short, cancel := context.WithTimeout(ctx, stopPatienceAtEnd)
	defer cancel()
	err := h.StopAgent(short, a, runner.Grace{})
	if err == nil || errors.Is(err, runner.ErrEpoch) || ctx.Err() != nil {
		return err
	}
	h.o.Log.Warn("an agent does not stop and is ended with its sandbox", "sandbox", a.Sandbox.ID(), "error", err)
	return nil
}
