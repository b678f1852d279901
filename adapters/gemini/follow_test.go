package gemini

import (
	"path"
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/replay"
)

// A chat file makes the same events while it grows as when it is whole.
func TestFollowTellsWhatParseTells(t *testing.T) {
	t.Parallel()
	for _, tr := range transcripts(t) {
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			file := tr.Sources[0].Path
			name := path.Join(configDir, "tmp/p/chats", path.Base(file))
			replay.Followed(t, New(), adapters.Launch{SessionID: "s"}, name, replay.ReadFile(t, file))
		})
	}
}
