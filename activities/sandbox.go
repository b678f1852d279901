package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// emitLost terminates, for subscribers, a sandbox that was lost with its host, which can't
// report it.
func (h *Host) emitLost(ctx context.Context, at streamEnd, lost session.Sandbox) (uint64, error) {
	return h.o.Stream.Emit(ctx, at.session, stream.Emission{
		Fence: stream.Fence{Epoch: at.epoch}, LastSeq: at.lastSeq, Key: "lost-" + lost.ID,
		Events: []event.Event{fromServer(event.EETerminated{Environment: lostEnvironment(lost)}), fromServer(runtime(true))},
	})
}

func (h *Host) discard(ctx context.Context, sandboxID string) error {
	sb, err := h.o.Provider.Open(ctx, sandboxID)
	if err != nil {
		return err
	}
	return h.terminate(ctx, sb)
}

// emit appends the events before, an event about the sandbox, and the unified status from
// then on.
func (h *Host) emit(ctx context.Context, in streamEnd, p event.Payload, env event.Environment, before ...event.Event) (uint64, error) {
	ev := fromServer(p)
	now := unified(env)
	if env.Status == "terminated" {
		now.Runtime.Sandbox = nil
	}
	return h.o.Stream.Emit(ctx, in.session, stream.Emission{
		Fence: stream.Fence{Epoch: in.epoch}, LastSeq: in.lastSeq, Key: fmt.Sprintf("%s-%d", ev.Type(), in.epoch),
		Events: append(before, ev, fromServer(now)),
	})
}

// streamEnd is the end of a session's stream, where events of a sandbox are appended.
type streamEnd struct {
	session string
	epoch   uint64
	lastSeq uint64
}

// terminate ends a sandbox and drops the host's state of it.
func (h *Host) terminate(ctx context.Context, sb sandbox.Sandbox) error {
	if _, err := h.terminateNaming(ctx, sb); err != nil {
		return err
	}
	return h.Checkpoints.Remove(sb.ID())
}

// terminateNaming is like terminate, but for the checkpoint, and returns the files that could
// not be removed yet; "" for none. The sandbox has ended all the same.
func (h *Host) terminateNaming(ctx context.Context, sb sandbox.Sandbox) (left string, err error) {
	h.markEnding(sb.ID())
	err = sb.Terminate(ctx)
	if le, ok := errors.AsType[*sandbox.LeftError](err); ok {
		h.o.Log.Warn("files of an ended sandbox remain", "sandbox", sb.ID(), "path", le.Path, "error", err)
		left, err = brief.Truncate(err.Error(), leftShown), nil
	}
	if err != nil {
		return "", err
	}
	h.Slots.Free(sb.ID())
	h.forget(sb.ID())
	return left, nil
}

// markEnding has isEnding report true until the host forgets the sandbox.
func (h *Host) markEnding(sandboxID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending[sandboxID] = true
}

// isEnding reports whether a sandbox is being ended.
func (h *Host) isEnding(sandboxID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ending[sandboxID]
}
