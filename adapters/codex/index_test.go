package codex

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

// indexed is a home whose index has a status, or can't be queried.
type indexed struct {
	adapters.DirHome
	status string
	err    error
}

func (h indexed) OpenDatabase(string) (adapters.Database, error) { return h, nil }

func (h indexed) Query(string, ...any) ([]string, iter.Seq2[[]any, error], error) {
	return []string{"status"}, func(yield func([]any, error) bool) { yield([]any{h.status}, nil) }, h.err
}

func (h indexed) Close() error { return nil }

// An index that a killed process was making is set aside, with its log; no other is.
func TestIndexThatAKillInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := adapters.Launch{Program: "/codex", Home: dir, Workspace: "/srv/project", NativeID: New().NativeID("s", 1)}
	require.NoError(t, os.Mkdir(filepath.Join(dir, configDir), 0o700))
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	prepared, err := New().Prepare(indexed{DirHome: home, status: "running"}, l)
	require.NoError(t, err)
	require.Empty(t, prepared.Move, "there is none yet")
	for _, name := range []string{"state_5.sqlite", "state_5.sqlite-wal", "state_5.sqlite-shm", "logs_2.sqlite"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, configDir, name), nil, 0o600))
	}
	for name, c := range map[string]struct {
		home  indexed
		moves []string
		note  string
	}{
		"running":    {indexed{status: "running"}, []string{"state_5.sqlite", "state_5.sqlite-shm", "state_5.sqlite-wal"}, "killed while it made its index"},
		"complete":   {indexed{status: "complete"}, nil, ""},
		"pending":    {indexed{status: "pending"}, nil, ""},
		"older":      {indexed{err: errors.New("no such table: backfill_state")}, nil, ""},
		"unreadable": {indexed{err: errors.New("file is not a database")}, nil, "is unknown: file is not a database"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.home.DirHome = home
			prepared, err := New().Prepare(c.home, l)
			require.NoError(t, err)
			var moved []string
			for _, m := range prepared.Move {
				require.Equal(t, configDir+"/interrupted/"+filepath.Base(m.From), m.To)
				moved = append(moved, filepath.Base(m.From))
			}
			require.ElementsMatch(t, c.moves, moved)
			require.True(t, len(moved) == 0 || slices.Index(moved, "state_5.sqlite") == 0, "a log without its database is no harm, a database without its log is")
			require.Contains(t, prepared.Note, c.note)
			require.Equal(t, c.note == "", prepared.Note == "")
		})
	}
}
