package activities

import (
	"context"
	"errors"
	"time"

	"github.com/sojourn-run/sojourn/contract"
)

// controlPatience is how long a control waits for its turn to start: the workflow schedules
// both at about the same time.
const controlPatience = time.Second

// control is a request to a running turn.
type control struct {
	in    contract.ControlInput
	reply chan error
}

// SendControl passes a control to the running turn of a session on this host.
func (h *Host) SendControl(ctx context.Context, in contract.ControlInput) (contract.ControlOutput, error) {
	t := h.await(ctx, in)
	if t == nil {
		return contract.ControlOutput{}, ctx.Err()
	}
	c := control{in: in, reply: make(chan error, 1)}
	select {
	case t.controls <- c:
	case <-t.left:
		return contract.ControlOutput{}, nil
	case <-ctx.Done():
		return contract.ControlOutput{}, ctx.Err()
	}
	select {
	case err := <-c.reply:
		return handed(err)
	case <-t.left:
		// A turn that took it may have left since: its result counts.
		select {
		case err := <-c.reply:
			return handed(err)
		default:
			return contract.ControlOutput{}, nil
		}
	case <-ctx.Done():
		return contract.ControlOutput{}, ctx.Err()
	}
}

// errNotNow is the error for a message that the working agent can't take: it has to wait.
var errNotNow = errors.New("the agent can't take a message now")

// handed converts a turn's result for a control into the activity's.
func handed(err error) (contract.ControlOutput, error) {
	if errors.Is(err, errNotNow) {
		return contract.ControlOutput{}, nil
	}
	return contract.ControlOutput{Handed: err == nil}, toApplicationError(err)
}

// await returns the turn, or nil when it does not start in time.
func (h *Host) await(ctx context.Context, in contract.ControlInput) *attempt {
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
