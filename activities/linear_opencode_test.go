package activities

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/opencode"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/sandbox"
)

// countedSandbox counts what is read of a sandbox: of files, and of what commands
// print.
type countedSandbox struct {
	sandbox.Sandbox
	read atomic.Int64
}

func (c *countedSandbox) CopyOut(ctx context.Context, sel sandbox.Selection) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		for f, err := range c.Sandbox.CopyOut(ctx, sel) {
			if f.Body != nil {
				f.Body = &counted{f.Body, &c.read}
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

func (c *countedSandbox) Exec(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	p, err := c.Sandbox.Exec(ctx, cmd)
	return countedProcess{p, &c.read}, err
}

type countedProcess struct {
	sandbox.Process
	n *atomic.Int64
}

func (c countedProcess) Stdout() io.ReadCloser {
	out := c.Process.Stdout()
	return struct {
		io.Reader
		io.Closer
	}{&counted{out, c.n}, out}
}

// openCodeTables are those of the agent that conversations are made of.
const openCodeTables = `
PRAGMA journal_mode = wal;
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);
CREATE TABLE event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, type text NOT NULL, data text NOT NULL);
CREATE TABLE session (id text PRIMARY KEY, parent_id text, title text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE todo (session_id text NOT NULL, content text NOT NULL);
INSERT INTO session VALUES ('ses_1', NULL, 'x', 1, 1);
INSERT INTO event_sequence VALUES ('ses_1', 0, NULL);
`

// openCodeTurn writes what the agent writes in a turn.
func openCodeTurn(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	text := strings.Repeat("word ", 500)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	do := func(query string, args ...any) {
		t.Helper()
		_, err := tx.ExecContext(t.Context(), query, args...)
		require.NoError(t, err)
	}
	for i, role := range []string{"user", "assistant"} {
		message, part := fmt.Sprintf("msg_%012x%d", n, i), fmt.Sprintf("prt_%012x%d", n, i)
		seq := 10*n + 5*i
		do("INSERT INTO message VALUES (?, 'ses_1', ?, ?, ?)", message, n, n, fmt.Sprintf(`{"role":%q,"time":{"created":%d}}`, role, n))
		do("INSERT INTO part VALUES (?, ?, 'ses_1', ?, ?, ?)", part, message, n, n, fmt.Sprintf(`{"type":"text","text":%q,"time":{"start":1,"end":2}}`, text))
		do("INSERT INTO event VALUES (?, 'ses_1', ?, 'message.updated.1', ?)", fmt.Sprint("evt_m", seq), seq, fmt.Sprintf(`{"info":{"id":%q,"role":%q}}`, message, role))
		do("INSERT INTO event VALUES (?, 'ses_1', ?, 'message.part.updated.1', ?)", fmt.Sprint("evt_p", seq), seq, fmt.Sprintf(`{"part":{"id":%q,"type":"text","text":%q}}`, part, text))
	}
	do("UPDATE session SET time_updated = ?", n)
	do("UPDATE event_sequence SET seq = ?", 10*n)
	require.NoError(t, tx.Commit())
}

// The agent's database is queried where it is: a turn costs what it changed.
func TestTurnsAreLinearForOpenCode(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	sb, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.NoError(t, err)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	store := &counting{Client: storeOf(serversOf(t))}
	counted := &countedSandbox{Sandbox: sb}
	a := &agent{adapter: opencode.New(), sb: counted, paths: info.Paths, env: info.Env}
	a.launch.SessionID = "s1"
	r := &archiver{agent: a, log: quiet()}
	r.store, err = archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-activities-test", Prefix: "linear", Namespace: strings.ToLower(rand.Text()), Client: store,
	})
	require.NoError(t, err)
	a.epoch, err = r.store.TakeEpoch(t.Context(), "s1")
	require.NoError(t, err)

	file := filepath.Join(info.Paths.Home, ".local/share/opencode/opencode.db")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	db, err := sql.Open("sqlite", file)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), openCodeTables)
	require.NoError(t, err)

	var since json.RawMessage
	at := 0
	// cost is that of the last turns up to one; those before are written at once.
	cost := func(last int) (c costs) {
		for ; at < last-countedTurns; at++ {
			openCodeTurn(t, db, at+1)
		}
		_, err := a.hasWritten(t.Context(), &since, "none")
		require.NoError(t, err)
		_, err = r.sync(t.Context())
		require.NoError(t, err)
		store.asked()
		before := counted.read.Load()
		for ; at < last; at++ {
			openCodeTurn(t, db, at+1)
			found, err := a.hasWritten(t.Context(), &since, fmt.Sprintf("prt_%012x1", at+1))
			require.NoError(t, err)
			require.True(t, found, "turn %d", at+1)
			grown, err := r.sync(t.Context())
			require.NoError(t, err)
			require.Len(t, grown, 1)
		}
		c.requests, c.sent = store.asked()
		c.read = counted.read.Load() - before
		return c
	}
	atMost15PercentMore(t, cost(32), cost(400))

	// What was archived piece by piece is what the database says.
	whole, _, err := opencode.New().Export(newHome(t.Context(), sb), adapters.Transcript{ID: event.Main, Path: ".local/share/opencode/opencode.db", Kind: adapters.Snapshot}, nil)
	require.NoError(t, err)
	lines, err := r.store.ReadTranscript(t.Context(), "s1", "main")
	require.NoError(t, err)
	archived, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, lines.Close())
	require.Equal(t, strings.Count(string(whole), `"table":"part","rowid"`), strings.Count(string(archived), `"table":"part","rowid"`))
}
