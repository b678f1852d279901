package e2e

import (
	"database/sql"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "modernc.org/sqlite" // the driver

	"github.com/sojourn-run/sojourn/session"
)

// TestKillCodexWhileItIndexes: Codex makes an index of its sessions when it starts in a home
// with rollouts. If it is killed meanwhile, the index says for 15 minutes that it is being made,
// and Codex doesn't start. The session's next turn must run all the same.
func TestKillCodexWhileItIndexes(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	h := open(t, session.Options{Agent: "codex"})
	require.NoError(t, say(t, h, "SAY remember the first").Err())
	awaitIdle(t, h)
	(&staged{t: t, dir: w.dataDir, h: h}).endAgent(syscall.SIGKILL)

	found, err := filepath.Glob(filepath.Join(w.dataDir, "sandboxes", h.ID()+"-*", "home", ".codex", "state_*.sqlite"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	db, err := sql.Open("sqlite", "file:"+found[0])
	require.NoError(t, err)
	done, err := db.ExecContext(t.Context(), "UPDATE backfill_state SET status = 'running', updated_at = ?", time.Now().Unix())
	require.NoError(t, err)
	rows, err := done.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, rows)
	require.NoError(t, db.Close())

	next := say(t, h, "RECALL")
	require.NoError(t, next.Err())
	require.Contains(t, next.Result.Response, "remember the first")
	require.NoError(t, h.Close(testContext(t)))
}
