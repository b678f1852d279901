package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// A person answers a request that an earlier attempt put into the stream, before the next
// one has read it: the answer waits for that.
func TestAnAnswerWaitsForItsRequest(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.agent.Permission = "ask"
	in := b.ask(1, "words 400 ask")
	first := b.aside(t.Context(), 1, in)
	asked := b.until(b.last, is[event.PermissionRequested]).Payload.(event.PermissionRequested)
	answer := func(requestID string) error {
		_, err := b.host.SendControl(t.Context(), contract.ControlInput{
			SessionID: b.agent.SessionID, ExecutionID: "x1", ID: "k1", Answer: &session.RespondRequest{RequestID: requestID, Allow: true},
		})
		return err
	}
	require.ErrorContains(t, answer("unknown"), `"unknown" is not open`)
	second := b.aside(t.Context(), 2, in)
	b.until(b.last, func(ev event.Event) bool {
		began, ok := ev.Payload.(event.Status)
		return ok && began.Attempt == attemptOf(in.Turn, 2)
	})
	require.NoError(t, answer(asked.RequestID))
	over, gone := <-second, <-first
	require.NoError(t, over.err)
	require.Error(t, gone.err)
	require.Equal(t, numbersFrom(1, 400), over.out.Result.Result.Response)
}
