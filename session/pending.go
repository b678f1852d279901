package session

import (
	"context"
	"fmt"
)

// Pending is something that a session does at this moment and that has failed
// before: it is tried again until it succeeds.
type Pending struct {
	// Activity is its name, such as EndSandbox.
	Activity string `json:"activity"`
	// Attempt counts the tries, this one included.
	Attempt int `json:"attempt"`
	// Failure is why the last try failed.
	Failure string `json:"failure"`
}

// Pending asks Temporal what the session tries again: what a close waits for,
// say, when the archive is away.
func (h *Handle) Pending(ctx context.Context) ([]Pending, error) {
	d, err := h.c.o.Temporal.DescribeWorkflowExecution(ctx, h.id, "")
	if err != nil {
		return nil, h.c.unavailable(fmt.Sprintf("ask what session %s waits for", h.id), err)
	}
	var out []Pending
	for _, a := range d.GetPendingActivities() {
		if f := a.GetLastFailure(); f != nil {
			out = append(out, Pending{Activity: a.GetActivityType().GetName(), Attempt: int(a.GetAttempt()), Failure: f.GetMessage()})
		}
	}
	return out, nil
}
