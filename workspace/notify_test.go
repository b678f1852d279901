package workspace

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// Each change is reported once, whatever observed it and in whatever order.
func TestNotifierTellsOnce(t *testing.T) {
	t.Parallel()
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	var n Notifier
	n.Replay(event.FromServer(event.FileCreated{File: event.File{Path: "early"}}, at(0)))
	n.begin([]File{{Path: "old", Mode: 0o644, SHA256: "1"}, {Path: "dir", Mode: fs.ModeDir | 0o755}, {Path: ".git/HEAD", SHA256: "1"}})
	n.begin(nil)
	require.Equal(t, []string{"old"}, n.existing())
	for _, step := range []struct {
		name string
		seen Observation
		want []string
	}{
		{"archived", Observation{Path: "old", Mode: 0o644, SHA256: "1", At: at(1)}, nil},
		{"another mode", Observation{Path: "old", Mode: 0o755, SHA256: "1", At: at(2)}, []string{"modified old"}},
		{"an older look at it", Observation{Path: "old", Mode: 0o644, SHA256: "1", At: at(1)}, nil},
		{"new", Observation{Path: "new", SHA256: "2", At: at(3)}, []string{"created new"}},
		{"seen again", Observation{Path: "new", SHA256: "2", At: at(4)}, nil},
		{"gone", Observation{Path: "new", Gone: true, At: at(5)}, []string{"deleted new"}},
		{"gone again", Observation{Path: "new", Gone: true, At: at(6)}, nil},
		{"an older look at what is gone", Observation{Path: "new", SHA256: "2", At: at(3)}, nil},
		{"back", Observation{Path: "new", SHA256: "2", At: at(7)}, []string{"created new"}},
		{"gone, and never told", Observation{Path: "never", Gone: true, At: at(7)}, nil},
		{"quiet", Observation{Path: "a/node_modules/x", SHA256: "3", At: at(7)}, nil},
		{"outside", Observation{Path: "../x", SHA256: "3", At: at(7)}, nil},
		{"no UTF-8", Observation{Path: "\xff", SHA256: "3", At: at(7)}, []string{"created \uFFFD"}},
	} {
		require.Equal(t, step.want, fileChanges(published(t, &n, step.seen)), step.name)
	}
	// What another worker published has no mode.
	n.Replay(event.FromServer(event.FileModified{File: event.File{Path: "old", SHA256: "9"}}, at(8)))
	n.Replay(event.FromServer(event.FileDeleted{File: event.File{Path: "new"}}, at(8)))
	n.Replay(event.FromServer(event.SessionIdle{}, at(8)))
	require.Empty(t, published(t, &n, Observation{Path: "old", Mode: 0o600, SHA256: "9", At: at(9)}))
	require.Equal(t, []string{"old", "\xff"}, n.existing())
}

// What could not be sent is sent with the next change, with its content, and once.
func TestNotifierSendsAgainWhatFailed(t *testing.T) {
	t.Parallel()
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	var n Notifier
	n.begin([]File{{Path: "old", Mode: 0o644, SHA256: "1"}})
	away := errors.New("the stream is away")
	seen := []Observation{
		{Path: "new", SHA256: "2", Content: new("text"), At: at(1)}, {Path: "old", Gone: true, At: at(1)},
		{Path: "brief", SHA256: "3", At: at(1)}, {Path: "brief", Gone: true, At: at(2)},
	}
	require.ErrorIs(t, n.Publish(seen, func([]event.Event) error { return away }), away)
	require.ErrorIs(t, n.Publish(nil, func([]event.Event) error { return away }), away)
	require.Equal(t, []string{"old"}, n.existing())
	events := published(t, &n, Observation{Path: "new", SHA256: "2", At: at(3)}, Observation{Path: "other", SHA256: "4", At: at(3)})
	require.Equal(t, []string{"created new", "deleted old", "created brief", "deleted brief", "created other"}, fileChanges(events))
	require.Equal(t, "text", *events[0].Payload.(event.FileCreated).Content)
	require.Empty(t, published(t, &n, seen...))
	require.Equal(t, []string{"new", "other"}, n.existing())
}
