package opencode

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/test/replay"
	"github.com/sojourn-run/sojourn/test/skip"
)

// largeParts is how many parts of 16 KiB a large database has: 32 MiB, twice what may
// be in memory of it.
const largeParts = 2048

// homeOfParts returns a home with a large database, also in a table that is
// exported whole.
func homeOfParts(t *testing.T, parts int) adapters.DirHome {
	t.Helper()
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	db := open1(t, home)
	const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) `
	text := strings.Repeat("x", 16<<10)
	do(t, db, numbers+`INSERT INTO part SELECT 'prt_large' || i, (SELECT id FROM message WHERE data->>'role' = 'assistant' LIMIT 1), (SELECT id FROM session LIMIT 1), 5, 5,
		json_object('type', 'text', 'text', ?) FROM n`, parts, text)
	do(t, db, `CREATE TABLE more (text TEXT)`)
	do(t, db, numbers+`INSERT INTO more SELECT ? FROM n`, parts/4, text)
	return home
}

// A database may be of any size: only a piece of it is in memory.
func TestExportIsInPieces(t *testing.T) {
	home := homeOfParts(t, largeParts)
	idle := heap()
	total, largest, most := 0, 0, 0
	_, err := New().Export(home, mainFile, nil, func(piece []byte) error {
		total, largest, most = total+len(piece), max(largest, len(piece)), max(most, heap()-idle)
		require.Equal(t, byte('\n'), piece[len(piece)-1])
		return nil
	})
	require.NoError(t, err)
	t.Logf("%d bytes, pieces up to %d, heap up to %d", total, largest, most)
	require.Greater(t, total, (largeParts+largeParts/4)*(16<<10))
	require.LessOrEqual(t, largest, 2*pieceSize)
	require.LessOrEqual(t, most, 16<<20)
}

// A large database is emitted part by part, whichever way it is read.
func TestLargeDatabaseIsToldInPieces(t *testing.T) {
	home := homeOfParts(t, largeParts)
	exported := filepath.Join(t.TempDir(), "export")
	out, err := os.Create(exported)
	require.NoError(t, err)
	_, err = New().Export(home, mainFile, nil, func(piece []byte) error { _, err := out.Write(piece); return err })
	require.NoError(t, errors.Join(err, out.Close()))
	source := adapters.Source{Transcript: mainFile, Open: func() (io.ReadCloser, error) { return os.Open(exported) }}
	for name, tell := range map[string]func(take func(event.Event, error)){
		"parse": func(take func(event.Event, error)) {
			for ev, err := range New().Parse([]adapters.Source{source}) {
				take(ev, err)
			}
		},
		"follow": func(take func(event.Event, error)) {
			_, err := New().Follow(home, adapters.Launch{}, nil, func(ev event.Event) { take(ev, nil) })
			require.NoError(t, err)
		},
	} {
		idle, most, emitted, at := heap(), 0, 0, 0
		tell(func(ev event.Event, err error) {
			require.NoError(t, err)
			if p, ok := ev.Payload.(event.BlockUpsert); ok && p.Block.Content != nil {
				emitted += len(*p.Block.Content)
			}
			if emitted >= at { // measuring costs a collection
				at, most = at+(8<<20), max(most, heap()-idle)
			}
		})
		t.Logf("%s: %d bytes told, heap up to %d", name, emitted, most)
		require.Greater(t, emitted, largeParts*(16<<10))
		require.LessOrEqual(t, most, 16<<20)
	}
}

// heap returns the memory in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// An export that was cut off has no cursor: the next one starts over, and both
// together make the same database.
func TestExportThatWasCutOff(t *testing.T) {
	home := homeOfParts(t, largeParts/8)
	var lines bytes.Buffer
	stop, pieces := errors.New("stop"), 0
	_, err := New().Export(home, mainFile, nil, func(piece []byte) error {
		if pieces++; pieces > 3 {
			return stop
		}
		_, err := lines.Write(piece)
		return err
	})
	require.ErrorIs(t, err, stop)
	cursor, err := New().Cursor(bytes.NewReader(lines.Bytes()))
	require.NoError(t, err)
	again, _ := export(t, home, cursor)
	require.Contains(t, again[:200], `"reset":true`)
	lines.WriteString(again)

	cursor, err = New().Cursor(bytes.NewReader(lines.Bytes()))
	require.NoError(t, err)
	more, _ := export(t, home, cursor)
	require.NotContains(t, more, `"reset":true`, "it is whole now")
	whole, _ := export(t, home, nil)
	rebuilt, _ := export(t, homeOf(t, lines.String(), killedDir), nil)
	require.True(t, whole == rebuilt, "both make the same database")
}

// If a sync finds more names in the log than it can hold, everything is exported
// again.
func TestExportOfManyChanges(t *testing.T) {
	skip.InShort(t, "it writes a hundred megabytes; TestLargeDatabaseIsToldInPieces has a database that is large")
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	db := open1(t, home)
	first, cursor := export(t, home, nil)
	do(t, db, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO event SELECT 'evt_many' || i, (SELECT aggregate_id FROM event_sequence LIMIT 1), i + 100000, 'message.part.updated.1',
		json_object('partID', 'prt_none' || i) FROM n`, maxNamed/idOverhead)
	some, _ := export(t, home, cursor)
	require.Contains(t, some, `"reset":true`)
	require.NotContains(t, some, `"gone"`)
	whole, _ := export(t, home, nil)
	rebuilt, _ := export(t, homeOf(t, first+some, killedDir), nil)
	require.True(t, whole == rebuilt)
}

// A row that is too long for a copy is an error, not memory.
func TestLongRowOfACopy(t *testing.T) {
	skip.InShort(t, "it writes a hundred megabytes; TestLargeDatabaseIsToldInPieces has a database that is large")
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	do(t, open1(t, home), `UPDATE part SET data = '{"text":"' || hex(zeroblob(?)) || '"}' WHERE rowid = 1`, maxCopiedRow)
	_, err := New().Export(home, mainFile, nil, func([]byte) error { return nil })
	require.ErrorContains(t, err, "too big")
}

// A row that is longer than a line may be is cut like a line, and still emitted.
func TestLongRowIsCut(t *testing.T) {
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	data, err := json.Marshal(map[string]string{"type": "text", "text": strings.Repeat("x", 20<<20)})
	require.NoError(t, err)
	do(t, open1(t, home), `UPDATE part SET data = ? WHERE rowid = (SELECT max(rowid) FROM part)`, string(data))
	longest := 0
	lines, _ := export(t, home, nil)
	for line := range strings.Lines(lines) {
		longest = max(longest, len(line))
	}
	require.Less(t, longest, jsonl.DefaultMaxLine)
	require.Contains(t, lines, "cut: 20971520 bytes, sha256 ")
	there := recorded.Parsed(t, memory("x", lines))
	require.Contains(t, replay.JSON(t, there), "cut: 20971520 bytes, sha256 ")
}

// A repeated full export counts once it is whole: the loss of a host in between
// loses nothing that the archive had before.
func TestUnfinishedExportIsIgnored(t *testing.T) {
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	db := open1(t, home)
	first, cursor := export(t, home, nil)
	do(t, db, `DELETE FROM event WHERE rowid > 5`) // so everything is exported again
	again, _ := export(t, home, cursor)
	require.Contains(t, again, `{"reset":true`)

	before := replay.JSON(t, recorded.Parsed(t, memory("x", first)))
	rows, _ := export(t, homeOf(t, first, killedDir), nil)
	cut := first
	for _, share := range []int{2, 3} { // the second is cut off too
		lines := strings.SplitAfter(again, "\n")
		cut += strings.Join(lines[:len(lines)/share], "")
		require.Equal(t, before, replay.JSON(t, recorded.Parsed(t, memory("x", cut))))
		rebuilt, _ := export(t, homeOf(t, cut, killedDir), nil)
		require.True(t, rows == rebuilt, "the database is what it was before")
	}
	whole, _ := export(t, homeOf(t, again, killedDir), nil)
	rebuilt, _ := export(t, homeOf(t, cut+again, killedDir), nil)
	require.True(t, whole == rebuilt, "the whole one counts")
}
