package activities

import (
	"context"
	"time"
)

// controlPatience is how long a control waits for its turn to enter: the
// workflow schedules both at about the same time.
const controlPatience = time.Second

// control is a request to a running turn.
type control struct {
	in    ControlInput
	reply chan error
}

// SendControl hands a control to the running turn of a session on this host.
func (h *Host) SendControl(ctx context.Context, in ControlInput) (ControlOutput, error) {
	t := h.await(ctx, in)
	if t == nil {
		return ControlOutput{}, ctx.Err()
	}
	c := control{in: in, reply: make(chan error, 1)}
	select {
	case t.controls <- c:
	case <-t.left:
		return ControlOutput{}, nil
	case <-ctx.Done():
		return ControlOutput{}, ctx.Err()
	}
	select {
	case err := <-c.reply:
		return ControlOutput{Handed: err == nil}, crossing(err)
	case <-t.left:
		// A turn that took it may have left since: its word counts.
		select {
		case err := <-c.reply:
			return ControlOutput{Handed: err == nil}, crossing(err)
		default:
			return ControlOutput{}, nil
		}
	case <-ctx.Done():
		return ControlOutput{}, ctx.Err()
	}
}

// await finds the turn, or nil when it does not enter in time.
func (h *Host) await(ctx context.Context, in ControlInput) *attempt {
	patience, cancel := context.WithTimeout(ctx, controlPatience)
	defer cancel()
	for {
		t, arrived := h.live(in.SessionID, in.ExecutionID)
		if t != nil {
			return t
		}
		select {
		case <-arrived:
		case <-patience.Done():
			return nil
		}
	}
}
