package jobs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// SandboxInput names the session whose sandbox is wanted.
type SandboxInput struct {
	SessionID string `json:"sessionId"`
}

// check runs the check command in the session's sandbox, which it has until it is closed.
func (j *job) check(ctx workflow.Context) error {
	wctx := workflow.WithActivityOptions(ctx, timeouts.Write)
	var at session.Sandbox
	if err := workflow.ExecuteActivity(wctx, ActivitySandbox, SandboxInput{j.out.SessionID}).Get(wctx, &at); err != nil {
		return unchecked(err)
	}
	takes := cmp.Or(time.Duration(j.in.CheckTimeoutMS)*time.Millisecond, DefaultCheckTimeout)
	in := contract.CheckInput{Sandbox: at, Command: j.in.Check, TimeoutMS: takes.Milliseconds()}
	cctx := workflow.WithActivityOptions(ctx, timeouts.Check(at.Host, takes))
	var out contract.CheckOutput
	if err := workflow.ExecuteActivity(cctx, contract.ActivityCheck, in).Get(cctx, &out); err != nil {
		return unchecked(err)
	}
	if out.Code != 0 {
		return fail(TypeCheckFailed, fmt.Sprintf("the check ended with code %d: %s", out.Code, cmp.Or(out.Output, "it wrote nothing")))
	}
	return nil
}

// unchecked returns why a check could not be run. A job that is cancelled is not unchecked.
func unchecked(err error) error {
	if temporal.IsCanceledError(err) {
		return err
	}
	return fail(TypeUnchecked, "the check could not be run: "+timeouts.Failure(err).Error())
}

// Sandbox returns where a session's sandbox is. Error: a session.TypeNotFound for a session
// that has none.
func (a *Activities) Sandbox(ctx context.Context, in SandboxInput) (session.Sandbox, error) {
	h, err := a.Sessions.Get(ctx, in.SessionID)
	if err != nil {
		return session.Sandbox{}, session.ToTemporal(err)
	}
	s, err := h.Snapshot(ctx)
	if err != nil {
		return session.Sandbox{}, session.ToTemporal(err)
	}
	if s.Sandbox == nil {
		return session.Sandbox{}, temporal.NewNonRetryableApplicationError("the session's sandbox is gone", session.TypeNotFound, nil)
	}
	return *s.Sandbox, nil
}
