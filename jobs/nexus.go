package jobs

import (
	"context"

	"github.com/nexus-rpc/sdk-go/nexus"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporalnexus"
)

// NexusService and NexusOperation are the names under which workers offer jobs as a Nexus
// service, to workflows of other namespaces. An endpoint for it targets the sessions' task
// queue; input and result are Input and Result.
const (
	NexusService   = "AgentJobs"
	NexusOperation = "run"
)

// Nexus returns the service. A request that is repeated is the same job.
func Nexus() (*nexus.Service, error) {
	run, err := temporalnexus.NewWorkflowRunOperationWithOptions(temporalnexus.WorkflowRunOperationOptions[Input, Result]{
		Name: NexusOperation,
		// By its type: the SDK identifies functions by name, without the package.
		Handler: func(ctx context.Context, in Input, o nexus.StartOperationOptions) (temporalnexus.WorkflowHandle[Result], error) {
			start := client.StartWorkflowOptions{ID: "job-" + o.RequestID, StaticSummary: in.Options.Title}
			return temporalnexus.ExecuteUntypedWorkflow[Result](ctx, o, start, Type, in)
		},
	})
	if err != nil {
		return nil, err
	}
	s := nexus.NewService(NexusService)
	return s, s.Register(run)
}
