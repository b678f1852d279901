package session

import (
	"context"
	"encoding/json"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
)

// Pending is something that a session waits for at this moment: it has failed and is to be
// retried until it succeeds, or no host has taken it yet.
type Pending struct {
	// Activity is its name, such as EndSandbox.
	Activity string `json:"activity"`
	// Attempt counts the tries, this one included.
	Attempt int `json:"attempt"`
	// Failure is why the last try failed, or what the first try waits for.
	Failure string `json:"failure"`
}

// Pending returns what Temporal retries for the session, such as what a close waits for
// while the archive is unavailable.
func (h *Handle) Pending(ctx context.Context) ([]Pending, error) {
	tried, _, err := h.pending(ctx)
	return tried, err
}

// PausedBy returns the limit that keeps the session's queued messages from running, in words; ""
// for none. Like Pending it needs no worker.
func (h *Handle) PausedBy(ctx context.Context) (limit string, err error) {
	d, err := h.describe(ctx)
	if err != nil {
		return "", err
	}
	if err := attribute(d.GetWorkflowExecutionInfo().GetSearchAttributes(), AttrLimit.GetName(), &limit); err != nil {
		return "", fmt.Errorf("session %s: search attribute %s: %w", h.id, AttrLimit.GetName(), err)
	}
	return limit, nil
}

// progress returns the running turn's progress by its latest heartbeat; zero while none
// runs.
func (h *Handle) progress(ctx context.Context) (Progress, error) {
	_, now, err := h.pending(ctx)
	return now, err
}

func (h *Handle) describe(ctx context.Context) (*described, error) {
	d, err := h.c.o.Temporal.DescribeWorkflowExecution(ctx, h.id, "")
	if err != nil {
		return nil, h.c.unavailable(ctx, fmt.Sprintf("ask what session %s waits for", h.id), err)
	}
	return d, nil
}

func (h *Handle) pending(ctx context.Context) (out []Pending, now Progress, err error) {
	d, err := h.describe(ctx)
	if err != nil {
		return nil, now, err
	}
	for _, a := range d.GetPendingActivities() {
		if beat := a.GetHeartbeatDetails().GetPayloads(); a.GetActivityType().GetName() == activityRunTurn && len(beat) > 0 {
			// Unknown if it can't be read: a codec may have hidden it from this client.
			_ = json.Unmarshal(beat[0].GetData(), &now)
		}
		if why := waitsFor(a); why != "" {
			out = append(out, Pending{Activity: a.GetActivityType().GetName(), Attempt: int(a.GetAttempt()), Failure: why})
		}
	}
	return out, now, nil
}

// waitsFor returns why an activity is not done yet; "" for one that is running, whatever had
// failed before.
func waitsFor(a *workflowpb.PendingActivityInfo) string {
	switch name := a.GetActivityType().GetName(); {
	case a.GetState() != enumspb.PENDING_ACTIVITY_STATE_SCHEDULED:
		return ""
	case a.GetLastFailure() != nil:
		return a.GetLastFailure().GetMessage()
	case name == activityCreateSandbox:
		return "waiting for a free slot on a host"
	case name == activityRunTurn:
		return "waiting for the worker of the sandbox's host"
	}
	return ""
}

// heldUp returns why an activity waits that no worker runs; "" if there is none.
func heldUp(pending []*workflowpb.PendingActivityInfo) string {
	for _, a := range pending {
		if why := waitsFor(a); why != "" {
			return why
		}
	}
	return ""
}

// The activities that wait for a host. Package activities names them too, and
// imports this package.
const (
	activityCreateSandbox = "CreateSandbox"
	activityRunTurn       = "RunTurn"
)
