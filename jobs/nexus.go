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
	run := temporalnexus.NewWorkflowRunOperation(NexusOperation, Workflow, func(_ context.Context, in Input, o nexus.StartOperationOptions) (client.StartWorkflowOptions, error) {
		return client.StartWorkflowOptions{ID: "job-" + o.RequestID, StaticSummary: in.Options.Title}, nil
	})
	s := nexus.NewService(NexusService)
	return s, s.Register(run)
}
