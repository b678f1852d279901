package activities

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// A message into a running turn that can't be saved is not sent, and the turn does not wait
// until the agent takes it.
func TestSteerThatCannotBeSaved(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.agent.Permission = "ask"
	in := b.ask(1, "words 1 ask")
	in.NoProgressMS = 5000
	done := b.aside(t.Context(), 1, in)
	asked := b.until(b.last, is[event.PermissionRequested]).Payload.(event.PermissionRequested)

	folder := filepath.Dir(b.host.Checkpoints.Path(b.sandbox.ID))
	require.NoError(t, os.Rename(folder, folder+"-away"))
	require.NoError(t, os.WriteFile(folder, nil, 0o600))
	_, err := b.host.SendControl(t.Context(), contract.ControlInput{SessionID: b.agent.SessionID, ExecutionID: "x1", ID: "c1", Steer: &session.Message{ID: "m2", Text: "words 2"}})
	require.Error(t, err)
	require.NoError(t, os.Remove(folder))
	require.NoError(t, os.Rename(folder+"-away", folder))

	require.True(t, b.control(contract.ControlInput{ExecutionID: "x1", ID: "k1", Answer: &session.RespondRequest{RequestID: asked.RequestID, Allow: true}}).Handed)
	end := <-done
	require.NoError(t, end.err)
	require.Equal(t, session.Completed, end.out.Result.Outcome)
	require.Empty(t, end.out.Result.MessageIDs)
	require.Zero(t, countLines(b.heard(), `"words 2"`))
}
