package opencode

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// killed is a session with a subagent whose server was killed while the subagent
// ran a command, and which continued after that: the stream, and the database,
// exported.
const (
	killedRecords = "testdata/killed.records.jsonl"
	killedExport  = "testdata/killed.export.jsonl"
	killedDir     = "/srv/box/work"
)

var mainFile = adapters.Transcript{ID: event.Main, Path: database, Kind: adapters.Snapshot}

// homeOf returns a home with the session in it.
func homeOf(t testing.TB, lines, workspace string) adapters.DirHome {
	t.Helper()
	l := launch()
	l.Workspace = workspace
	files, err := New().Import([]adapters.Source{{Transcript: mainFile, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(lines)), nil
	}}}, l, t.TempDir())
	require.NoError(t, err)
	require.Len(t, files, 1)
	dir := t.TempDir()
	path := filepath.Join(dir, filepath.FromSlash(database))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.Rename(files[database], path))
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	return home
}

func open1(t testing.TB, home adapters.DirHome) *sql.DB {
	t.Helper()
	in, err := home.Open(database)
	require.NoError(t, err)
	name := in.(*os.File).Name()
	require.NoError(t, in.Close())
	db, err := sql.Open("sqlite", "file:"+name+"?_pragma=journal_mode(wal)&_pragma=wal_autocheckpoint(0)")
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func do(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

func export(t testing.TB, home adapters.Home, since json.RawMessage) (string, json.RawMessage) {
	t.Helper()
	var lines []byte
	next, err := New().Export(home, mainFile, since, func(piece []byte) error {
		lines = append(lines, piece...)
		return nil
	})
	require.NoError(t, err)
	return string(lines), next
}

// The agent opens a restored database while the archive reads it. Its first statement
// does not wait for a lock (its busy_timeout is set after it), and must not fail.
func TestAgentStartsWhileItsRestoredDatabaseIsRead(t *testing.T) {
	t.Parallel()
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	in, err := home.Open(database)
	require.NoError(t, err)
	name := in.(*os.File).Name()
	require.NoError(t, in.Close())

	reader, err := sql.Open("sqlite", "file:"+name+"?mode=ro")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	rows, err := reader.QueryContext(t.Context(), "SELECT data FROM part")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rows.Close()) })
	require.True(t, rows.Next(), "%v", rows.Err())

	agent, err := sql.Open("sqlite", "file:"+name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	agent.SetMaxOpenConns(1)
	do(t, agent, "PRAGMA journal_mode = WAL")
	do(t, agent, "UPDATE part SET data = data || ' '")
}

// live is a home whose databases can be read in place, and counts that.
type live struct {
	adapters.DirHome
	opened int
}

func (l *live) OpenDatabase(string) (adapters.Database, error) {
	l.opened++
	return nil, errors.ErrUnsupported
}

// A database that its agent is just creating is copied, which takes no lock.
func TestDatabaseWithoutALogIsNotReadInItsPlace(t *testing.T) {
	t.Parallel()
	lines := replay.ReadFile(t, killedExport)
	home := &live{DirHome: homeOf(t, lines, killedDir)}
	exported, _ := export(t, home, nil)
	require.Equal(t, lines, exported)
	require.Equal(t, 1, home.opened)

	in, err := home.Open(database)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", "file:"+in.(*os.File).Name())
	require.NoError(t, errors.Join(err, in.Close()))
	do(t, db, "PRAGMA journal_mode = DELETE")
	require.NoError(t, db.Close())
	exported, _ = export(t, home, nil)
	require.Equal(t, lines, exported)
	require.Equal(t, 1, home.opened)
}

// An imported export has the same rows, in the same order.
func TestExportRoundTrip(t *testing.T) {
	t.Parallel()
	lines := replay.ReadFile(t, killedExport)
	again, _ := export(t, homeOf(t, lines, killedDir), nil)
	require.Equal(t, lines, again)
	for _, r := range runs(t) {
		if dir := r.file.Path("transcripts"); replay.Exists(dir) {
			home, err := adapters.OpenHome(dir)
			require.NoError(t, err)
			first, _ := export(t, home, nil)
			second, _ := export(t, homeOf(t, first, ""), nil)
			require.Equal(t, first, second, r.Name)
		}
	}
}

// The parts of a session, its subagents' included, are the same in the database,
// in its export, and in the stream.
func TestParityKilled(t *testing.T) {
	t.Parallel()
	lines := replay.ReadFile(t, killedExport)
	live := recorded.Live(t, replay.ReadRecords(t, killedRecords))
	home := homeOf(t, lines, killedDir)
	found, err := New().Transcripts(home, launch())
	require.NoError(t, err)
	require.Len(t, found, 1)
	for name, sources := range map[string][]adapters.Source{
		"export": {memory("export.jsonl", lines)},
		"file":   {{Transcript: found[0], Open: func() (io.ReadCloser, error) { return home.Open(database) }}},
	} {
		replay.Same(t, live, recorded.Parsed(t, sources...), parity.Rules{}, name)
	}
	require.Len(t, live.Subagents, 1)
	t.Logf("%d blocks, %d subagents, 0 differences", replay.CountBlocks(live), len(live.Subagents))
}

// A sync writes what has changed, nothing where nothing has, and all syncs
// together make the same database.
func TestExportChanges(t *testing.T) {
	t.Parallel()
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	db := open1(t, home)
	all, cursor := export(t, home, nil)
	none, cursor := export(t, home, cursor)
	require.Empty(t, none)

	do(t, db, `INSERT INTO part VALUES ('prt_new', (SELECT id FROM message LIMIT 1), (SELECT id FROM session LIMIT 1), 5, 5, '{"type":"text","text":"x"}')`)
	logChange(t, db, "message.part.updated.1", `{"part":{"id":"prt_new"}}`)
	some, cursor := export(t, home, cursor)
	require.Equal(t, []string{"event", "event_sequence", "part"}, tablesOf(t, some))
	require.Less(t, strings.Count(some, "\n"), 8, some)

	do(t, db, `UPDATE part SET data = '{"type":"text","text":"more"}' WHERE id = 'prt_new'`)
	do(t, db, `INSERT INTO todo VALUES ((SELECT id FROM session LIMIT 1), 'buy', 'open', 'high', 0, 1, 1)`)
	logChange(t, db, "message.part.updated.1", `{"part":{"id":"prt_new"}}`)
	more, cursor := export(t, home, cursor)
	require.Contains(t, more, "more")
	require.Contains(t, more, "buy")

	do(t, db, `DELETE FROM part WHERE id = 'prt_new'`)
	do(t, db, `DELETE FROM todo`)
	logChange(t, db, "message.part.removed.1", `{"partID":"prt_new"}`)
	gone, _ := export(t, home, cursor)
	require.Contains(t, gone, `"gone":"prt_new"`)

	whole, _ := export(t, home, nil)
	rebuilt, _ := export(t, homeOf(t, all+some+more+gone, killedDir), nil)
	require.Equal(t, whole, rebuilt)
}

func logChange(t testing.TB, db *sql.DB, kind, data string) {
	t.Helper()
	do(t, db, `UPDATE event_sequence SET seq = seq + 1 WHERE rowid = (SELECT min(rowid) FROM event_sequence)`)
	do(t, db, `INSERT INTO event SELECT 'evt_' || (SELECT max(rowid) + 1 FROM event), aggregate_id, seq, ?, ? FROM event_sequence LIMIT 1`, kind, data)
}

// tablesOf returns the tables whose rows an export has.
func tablesOf(t testing.TB, lines string) []string {
	t.Helper()
	var out []string
	for l := range strings.Lines(lines) {
		var r rowLine
		require.NoError(t, json.Unmarshal([]byte(l), &r))
		if !slices.Contains(out, r.Table) {
			out = append(out, r.Table)
		}
	}
	slices.Sort(out)
	return out
}

// A host that has only the lines continues behind them.
func TestCursorOfLines(t *testing.T) {
	t.Parallel()
	lines := replay.ReadFile(t, killedExport)
	home := homeOf(t, lines, killedDir)
	_, known := export(t, home, nil)
	found, err := New().Cursor(strings.NewReader(lines))
	require.NoError(t, err)
	var a, b cursor
	require.NoError(t, json.Unmarshal(known, &a))
	require.NoError(t, json.Unmarshal(found, &b))
	a.Print = ""
	require.Equal(t, a.Log, b.Log)
	require.Equal(t, a.Schema, b.Schema)
	require.Equal(t, a.Sums, b.Sums)
	next, _ := export(t, home, found)
	require.Empty(t, next)
	_, err = New().Cursor(strings.NewReader("{\n"))
	require.ErrorContains(t, err, "line 1")
}

// A database that is not the cursor's is exported from the start.
func TestExportAnew(t *testing.T) {
	t.Parallel()
	lines := replay.ReadFile(t, killedExport)
	home := homeOf(t, lines, killedDir)
	db := open1(t, home)
	_, cursor := export(t, home, nil)
	do(t, db, `DELETE FROM event WHERE rowid > 5`)
	shorter, cursor := export(t, home, cursor)
	require.True(t, strings.HasPrefix(shorter, `{"reset":true,"export":"begun"}`), "%.200s", shorter)
	do(t, db, `CREATE TABLE more (id TEXT PRIMARY KEY, x REAL, y BLOB)`)
	do(t, db, `INSERT INTO more VALUES ('a', 1.0, x'00ff'), ('b', NULL, 'text')`)
	changed, _ := export(t, home, cursor)
	require.Contains(t, changed, `"reset":true`)
	require.Contains(t, changed, `{"id":"a","x":1.0,"y":{"$base64":"AP8="}}`)
	whole, _ := export(t, home, nil)
	rebuilt, _ := export(t, homeOf(t, lines+shorter+changed, killedDir), nil)
	require.Equal(t, whole, rebuilt)
}

// Keys and accounts are not exported.
func TestExportKeepsSecrets(t *testing.T) {
	t.Parallel()
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	do(t, open1(t, home), `INSERT INTO credential VALUES ('c', 'i', 'l', 'sk-secret', NULL, NULL, 1, 1, 1)`)
	lines, _ := export(t, home, nil)
	require.NotContains(t, lines, "sk-secret")
}

// Imported for another workspace the session has that folder; nothing else
// changes.
func TestImportMoves(t *testing.T) {
	t.Parallel()
	home := homeOf(t, replay.ReadFile(t, killedExport), "/mnt/other")
	rows, err := open1(t, home).QueryContext(context.Background(), "SELECT directory, path FROM session")
	require.NoError(t, err)
	defer rows.Close()
	n := 0
	for rows.Next() {
		var dir, path string
		require.NoError(t, rows.Scan(&dir, &path))
		require.Equal(t, "/mnt/other", dir)
		require.Equal(t, "mnt/other", path)
		n++
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 2, n)
	there := recorded.Parsed(t, adapters.Source{Transcript: mainFile, Open: func() (io.ReadCloser, error) { return home.Open(database) }})
	here := recorded.Parsed(t, memory("x", replay.ReadFile(t, killedExport)))
	require.Equal(t, replay.JSON(t, here), replay.JSON(t, there))
}

// Lines that are not an export are refused with their number, and build nothing.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]string{
		"no JSON":    "{\n",
		"no row":     `{"type":"user"}` + "\n",
		"other SQL":  `{"table":"x","kind":"table","schema":"ATTACH 'y' AS z"}` + "\n",
		"no table":   `{"table":"x","rowid":1,"row":{"a":1}}` + "\n",
		"bad column": `{"table":"x","kind":"table","schema":"CREATE TABLE x (a)"}` + "\n" + `{"table":"x","rowid":1,"row":{"a":[1]}}` + "\n",
	} {
		_, err := New().Import([]adapters.Source{memory("x.jsonl", lines)}, launch(), t.TempDir())
		require.ErrorContains(t, err, "x.jsonl: line ", name)
	}
}

// A copy taken while the database is written to is a state that the database was
// in.
func TestSnapshotWhileWriting(t *testing.T) {
	t.Parallel()
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	db := open1(t, home)
	do(t, db, `CREATE TABLE pair (a INTEGER, b INTEGER, pad TEXT)`)
	do(t, db, `INSERT INTO pair VALUES (0, 0, '')`)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			_, err := db.ExecContext(context.Background(), `UPDATE pair SET a = ?, b = ?, pad = ?`, n, n, strings.Repeat("x", n%9000))
			if err == nil && n%20 == 0 {
				_, err = db.ExecContext(context.Background(), `PRAGMA wal_checkpoint(RESTART)`)
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	file := func(name string) opener { return func() (io.ReadCloser, error) { return home.Open(name) } }
	for range 50 {
		s, err := copyDatabase(file(database), file(database+walSuffix))
		if err != nil {
			require.ErrorContains(t, err, "began anew")
			continue
		}
		var a, b int
		require.NoError(t, s.db.QueryRowContext(t.Context(), "SELECT a, b FROM pair").Scan(&a, &b))
		require.Equal(t, a, b)
		var ok string
		require.NoError(t, s.db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&ok))
		require.Equal(t, "ok", ok)
		require.NoError(t, s.close())
	}
	close(stop)
	require.NoError(t, <-done)
}

// BenchmarkExport is a sync in which one part has changed.
func BenchmarkExport(b *testing.B) {
	home := homeOf(b, replay.ReadFile(b, killedExport), killedDir)
	db := open1(b, home)
	_, cursor := export(b, home, nil)
	for n := range b.N {
		do(b, db, `UPDATE part SET data = ? WHERE rowid = 1`, fmt.Sprintf(`{"type":"text","text":"%d"}`, n))
		logChange(b, db, "message.part.updated.1", `{"part":{"id":"x"}}`)
		var lines string
		lines, cursor = export(b, home, cursor)
		if !bytes.Contains([]byte(lines), []byte("event")) {
			b.Fatal("nothing was exported")
		}
	}
}

// A native session that was made by a clock that is behind is exported with what its log
// says of it: without it, its conversation would be a root of its own.
func TestExportOfASessionFromThePast(t *testing.T) {
	t.Parallel()
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	_, since := export(t, home, nil)
	db := open1(t, home)
	copyRow(t, db, "session", "parent_id IS NOT NULL", map[string]any{"id": "ses_past", "time_created": 1, "time_updated": 1})
	copyRow(t, db, "event", "1", map[string]any{"id": "evt_past", "aggregate_id": "ses_past", "seq": 0})
	lines, next := export(t, home, since)
	require.Equal(t, 1, strings.Count(lines, `"row":{"id":"ses_past"`), lines)
	do(t, db, "UPDATE session SET time_updated = time_updated + 1 WHERE id != 'ses_past'")
	copyRow(t, db, "event", "aggregate_id != 'ses_past'", map[string]any{"id": "evt_next", "seq": 100000})
	lines, _ = export(t, home, next)
	require.NotContains(t, lines, "ses_past")
	require.Equal(t, 1, strings.Count(lines, `{"table":"session",`), "a changed one is written once: %s", lines)
}

// copyRow adds a copy of a table's first row that matches, with other values in some columns.
func copyRow(t *testing.T, db *sql.DB, table, where string, changes map[string]any) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+table+" WHERE "+where+" LIMIT 1")
	require.NoError(t, err)
	columns, err := rows.Columns()
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	var args []any
	values := slices.Clone(columns)
	for i, c := range columns {
		if v, ok := changes[c]; ok {
			values[i], args = "?", append(args, v)
		}
	}
	do(t, db, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s LIMIT 1", table, strings.Join(columns, ", "), strings.Join(values, ", "), table, where), args...)
}

// A database that is read in place, in which nothing has changed, has nothing to write, also
// by a cursor that was made of lines. A row that changes within the millisecond of the last
// change is written.
func TestExportOfNothingNew(t *testing.T) {
	t.Parallel()
	for name, since := range map[string]func(json.RawMessage, string) (json.RawMessage, error){
		"its own cursor": func(own json.RawMessage, _ string) (json.RawMessage, error) { return own, nil },
		"a cursor of the lines": func(_ json.RawMessage, lines string) (json.RawMessage, error) {
			return New().Cursor(strings.NewReader(lines))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
			db := open1(t, home)
			all, own := export(t, home, nil)
			do(t, db, "UPDATE session SET time_updated = (SELECT max(time_updated) FROM session)")
			changed, own := export(t, home, own)
			require.NotEmpty(t, changed)
			at, err := since(own, all+changed)
			require.NoError(t, err)
			var c cursor
			require.NoError(t, json.Unmarshal(at, &c))
			c.Print = "" // a database that is read in place has none
			at, err = json.Marshal(c)
			require.NoError(t, err)
			none, at := export(t, home, at)
			require.Empty(t, none)
			do(t, db, "UPDATE session SET title = 'another' WHERE parent_id IS NULL")
			one, _ := export(t, home, at)
			require.Equal(t, 1, strings.Count(one, "\n"), one)
			require.Contains(t, one, `"title":"another"`)
		})
	}
}
