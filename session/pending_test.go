package session

import (
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
)

// failedBefore is an activity that has failed before.
func failedBefore(state enumspb.PendingActivityState) []*workflowpb.PendingActivityInfo {
	return []*workflowpb.PendingActivityInfo{{
		ActivityType: &commonpb.ActivityType{Name: activityRunTurn}, State: state, Attempt: 2, LastFailure: &failurepb.Failure{Message: "the stream was away"},
	}}
}

// A session waits for what is to be tried again, and not for what is being tried.
func TestInspectTellsWhatASessionWaitsFor(t *testing.T) {
	t.Parallel()
	scheduled, started := enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, enumspb.PENDING_ACTIVITY_STATE_STARTED
	for name, c := range map[string]struct {
		state  enumspb.PendingActivityState
		status Status
		waits  string
		want   string
	}{
		"again":      {scheduled, StatusRunning, "", "RunTurn, attempt 2: the stream was away"},
		"at it":      {started, StatusRunning, "", ""},
		"by a limit": {scheduled, StatusPaused, "the limit of 1 turns is reached", "the limit of 1 turns is reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
			f.pending = failedBefore(c.state)
			f.answer = func() (any, error) { return Inspection{Snapshot: Snapshot{Status: c.status}, WaitsFor: c.waits}, nil }
			h, err := newClient(t, f).Get(t.Context(), "s1")
			require.NoError(t, err)
			i, err := h.Inspect(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.want, i.WaitsFor)
		})
	}
}
