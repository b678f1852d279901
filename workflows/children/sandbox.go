package children

import (
	"time"

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

// maxLooks bounds how often a sandbox that is gone is looked for again, with a pause before
// each that doubles up to maxPause: its session may be about to have another, elsewhere.
const (
	maxLooks = 10
	maxPause = 30 * time.Second
)

// CreateSandbox has a sandbox made: on any host with a free slot, or in that of the
// session's parent, once that has one. The parent's may end meanwhile, or be lost with its
// host.
func CreateSandbox(ctx workflow.Context, in contract.CreateSandboxInput) (out contract.CreateSandboxOutput, err error) {
	if in.Agent.Shares == "" {
		ctx = workflow.WithActivityOptions(ctx, timeouts.Create)
		return out, workflow.ExecuteActivity(ctx, contract.ActivityCreateSandbox, in).Get(ctx, &out)
	}
	for looks, pause := 0, time.Second; ; pause = min(2*pause, maxPause) {
		look := workflow.WithActivityOptions(ctx, timeouts.Look)
		in.Shared = nil
		if err := workflow.ExecuteActivity(look, contract.ActivityParentSandbox, contract.ParentSandboxInput{Parent: in.Agent.Shares}).Get(look, &in.Shared); err != nil {
			return out, err
		}
		create := workflow.WithActivityOptions(ctx, timeouts.CreateOn(in.Shared.Host))
		err := workflow.ExecuteActivity(create, contract.ActivityCreateSandbox, in).Get(create, &out)
		if looks++; !timeouts.HostLost(err) || looks == maxLooks {
			return out, err
		}
		if err := workflow.Sleep(ctx, pause); err != nil {
			return out, err
		}
	}
}
