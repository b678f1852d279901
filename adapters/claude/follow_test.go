package claude

import (
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/replay"
)

// A transcript makes the same events while it grows as when it is whole.
func TestFollowTellsWhatParseTells(t *testing.T) {
	t.Parallel()
	for _, tr := range transcripts(t) {
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			replay.Followed(t, New(), adapters.Launch{NativeID: tr.session}, configDir+"/projects/p/"+tr.session+".jsonl", tr.bytes)
		})
	}
}
