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
	reply chan reply
	// readTo is where the spool ended when it arrived, if that was asked.
	readTo int64
}

// reply is a turn's answer to a control.
type reply struct {
	out contract.ControlOutput
	err error
}

// SendControl passes a control to the running turn of a session on this host. What an attempt
// has left unanswered is for the next one; each control has its effect once.
func (h *Host) SendControl(ctx context.Context, in contract.ControlInput) (contract.ControlOutput, error) {
	for {
		t := h.await(ctx, in)
		if t == nil {
			return contract.ControlOutput{}, ctx.Err()
		}
		got, err := t.take(ctx, in)
		if got != nil {
			return handed(*got)
		}
		if err != nil || t.over {
			return contract.ControlOutput{}, err
		}
	}
}

// take has the attempt carry out a control, and returns its answer; nil if it left before.
func (a *attempt) take(ctx context.Context, in contract.ControlInput) (*reply, error) {
	c := control{in: in, reply: make(chan reply, 1)}
	select {
	case a.controls <- c:
	case <-a.left:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case got := <-c.reply:
		return &got, nil
	case <-a.left:
		// It may have answered as the last thing it did: then that counts.
		select {
		case got := <-c.reply:
			return &got, nil
		default:
			return nil, nil
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// errNotNow is the error for a message that the working agent can't take: it has to wait.
var errNotNow = errors.New("the agent can't take a message now")

// handed converts a turn's result for a control into the activity's.
func handed(r reply) (contract.ControlOutput, error) {
	if errors.Is(r.err, errNotNow) {
		return contract.ControlOutput{}, nil
	}
	r.out.Handed = r.err == nil
	return r.out, toApplicationError(r.err)
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
