package children

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// AwaitedPlace names what a session without a sandbox waits for.
func AwaitedPlace(in session.Input) string {
	if parent := in.Shares(); parent != "" {
		return "the sandbox of its parent " + parent + ", and a place in it"
	}
	return "a free slot on a host, and the sandbox to be made there"
}

// maxLooks bounds how often a lost host's sandbox is looked for elsewhere.
const maxLooks = 3

// CreateSandbox has a sandbox made: on any host with a free slot, or in that of the
// session's parent, once that has one. The parent may lose its host meanwhile and have
// another sandbox elsewhere.
func CreateSandbox(ctx workflow.Context, in contract.CreateSandboxInput) (out contract.CreateSandboxOutput, err error) {
	if in.Agent.Shares == "" {
		ctx = workflow.WithActivityOptions(ctx, timeouts.Create)
		return out, workflow.ExecuteActivity(ctx, contract.ActivityCreateSandbox, in).Get(ctx, &out)
	}
	for range maxLooks {
		look := workflow.WithActivityOptions(ctx, timeouts.Look)
		if err = workflow.ExecuteActivity(look, contract.ActivityParentSandbox, contract.ParentSandboxInput{Parent: in.Agent.Shares}).Get(look, &in.Shared); err != nil {
			return out, err
		}
		create := workflow.WithActivityOptions(ctx, timeouts.CreateOn(in.Shared.Host))
		if err = workflow.ExecuteActivity(create, contract.ActivityCreateSandbox, in).Get(create, &out); !timeouts.HostLost(err) {
			return out, err
		}
	}
	return out, err
}
