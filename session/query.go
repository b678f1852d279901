package session

import (
	"context"
	"time"

	"go.temporal.io/sdk/client"
)

// temporalPatience is how long Temporal has to answer where only that is asked.
const temporalPatience = 3 * time.Second

// queryPatience is how long a query without a deadline waits for a worker: one that is started
// again is away for some seconds.
const queryPatience = 30 * time.Second

// Query asks the workflow with the id, and decodes its answer into out. Temporal's SDK allows ten
// seconds per try, and a workflow whose worker was lost, or is busy, may take longer: it is asked
// again until the context's deadline, or for 30 seconds if there is none. Errors: [ErrNoWorker],
// and those of client.Client.QueryWorkflow; a Temporal that is away is not asked again.
func Query(ctx context.Context, temporal client.Client, id, name string, out any, args ...any) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, queryPatience)
		defer cancel()
	}
	for {
		answer, err := temporal.QueryWorkflow(ctx, id, "", name, args...)
		switch {
		case err == nil:
			return answer.Get(out)
		case isUnpolled(err):
			return ErrNoWorker // what the transport says of it changes
		case !isLate(err) && !isAway(err):
			return fromQuery(err)
		case (isAway(err) || ctx.Err() != nil) && !answers(ctx, temporal, id):
			return err
		case ctx.Err() != nil:
			return ErrNoWorker
		}
	}
}

// answers reports whether Temporal itself answers for a workflow.
func answers(ctx context.Context, temporal client.Client, id string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), temporalPatience)
	defer cancel()
	_, err := temporal.DescribeWorkflowExecution(ctx, id, "")
	return err == nil
}
