package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/replay"
	"github.com/sojourn-run/sojourn/test/skip"
)

// house is a home with a program's own files.
type house struct {
	t   *testing.T
	dir string
}

func newHouse(t *testing.T, globs string) house {
	h := house{t, t.TempDir()}
	h.put(globsFile, []byte(globs+"\n"))
	h.put(recordFile, []byte("{}\n"))
	return h
}

func (h house) put(name string, data []byte) {
	path := filepath.Join(h.dir, filepath.FromSlash(name))
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(h.t, os.WriteFile(path, data, 0o600))
}

func (h house) home() adapters.Home {
	home, err := adapters.OpenHome(h.dir)
	require.NoError(h.t, err)
	return home
}

var files = adapters.Transcript{ID: filesID, Path: globsFile, Kind: adapters.Snapshot}

func source(data []byte) adapters.Source {
	return adapters.Source{Transcript: files, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

func imported(t *testing.T, lines []byte) map[string]string {
	t.Helper()
	got, err := replay.Imported(New(), adapters.Launch{}, source(lines))
	require.NoError(t, err)
	out := map[string]string{}
	for path, data := range got {
		out[path] = string(data)
	}
	return out
}

// However the files change, the exported lines make the same files again, and an
// export costs what has changed.
func TestExportFollowsTheFiles(t *testing.T) {
	skip.InShort(t, "TestConformance exports what it archives")
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	h := newHouse(t, ".db/*")
	want := map[string][]byte{}
	var lines []byte
	var at []byte
	for round := range 60 {
		name := ".db/" + string(rune('a'+random.IntN(3)))
		switch random.IntN(5) {
		case 0:
			delete(want, name)
			_ = os.Remove(filepath.Join(h.dir, filepath.FromSlash(name)))
		default:
			data := bytes.Clone(want[name])
			if size := random.IntN(3 * pieceSize); size > len(data) {
				data = append(data, make([]byte, size-len(data))...)
			} else if random.IntN(2) == 0 {
				data = data[:size]
			}
			if len(data) > 0 {
				data[random.IntN(len(data))] = byte(random.IntN(256))
			}
			want[name] = data
			h.put(name, data)
		}
		more, next, err := exported(h.home(), files, at)
		require.NoError(t, err)
		lines, at = append(lines, more...), next
		got := imported(t, lines)
		require.Equal(t, ".db/*\n", got[globsFile])
		delete(got, globsFile)
		require.Len(t, got, len(want), "round %d", round)
		for name, data := range want {
			require.Equal(t, string(data), got[name], "round %d: %s", round, name)
		}
		again, err := New().Cursor(bytes.NewReader(lines))
		require.NoError(t, err)
		none, _, err := exported(h.home(), files, again)
		require.NoError(t, err)
		require.Empty(t, none, "round %d: a cursor that is read from the lines is where they end", round)
	}
}

// exported returns an export in one piece.
func exported(home adapters.Home, t adapters.Transcript, since json.RawMessage) (lines []byte, next json.RawMessage, err error) {
	next, err = New().Export(home, t, since, func(piece []byte) error {
		lines = append(lines, piece...)
		return nil
	})
	return lines, next, err
}

// A program's files may be of any size: only a piece of them is in memory.
func TestExportIsInPieces(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	h := newHouse(t, "big")
	h.put("big", make([]byte, size))
	total, largest := 0, 0
	_, err := New().Export(h.home(), files, nil, func(piece []byte) error {
		total, largest = total+len(piece), max(largest, len(piece))
		require.Equal(t, byte('\n'), piece[len(piece)-1])
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, total, size)
	require.LessOrEqual(t, largest, 2*linesAtOnce)
	stop := errors.New("stop")
	_, err = New().Export(h.home(), files, nil, func([]byte) error { return stop })
	require.ErrorIs(t, err, stop)
}

func TestExportCostsWhatChanged(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "big")
	data := make([]byte, 100*pieceSize)
	h.put("big", data)
	_, at, err := exported(h.home(), files, nil)
	require.NoError(t, err)
	data[50*pieceSize] = 1
	h.put("big", data)
	lines, _, err := exported(h.home(), files, at)
	require.NoError(t, err)
	require.NotEmpty(t, lines)
	require.Less(t, len(lines), 2*pieceSize)
}

// restless is a home whose file changes at every read.
type restless struct {
	adapters.Home
	n *int
}

func (r restless) Open(name string) (io.ReadCloser, error) {
	if name == globsFile {
		return r.Home.Open(name)
	}
	*r.n++
	return io.NopCloser(strings.NewReader(strings.Repeat("x", *r.n))), nil
}

// Files that keep changing are left for the next time.
func TestExportWaitsForFilesToHoldStill(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "db")
	h.put("db", []byte("x"))
	n := 0
	lines, next, err := exported(restless{h.home(), &n}, files, nil)
	require.NoError(t, err)
	require.Empty(t, lines)
	require.Nil(t, next)
	require.Equal(t, 2*exportTries, n)
}

// The content of an archive is not trusted.
func TestImportBadLines(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"{", `{"path":"../x","data":"eA=="}`, `{"path":"/x","size":0}`, `{"path":"x","at":7,"data":"eA=="}`,
		`{"path":"x","at":65536,"data":"eA=="}`, `{"path":"x","size":5}`, `{"globs":"/etc/*"}`, `{"path":"x","size":-1}`, `{}`,
	} {
		_, err := New().Import([]adapters.Source{source([]byte(`{"globs":"x"}` + "\n" + line + "\n"))}, adapters.Launch{}, t.TempDir())
		require.ErrorContains(t, err, "line 2", line)
	}
	_, err := New().Cursor(strings.NewReader("nonsense\n"))
	require.ErrorContains(t, err, "line 1")
}

func TestTranscriptsOfAHome(t *testing.T) {
	t.Parallel()
	empty, err := adapters.OpenHome(t.TempDir())
	require.NoError(t, err)
	found, err := New().Transcripts(empty, adapters.Launch{})
	require.NoError(t, err)
	require.Empty(t, found)
	found, err = New().Transcripts(newHouse(t, "x").home(), adapters.Launch{})
	require.NoError(t, err)
	require.Equal(t, []string{"main", filesID}, []string{found[0].ID, found[1].ID})
	require.Equal(t, recordFile, New().Place(found[0], adapters.Launch{Workspace: "/elsewhere"}))
}

// An export of several pieces counts once it has its end: files that are one
// database are restored as they were together at one moment.
func TestAnExportThatIsCutOffIsIgnored(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "db*")
	put := func(fill string) {
		for _, name := range []string{"db", "db-wal"} {
			h.put(name, []byte(strings.Repeat(fill, 2*linesAtOnce)))
		}
	}
	put("a")
	lines, at, err := exported(h.home(), files, nil)
	require.NoError(t, err)
	whole := imported(t, lines)
	require.Equal(t, strings.Repeat("a", 2*linesAtOnce), whole["db-wal"])

	put("b")
	pieces, stop := 0, errors.New("the worker was killed")
	_, err = New().Export(h.home(), files, at, func(piece []byte) error {
		if pieces++; pieces > 2 {
			return stop
		}
		lines = append(lines, piece...)
		return nil
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, whole, imported(t, lines), "a part of an export changes nothing")

	at, err = New().Cursor(bytes.NewReader(lines))
	require.NoError(t, err)
	more, _, err := exported(h.home(), files, at)
	require.NoError(t, err)
	again := imported(t, append(lines, more...))
	require.Equal(t, strings.Repeat("b", 2*linesAtOnce), again["db"])
	require.Equal(t, strings.Repeat("b", 2*linesAtOnce), again["db-wal"])
}

// Of the first export that was cut off nothing is restored.
func TestAFirstExportThatIsCutOffIsIgnored(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "db")
	h.put("db", make([]byte, 3*linesAtOnce))
	var lines []byte
	stop := errors.New("the worker was killed")
	_, err := New().Export(h.home(), files, nil, func(piece []byte) error {
		if lines != nil {
			return stop
		}
		lines = bytes.Clone(piece)
		return nil
	})
	require.ErrorIs(t, err, stop)
	require.Empty(t, imported(t, lines))
}
