package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestFailedTask: a worker that can't run a session is named at once; new search
// attributes, which not every part of a server has noticed, are waited for.
func TestFailedTask(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		cause  enumspb.WorkflowTaskFailedCause
		after  time.Duration
		failed bool
	}{
		"another build":                       {enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR, time.Second, true},
		"a panic":                             {enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE, time.Second, true},
		"attributes that are not noticed yet": {enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SEARCH_ATTRIBUTES, 14 * time.Second, false},
		"attributes that were not added":      {enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SEARCH_ATTRIBUTES, 15 * time.Second, true},
		"a task that had a late message":      {enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault := failedTask(&historypb.HistoryEvent{
				EventTime: timestamppb.New(first),
				Attributes: &historypb.HistoryEvent_WorkflowTaskFailedEventAttributes{
					WorkflowTaskFailedEventAttributes: &historypb.WorkflowTaskFailedEventAttributes{
						Cause: test.cause, Identity: "w1", Failure: &failurepb.Failure{Message: "it does not\nfit"},
					},
				},
			}, first.Add(test.after))
			if !test.failed {
				require.Nil(t, fault)
				return
			}
			require.Equal(t, &UnservedError{Worker: "w1", Reason: "it does not fit"}, fault)
		})
	}
	require.Nil(t, failedTask(nil, first), "no task failed")
}
