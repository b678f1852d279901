package codex

import (
	"path"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/replay"
)

// A rollout tells the same while it grows as when it is whole.
func TestFollowTellsWhatParseTells(t *testing.T) {
	t.Parallel()
	for _, tr := range transcripts(t) {
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			name := path.Join(sessionsDir, "2026/01/01", path.Base(tr.Sources[0].Path))
			replay.Followed(t, New(), adapters.Launch{NativeID: threadID(name)}, name, tr.bytes)
		})
	}
}
