package activities

import (
	"context"
	"errors"
	"time"

	"github.com/sojourn-run/sojourn/contract"
)

// controlPatience is how long a control waits for an attempt of its turn to start: the
// workflow schedules both at about the same time, and an attempt that was too slow is followed
// by another.
const controlPatience = 3 * time.Second

// control is a request to a running turn.
type control struct {
	in    contract.ControlInput
	reply chan error
	// readTo is where the spool ended when it arrived, if that was asked.
	readTo int64
}

// SendControl passes a control to the running turn of a session on this host. What an attempt
// has left unanswered is for the next one; each control has its effect once.
func (h *Host) SendControl(ctx context.Context, in contract.ControlInput) (contract.ControlOutput, error) {
	for {
		t := h.await(ctx, in)
		if t == nil {
			return contract.ControlOutput{}, ctx.Err()
		}
		answered, err := t.take(ctx, in)
		if answered {
			return handed(err)
		}
		if err != nil || t.over {
			return contract.ControlOutput{}, err
		}
	}
}

// take has the attempt carry out a control, and reports whether it did before it left.
func (a *attempt) take(ctx context.Context, in contract.ControlInput) (answered bool, err error) {
	c := control{in: in, reply: make(chan error, 1)}
	select {
	case a.controls <- c:
	case <-a.left:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	select {
	case err = <-c.reply:
		return true, err
	case <-a.left:
		// It may have answered as the last thing it did: then that counts.
		select {
		case err = <-c.reply:
			return true, err
		default:
			return false, nil
		}
	case <-ctx.Done():
		return false, ctx.Err()
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
