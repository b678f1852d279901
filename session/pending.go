package session

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
)

// Pending is something that a session waits for at this moment: it has failed
// before and is tried again until it succeeds, or no host has taken it yet.
type Pending struct {
	// Activity is its name, such as EndSandbox.
	Activity string `json:"activity"`
	// Attempt counts the tries, this one included.
	Attempt int `json:"attempt"`
	// Failure is why the last try failed, or what the first one waits for.
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
		if why := waitsFor(a); why != "" {
			out = append(out, Pending{Activity: a.GetActivityType().GetName(), Attempt: int(a.GetAttempt()), Failure: why})
		}
	}
	return out, nil
}

// waitsFor is why an activity is not done yet; "" for one that simply runs.
func waitsFor(a *workflowpb.PendingActivityInfo) string {
	offered := a.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
	switch name := a.GetActivityType().GetName(); {
	case a.GetLastFailure() != nil:
		return a.GetLastFailure().GetMessage()
	case offered && name == activityCreateSandbox:
		return "waiting for a free slot on a host"
	case offered && name == activityRunTurn:
		return "waiting for the worker of the sandbox's host"
	}
	return ""
}

// The activities that wait for a host. Package activities names them too, and
// depends on this one.
const (
	activityCreateSandbox = "CreateSandbox"
	activityRunTurn       = "RunTurn"
)
