package codex

import (
	"path"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/replay"
)

// A rollout makes the same events while it grows as when it is whole.
func TestFollowTellsWhatParseTells(t *testing.T) {
	t.Parallel()
	for _, tr := range transcripts(t) {
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			name := path.Join(sessionsDir, "2026/01/01", rolloutPrefix+"2026-01-01T00-00-00-"+tr.thread+rolloutSuffix)
			replay.Followed(t, New(), adapters.Launch{NativeID: tr.thread}, name, tr.bytes)
		})
	}
}
