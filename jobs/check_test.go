package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
)

// The check runs in the session's sandbox, once its answer is there, and the job is what
// became of it.
func TestCheck(t *testing.T) {
	t.Parallel()
	gone := temporal.NewNonRetryableApplicationError("no such sandbox", session.TypeHostLost, nil)
	for name, c := range map[string]struct {
		out  contract.CheckOutput
		err  error
		typ  string
		said string
	}{
		"passed": {},
		"failed": {out: contract.CheckOutput{Code: 2, Output: "2 tests failed"}, typ: TypeCheckFailed, said: "the check ended with code 2: 2 tests failed"},
		"silent": {out: contract.CheckOutput{Code: 1}, typ: TypeCheckFailed, said: "it wrote nothing"},
		"gone":   {err: gone, typ: TypeUnchecked, said: "no such sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJobTest(t, completed("done"))
			at := session.Sandbox{Host: "h1", ID: "s-e1"}
			j.RegisterActivityWithOptions(func(context.Context, SandboxInput) (session.Sandbox, error) { return at, nil }, activity.RegisterOptions{Name: ActivitySandbox})
			var asked []contract.CheckInput
			j.RegisterActivityWithOptions(func(_ context.Context, in contract.CheckInput) (contract.CheckOutput, error) {
				asked = append(asked, in)
				return c.out, c.err
			}, activity.RegisterOptions{Name: contract.ActivityCheck})
			out, err := j.run(t, Input{Check: "make test", CheckTimeoutMS: 5000})
			require.Equal(t, []contract.CheckInput{{Sandbox: at, Command: "make test", TimeoutMS: 5000}}, asked)
			if c.typ == "" {
				require.NoError(t, err)
				require.Equal(t, "done", out.Response)
				return
			}
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			require.Equal(t, c.typ, app.Type())
			require.Contains(t, app.Message(), c.said)
		})
	}
}

func TestCheckTimeoutIsBounded(t *testing.T) {
	t.Parallel()
	in := Input{Options: session.Options{Agent: "claude"}, Prompt: "go on", Check: "true"}
	for _, ms := range []int64{-1, MaxCheckTimeout.Milliseconds() + 1} {
		in.CheckTimeoutMS = ms
		require.ErrorContains(t, in.Validate(), "checkTimeoutMs: is")
	}
	in.CheckTimeoutMS = time.Minute.Milliseconds()
	require.NoError(t, in.Validate())
}
