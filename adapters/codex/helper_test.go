package codex

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters/adaptertest"
	"github.com/sojourn-run/sojourn/event"
)

// What runs the model's scripts is started by the first of them and is the
// agent's: when the turn of that one is interrupted, its tools end, and the next
// turn's script is run at once.
func TestInterruptSparesWhatRunsScripts(t *testing.T) {
	t.Parallel()
	r := adaptertest.New(t, ownModel(), adaptertest.Options{})
	r.Start()
	r.Send("TOOL bash: sleep 3000 & sleep 3001 & touch begun; sleep 3002")
	r.AwaitFile("begun")
	require.NotEmpty(t, r.Left())
	idle := r.Interrupt()
	require.True(t, idle.Interrupted)
	require.Empty(t, r.Left())
	requests := r.Model.Stats().Total
	require.Nil(t, r.Ask("TOOL bash: echo goes on > after; cat after").Error)
	require.FileExists(t, filepath.Join(r.Workspace(), "after"))
	require.Equal(t, requests+2, r.Model.Stats().Total, "one request has the script run, the other hears of it")
	for _, q := range r.Model.Recorded() {
		require.NotContains(t, string(q.Body), "exec runtime was replaced", "what runs scripts was gone")
	}
	results := r.Blocks(event.BlockToolResult)
	require.Contains(t, string(results[len(results)-1].Output), "goes on")
	r.Finish()
}
