package activities

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/host"
)

// A database in a sandbox is queried during concurrent writes: all queries have one
// snapshot, values keep their types, and the database is only read.
func TestDatabaseOfASandbox(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	sb, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.NoError(t, err)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	h := (&host.Agent{Sandbox: sb, Paths: info.Paths, Env: info.Env}).Home(t.Context())
	const name = "a db?.sqlite"
	db, err := sql.Open("sqlite", "file:"+info.Paths.Home+"/a%20db%3F.sqlite")
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(t.Context(), `PRAGMA journal_mode = wal; CREATE TABLE t (v);
		INSERT INTO t VALUES (NULL), (9007199254740993), (2.0), ('"text"'), (x'00ff'), ('')`)
	require.NoError(t, err)

	open := func(name string) adapters.Database {
		t.Helper()
		q, err := h.OpenDatabase(name)
		require.NoError(t, err)
		return q
	}
	all := func(q adapters.Database) (values []any) {
		t.Helper()
		columns, rows, err := q.Query("SELECT v FROM t WHERE rowid > ? ORDER BY rowid", int64(0))
		require.NoError(t, err)
		require.Equal(t, []string{"v"}, columns)
		for row, err := range rows {
			require.NoError(t, err)
			values = append(values, row[0])
		}
		return values
	}
	q := open(name)
	want := []any{nil, int64(9007199254740993), 2.0, `"text"`, []byte{0, 255}, ""}
	require.Equal(t, want, all(q))
	_, err = db.ExecContext(t.Context(), `INSERT INTO t VALUES (1)`)
	require.NoError(t, err)
	require.Equal(t, want, all(q), "one view")
	_, _, err = q.Query("SELECT nosuch")
	require.ErrorContains(t, err, "no such column")
	_, rows, err := q.Query("INSERT INTO t VALUES (2)")
	if err == nil {
		for _, rowErr := range rows {
			err = errors.Join(err, rowErr)
		}
	}
	require.ErrorContains(t, err, "readonly")
	require.Equal(t, want, all(q), "and continues")
	require.NoError(t, q.Close())
	q = open(name)
	require.Len(t, all(q), 7)
	require.NoError(t, q.Close())
	require.NoError(t, db.Close())

	require.NoError(t, os.WriteFile(filepath.Join(info.Paths.Home, "text"), []byte("no database, by no means"), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(info.Paths.Home, "pipe"), 0o600))
	for _, bad := range []string{"none", "text", "pipe"} {
		q = open(bad)
		_, _, err = q.Query("SELECT 1 FROM sqlite_schema")
		require.Error(t, err)
		require.NotErrorIs(t, err, errors.ErrUnsupported)
		require.NoError(t, q.Close())
	}
}
