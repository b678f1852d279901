package adaptertest

import (
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// earlier is what a session had when a scenario began, which is not the scenario's.
type earlier struct {
	// scenario is the name of the one that began.
	scenario string
	events   int
	// ids are those of blocks and subagents.
	ids map[string]bool
}

// begin begins a scenario: Events, Blocks and Subagents return what is new from here on, and
// the files of earlier scenarios are removed from the workspace.
func (r *Rig) begin(scenario string) {
	r.t.Helper()
	live := r.Live()
	r.mu.Lock()
	r.earlier = earlier{scenario: scenario, events: len(r.events), ids: map[string]bool{}}
	r.mu.Unlock()
	for _, blocks := range [][]event.Block{live.Blocks, threadsOf(live)} {
		for _, b := range blocks {
			r.earlier.ids[b.ID] = true
		}
	}
	for _, s := range live.Subagents {
		r.earlier.ids[s.ToolUseID] = true
	}
	r.tidy()
}

// tidy removes the workspace's files that no profile has put there.
func (r *Rig) tidy() {
	r.t.Helper()
	entries, err := os.ReadDir(r.Workspace())
	require.NoError(r.t, err)
	for _, e := range entries {
		if e.Type().IsRegular() && !r.given[e.Name()] {
			require.NoError(r.t, os.Remove(filepath.Join(r.Workspace(), e.Name())))
		}
	}
}
