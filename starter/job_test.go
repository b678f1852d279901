package starter

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/jobs"
)

// How a job ended is in the exit code, and what it had made by then on standard output where JSON
// is asked for: nothing, if its end is unknown.
func TestHowAJobEnded(t *testing.T) {
	t.Parallel()
	made := jobs.Result{SessionID: "s1"}
	for name, c := range map[string]struct {
		err    error
		code   int
		hinted bool
		json   string
	}{
		"failed":     {&jobs.Failure{Type: jobs.TypeMismatch, Reason: "no", Result: made}, exitFailed, true, `"sessionId":"s1"`},
		"cancelled":  {&jobs.Failure{Type: jobs.TypeCancelled, Reason: "no", Result: made}, exitInterrupted, true, `"sessionId":"s1"`},
		"terminated": {&jobs.Failure{Type: jobs.TypeEnded, Reason: "no"}, exitFailed, false, ""},
		"unknown":    {errors.New("no"), exitFailed, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			program := &cli{stdout: &out, json: true}
			var result jobs.Result
			if f, is := errors.AsType[*jobs.Failure](c.err); is {
				result = f.Result
			}
			require.NoError(t, program.printJobResult(result, c.err))
			if c.json == "" {
				require.Empty(t, out.String())
			}
			require.Contains(t, out.String(), c.json)
			f := explain(jobFailed(c.err))
			require.Equal(t, c.code, f.code)
			require.Equal(t, c.hinted, f.hint != "")
			require.NotContains(t, f.hint, "show  shows")
		})
	}
}
