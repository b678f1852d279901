package query

import (
	"bytes"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event/jsonl"
)

// A row may be of any length: the reader gets no more of it than of a line.
func TestLongRowIsCut(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "db")
	db, err := sql.Open("sqlite", "file:"+file)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `CREATE TABLE t (v); INSERT INTO t VALUES ('{"text":"' || hex(zeroblob(20000000)) || '"}')`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	var out bytes.Buffer
	require.NoError(t, Serve(t.Context(), file, strings.NewReader(`{"sql":"SELECT v FROM t"}`), &out))
	require.Less(t, out.Len(), jsonl.DefaultMaxLine)
	require.Contains(t, out.String(), "cut: 40000000 bytes, sha256 ")
}
