package opencode

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/replay"
)

// A file that is not a database of the agent is an error that names the file, and
// makes no events.
func TestParseRefusesOthers(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"the file is empty":        "",
		"neither an OpenCode":      "\xff\xfeS\x00Q\x00",
		"line 1":                   `{"type":"user","uuid":"u","message":{"content":"hi"}}` + "\n",
		"is not a database":        magic + strings.Repeat("x", 5000),
		"neither an OpenCode data": "a text\n",
	} {
		s, errs := recorded.ParseAll(memory("some/file", text))
		require.NotEmpty(t, errs, name)
		require.ErrorContains(t, errs[0], "some/file", name)
		require.ErrorContains(t, errs[0], name)
		require.Empty(t, s.Blocks, name)
	}
	_, errs := recorded.ParseAll(adapters.Source{Transcript: mainFile, Open: func() (io.ReadCloser, error) { return nil, errors.New("gone") }})
	require.ErrorContains(t, errs[0], "gone")
	_, errs = recorded.ParseAll(adapters.Source{Transcript: mainFile, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(iotest.ErrReader(errors.New("torn"))), nil
	}})
	require.ErrorContains(t, errs[0], "torn")
}

// A broken line of an export costs that line.
func TestParseBrokenLines(t *testing.T) {
	t.Parallel()
	whole := replay.ReadFile(t, killedExport)
	want, errs := recorded.ParseAll(memory("x", whole))
	require.Empty(t, errs)
	lines := strings.SplitAfter(whole, "\n")
	broken := strings.Join(lines[:60], "") + "{\"table\":\"part\n" + "\x00\xff\n" + strings.Join(lines[60:], "")
	got, errs := recorded.ParseAll(memory("x", broken))
	require.Len(t, errs, 2)
	require.ErrorContains(t, errs[0], "x: line 61")
	require.ErrorContains(t, errs[1], "x: line 62")
	require.Equal(t, replay.JSON(t, want), replay.JSON(t, got))
	_, errs = recorded.ParseAll(memory("x", whole[:len(whole)-30]))
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "x: line ")
}

// A database that was truncated, or overwritten, returns an error that names it
// and what can still be read; nothing is invented.
func TestParseHalfWritten(t *testing.T) {
	t.Parallel()
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	whole, errs := recorded.ParseAll(databaseIn(home))
	require.Empty(t, errs)
	known := map[string]bool{}
	for _, b := range whole.Blocks {
		known[b.ID] = true
	}
	data := readAll(t, home)
	some := 0
	for _, damaged := range [][]byte{
		data[:len(data)/2], data[:len(data)-4096], data[:4096*3+17],
		append(append([]byte(nil), data[:4096*20]...), make([]byte, len(data)-4096*20)...),
	} {
		s, errs := recorded.ParseAll(memory("half.db", string(damaged)))
		for _, err := range errs {
			require.ErrorContains(t, err, "half.db")
			t.Log(err)
		}
		t.Logf("%d of %d bytes: %d of %d blocks", len(damaged), len(data), len(s.Blocks), len(whole.Blocks))
		if len(errs) == 0 {
			require.Equal(t, replay.JSON(t, whole), replay.JSON(t, s), "what is lost is told")
		}
		for _, b := range s.Blocks {
			require.True(t, known[b.ID], b.ID)
			some++
		}
	}
	require.NotZero(t, some, "what is good is kept")
}

func databaseIn(home adapters.DirHome) adapters.Source {
	return adapters.Source{Transcript: mainFile, Open: func() (io.ReadCloser, error) { return home.Open(database) }}
}

func readAll(t testing.TB, home adapters.DirHome) []byte {
	t.Helper()
	in, err := home.Open(database)
	require.NoError(t, err)
	defer in.Close()
	data, err := io.ReadAll(in)
	require.NoError(t, err)
	return data
}

// A row whose data is not JSON costs that row.
func TestParseBrokenRow(t *testing.T) {
	t.Parallel()
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	do(t, open1(t, home), `UPDATE part SET data = '{"type":' WHERE rowid = (SELECT max(rowid) FROM part WHERE data LIKE '%"text"%')`)
	found, err := New().Transcripts(home, launch())
	require.NoError(t, err)
	require.Len(t, found, 2, "the log belongs to it")
	var sources []adapters.Source
	for _, f := range found {
		sources = append(sources, adapters.Source{Transcript: f, Open: func() (io.ReadCloser, error) { return home.Open(f.Path) }})
	}
	s, errs := recorded.ParseAll(sources...)
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "part prt_")
	require.ErrorContains(t, errs[0], database)
	require.NotEmpty(t, s.Blocks)
}

// Several sessions in one database are refused with their names.
func TestParseManySessions(t *testing.T) {
	t.Parallel()
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	db := open1(t, home)
	do(t, db, `INSERT INTO session (id, project_id, slug, directory, title, version, time_created, time_updated) VALUES ('ses_two', 'global', 's', '/', 't', 'v', 1, 1)`)
	_, errs := recorded.ParseAll(databaseIn(home))
	require.Empty(t, errs, "one that never said anything does not count")
	do(t, db, `INSERT INTO message VALUES ('msg_two', 'ses_two', 1, 1, '{"role":"user"}')`)
	do(t, db, `PRAGMA wal_checkpoint(TRUNCATE)`)
	s, errs := recorded.ParseAll(databaseIn(home))
	require.Len(t, errs, 1)
	require.ErrorIs(t, errs[0], adapters.ErrManySessions)
	require.ErrorContains(t, errs[0], "ses_two")
	require.Empty(t, s.Blocks)
}

// A caller may stop a parse at any time.
func TestParseStopsWhenAsked(t *testing.T) {
	t.Parallel()
	all := recorded.ParsedEvents(t, memory("x", replay.ReadFile(t, killedExport)))
	for stop := range len(all) {
		n := 0
		for range New().Parse([]adapters.Source{memory("x", replay.ReadFile(t, killedExport))}) {
			if n++; n > stop {
				break
			}
		}
		require.Equal(t, stop+1, n)
	}
}

// A database file is recognised by its name, with the log beside it; every other
// file is taken as one of lines.
func TestIdentify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"opencode.db", "opencode.db-wal", "opencode.db-shm", "export.jsonl"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	for file, want := range map[string][]string{
		"opencode.db": {event.Main, walID}, "opencode.db-wal": {event.Main, walID}, "export.jsonl": {event.Main},
	} {
		found, err := adapters.SourcesFrom(New(), filepath.Join(dir, file))
		require.NoError(t, err)
		var ids []string
		for _, s := range found {
			ids = append(ids, s.ID)
		}
		require.Equal(t, want, ids, file)
	}
	require.Equal(t, database, New().Place(mainFile, launch()))
}
