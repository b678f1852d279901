package starter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/session"
)

// alternating is a Temporal whose session waits for two things in turn. looks has each look.
type alternating struct {
	remembering
	looks chan int
	n     int
}

func (a *alternating) DescribeWorkflowExecution(ctx context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	d, err := a.remembering.DescribeWorkflowExecution(ctx, id, run)
	d.PendingActivities = []*workflowpb.PendingActivityInfo{{
		ActivityType: &commonpb.ActivityType{Name: "Emit"}, State: enumspb.PENDING_ACTIVITY_STATE_SCHEDULED,
		LastFailure: &failurepb.Failure{Message: fmt.Sprintf("part %d is away", a.n%2)},
	}}
	a.n++
	a.looks <- a.n
	return d, err
}

// A command that waits says each thing once, also when several take turns.
func TestEachThingThatIsWaitedForIsSaidOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		temporal := &alternating{looks: make(chan int, 1)}
		sc, err := session.NewClient(session.ClientOptions{Temporal: temporal, Agents: builtin.Registry()})
		require.NoError(t, err)
		h, err := sc.Get(t.Context(), "s1")
		require.NoError(t, err)
		<-temporal.looks
		var errs bytes.Buffer
		stop := (&cli{stderr: &errs}).sayPending(t.Context(), h, "")
		for range 5 {
			<-temporal.looks
		}
		stop()
		require.Equal(t, "sojourn: session s1 waits for Emit: part 1 is away\nsojourn: session s1 waits for Emit: part 0 is away\n", errs.String())
	})
}

// paused is a Temporal whose session waits for a higher limit. looks has each look.
type paused struct {
	remembering
	looks chan bool
}

func (p paused) DescribeWorkflowExecution(ctx context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	d, err := p.remembering.DescribeWorkflowExecution(ctx, id, run)
	limit, bad := converter.GetDefaultDataConverter().ToPayload("the limit of 1 turns is reached")
	d.WorkflowExecutionInfo.SearchAttributes = &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{session.AttrLimit.GetName(): limit}}
	p.looks <- true
	return d, errors.Join(err, bad)
}

// A message that waits for a higher limit is not said to be worked on.
func TestAPauseIsNamedToThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		temporal := paused{looks: make(chan bool, 1)}
		sc, err := session.NewClient(session.ClientOptions{Temporal: temporal, Agents: builtin.Registry()})
		require.NoError(t, err)
		h, err := sc.Get(t.Context(), "s1")
		require.NoError(t, err)
		<-temporal.looks
		for otherwise, want := range map[string]string{
			"the agent is at work": "sojourn: session s1 is paused: the limit of 1 turns is reached (sojourn configure s1 --max-… raises it)\n",
			"":                     "",
		} {
			var errs bytes.Buffer
			stop := (&cli{stderr: &errs}).sayPending(t.Context(), h, otherwise)
			for range 5 {
				<-temporal.looks
			}
			stop()
			require.Equal(t, want, errs.String())
		}
	})
}
