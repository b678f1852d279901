package workspace

import (
	"bytes"
	cryptorand "crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// tree is a workspace's regular files by path.
type tree map[string]string

func openStore(t testing.TB, a *archive.Archive, session string, epoch uint64) *Store {
	t.Helper()
	w, err := Open(t.Context(), a, session, epoch)
	require.NoError(t, err)
	return w
}

// files stores a tree's contents; those that w has already are reused.
func (tr tree) files(t testing.TB, w *Store) (files []File) {
	t.Helper()
	folders := map[string]bool{}
	for name, content := range tr {
		f, err := w.Put(t.Context(), strings.NewReader(content))
		require.NoError(t, err)
		f.Path, f.Mode = name, 0o644
		files = append(files, f)
		for i, c := range name {
			if c == '/' && !folders[name[:i]] {
				folders[name[:i]] = true
				files = append(files, File{Path: name[:i], Mode: fs.ModeDir | 0o755})
			}
		}
	}
	return files
}

func (tr tree) commit(t testing.TB, w *Store) {
	t.Helper()
	require.NoError(t, w.Commit(t.Context(), tr.files(t, w)))
}

func treeIn(t testing.TB, w *Store) tree {
	t.Helper()
	got := tree{}
	for c, err := range w.Contents(t.Context()) {
		require.NoError(t, err)
		if c.Mode.IsDir() {
			continue
		}
		var data []byte
		if c.Body != nil {
			data, err = io.ReadAll(c.Body)
			require.NoError(t, err)
		}
		require.Len(t, data, int(c.Size))
		require.Equal(t, digestOf(data).String(), c.SHA256)
		got[c.Path] = string(data)
	}
	return got
}

func TestWorkspaceRandomly(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	rnd := rand.New(rand.NewPCG(7, 7))
	epoch := take(t, a, "s1")
	w := openStore(t, a, "s1", epoch)
	now := tree{}
	for round := range 25 {
		for range rnd.IntN(400) {
			name := fmt.Sprintf("d%d/\xff%d/f%d", rnd.IntN(5), rnd.IntN(9), rnd.IntN(60))
			if rnd.IntN(3) == 0 {
				delete(now, name)
			} else {
				now[name] = strings.Repeat(fmt.Sprint(rnd.IntN(1000)), rnd.IntN(900))
			}
		}
		now.commit(t, w)
		if round%5 == 4 {
			epoch = take(t, a, "s1")
			w = openStore(t, a, "s1", epoch)
		}
		require.Equal(t, now, treeIn(t, openStore(t, a, "s1", 0)))
	}
	tree{}.commit(t, w)
	w = openStore(t, a, "s1", take(t, a, "s1"))
	require.True(t, w.Known(), "an emptied workspace is one")
	for o, err := range w.objects.All(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, headName, o.Name, "nothing is left but the head")
	}
}

// A change costs its packs and pages, and the head.
func TestWorkspaceCostsItsChange(t *testing.T) {
	t.Parallel()
	requests := &teststack.Wire{}
	a := archiveIn(t, strings.ToLower(cryptorand.Text()), requests)
	w := openStore(t, a, "s1", take(t, a, "s1"))
	now := tree{}
	for i := range 5000 {
		now[fmt.Sprintf("flat/%05d", i)] = fmt.Sprint("content ", i)
	}
	cost := func() int {
		n := requests.Count()
		now.commit(t, w)
		return requests.Count() - n
	}
	require.LessOrEqual(t, cost(), 3, "the epoch, a pack, the head")
	require.Zero(t, cost())
	now["flat/02500"] = "changed"
	require.LessOrEqual(t, cost(), 3)
	now["copy/of"] = now["flat/00001"]
	require.LessOrEqual(t, cost(), 3)
	head, _, err := w.objects.Get(t.Context(), headName)
	require.NoError(t, err)
	require.Less(t, len(head), 8<<10)
}

// Contents that are changed repeatedly are removed, and so are too many small
// packs.
func TestWorkspaceStaysSmall(t *testing.T) {
	skip.InShort(t, "hundreds of commits; TestWorkspaceRandomly has some")
	t.Parallel()
	a := newArchive(t)
	w := openStore(t, a, "s1", take(t, a, "s1"))
	now := tree{}
	rnd := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.UintN(256))
		}
		return string(b)
	}
	for i := range 300 {
		now["log"] = noise(100_000)
		now[fmt.Sprint("file", i)] = noise(1000)
		now.commit(t, w)
	}
	var objects int
	var size int64
	for o, err := range w.objects.All(t.Context()) {
		require.NoError(t, err)
		objects++
		size += o.Size
	}
	require.Less(t, objects, 2*smallPacks)
	require.Less(t, size, int64(4<<20), "300 kB of files, 30 MB were written")
	require.Equal(t, now, treeIn(t, openStore(t, a, "s1", 0)))
}

// A large file is pieces: what is appended to it is written, not the whole.
func TestWorkspaceLargeFile(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	w := openStore(t, a, "s1", take(t, a, "s1"))
	data := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)
	for i := range len(data) >> 20 {
		data[i<<20] = byte(i)
	}
	now := tree{"large": string(data), "small": "x"}
	now.commit(t, w)
	require.Equal(t, now, treeIn(t, openStore(t, a, "s1", 0)))
	before := len(w.packs)
	now["large"] += "more"
	now.commit(t, w)
	require.LessOrEqual(t, len(w.packs)-before, 1)
	f, got, err := ReadFile(t.Context(), a, "s1", "large")
	require.NoError(t, err)
	require.Equal(t, now["large"], string(got))
	require.Equal(t, digestOf(got).String(), f.SHA256)
}

// A writer that lost the session can't commit, however far it had come, and what
// it deletes or leaves does no harm.
func TestWorkspaceIsFenced(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	old := openStore(t, a, "s1", take(t, a, "s1"))
	tree{"a": "old"}.commit(t, old)
	files := tree{"a": "late", "b": "late"}.files(t, old)
	require.NoError(t, old.Flush(t.Context()))
	now := openStore(t, a, "s1", take(t, a, "s1"))
	require.ErrorIs(t, old.Commit(t.Context(), files), archive.ErrFenced)
	// Past the check of the epoch, the head refuses it.
	require.ErrorIs(t, old.putHead(t.Context(), files, nil), archive.ErrFenced)
	require.NoError(t, old.removeDead(t.Context()))
	tree{"a": "now"}.commit(t, now)
	require.Equal(t, tree{"a": "now"}, treeIn(t, openStore(t, a, "s1", 0)))
	_, err := Open(t.Context(), a, "s1", old.epoch)
	require.ErrorIs(t, err, archive.ErrFenced)
	_, err = SaveFile(t.Context(), a, "s1", old.epoch, "f", 0o644, nil)
	require.ErrorIs(t, err, archive.ErrFenced)
	require.ErrorIs(t, DeleteFile(t.Context(), a, "s1", old.epoch, "a"), archive.ErrFenced)
	files = tree{"a": "late"}.files(t, now)
	take(t, a, "s1")
	require.ErrorIs(t, now.Commit(t.Context(), files), archive.ErrFenced, "its successor has not opened the workspace yet")
}

// Whichever request is lost, the archive has the state before or the one after,
// and the next writer continues.
func TestWorkspaceBearsFaults(t *testing.T) {
	t.Parallel()
	namespace := strings.ToLower(cryptorand.Text())
	a := archiveIn(t, namespace, http.DefaultTransport)
	for name, fault := range teststack.Faults() {
		for at := 1; at <= 6; at++ {
			id := fmt.Sprintf("s-%s-%d", strings.ReplaceAll(name, " ", "-"), at)
			before := tree{"a/b": "one", "c": "two"}
			before.commit(t, openStore(t, a, id, take(t, a, id)))
			after := tree{"a/b": "changed", "d": "new"}
			epoch := take(t, a, id)
			requests := &teststack.Wire{}
			w := openStore(t, archiveIn(t, namespace, requests), id, epoch)
			n := requests.Count()
			requests.Cut = func(i int) (bool, bool) { return fault(at)(i - n) }
			files := after.files(t, w)
			err := w.Commit(t.Context(), files)
			got := treeIn(t, openStore(t, a, id, 0))
			if err == nil {
				require.Equal(t, after, got, id)
			} else {
				require.Contains(t, []tree{before, after}, got, id)
			}
			w = openStore(t, a, id, epoch)
			after.commit(t, w)
			require.Equal(t, after, treeIn(t, openStore(t, a, id, 0)))
		}
	}
}

// Wrong bytes are detected and named, and the other files are read.
func TestWorkspaceCorrupt(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	w := openStore(t, a, "s1", take(t, a, "s1"))
	tree{"a": "first content", "b": "second content"}.commit(t, w)
	f := w.Files()[0]
	pack := packsFolder + f.pieces[0].Pack
	data, _, err := w.objects.Get(t.Context(), pack)
	require.NoError(t, err)
	data[f.pieces[0].At]++
	require.NoError(t, w.objects.Put(t.Context(), pack, data))
	got := map[string]error{}
	for c, err := range openStore(t, a, "s1", 0).Contents(t.Context()) {
		require.NoError(t, err)
		_, got[c.Path] = io.ReadAll(c.Body)
	}
	require.ErrorIs(t, got["a"], archive.ErrCorrupt)
	require.ErrorContains(t, got["a"], `"a"`)
	require.NoError(t, got["b"])
	// So is a pack that is too short.
	reader := openStore(t, a, "s1", 0)
	require.NoError(t, w.objects.Put(t.Context(), pack, data[:3]))
	for c, err := range reader.Contents(t.Context()) {
		require.NoError(t, err)
		_, err = io.ReadAll(c.Body)
		require.ErrorIs(t, err, archive.ErrCorrupt)
	}
	// A manifest that names paths outside, or is torn, is refused.
	bad := openStore(t, a, "s2", take(t, a, "s2"))
	bad.files = nil
	_, err = writePage(t.Context(), bad, []entry{{Path: "../x"}}, func(e entry) entry { return e })
	require.NoError(t, err)
	for _, e := range []entry{{Path: "../x"}, {Path: "/x"}, {Path: "x", Size: 1}, {Path: "x", Size: 1, Pieces: []piece{{Size: 1, Pack: "../../y"}}}} {
		_, err := e.file()
		require.ErrorIs(t, err, archive.ErrInvalid)
	}
	third, err := a.Objects("s3", "workspace")
	require.NoError(t, err)
	require.NoError(t, third.Put(t.Context(), headName, []byte("{torn")))
	_, err = Open(t.Context(), a, "s3", 0)
	require.ErrorIs(t, err, archive.ErrCorrupt)
	require.NoError(t, third.Put(t.Context(), headName, []byte(`{"version":3}`)))
	_, err = Open(t.Context(), a, "s3", 0)
	require.ErrorContains(t, err, "newer version")
	require.NoError(t, third.Put(t.Context(), headName, []byte(`{"version":2,"height":1,"files":1,"pages":[{"f":"a","p":{"h":"`+strings.Repeat("A", 43)+`","k":"1-X","o":0,"n":5}}]}`)))
	_, err = Open(t.Context(), a, "s3", 0)
	require.ErrorIs(t, err, archive.ErrCorrupt, "a page that is missing")
	require.NoError(t, third.Put(t.Context(), headName, []byte(`{"version":2,"height":-1}`)))
	_, err = Open(t.Context(), a, "s3", 0)
	require.ErrorIs(t, err, archive.ErrCorrupt)
}

// A missing pack costs its own files, each by name, and no others.
func TestWorkspacePackMissing(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	w := openStore(t, a, "s1", take(t, a, "s1"))
	tree{"a": "first", "b": "second"}.commit(t, w)
	gone := w.Files()[0].pieces[0].Pack
	tree{"a": "first", "b": "second", "c": "third", "d": "fourth"}.commit(t, w)
	require.NoError(t, w.objects.Remove(t.Context(), packsFolder+gone))
	got := map[string]error{}
	for c, err := range openStore(t, a, "s1", 0).Contents(t.Context()) {
		require.NoError(t, err)
		_, got[c.Path] = io.ReadAll(c.Body)
	}
	for _, path := range []string{"a", "b"} {
		require.ErrorIs(t, got[path], archive.ErrCorrupt)
		require.ErrorContains(t, got[path], "the pack "+gone+" is missing")
		_, _, err := ReadFile(t.Context(), a, "s1", path)
		require.ErrorIs(t, err, archive.ErrCorrupt)
	}
	require.NoError(t, got["c"])
	require.NoError(t, got["d"])
}

func TestWorkspaceFileAsJSON(t *testing.T) {
	t.Parallel()
	f := File{Path: "\xff/a", Mode: fs.ModeSymlink, Link: "\xfe"}
	data, err := json.Marshal(f)
	require.NoError(t, err)
	var back File
	require.NoError(t, json.Unmarshal(data, &back))
	require.True(t, f.equal(back))
}

// slowWire delays the puts of an object, so that another writer comes before them.
type slowWire struct {
	object string
	// before is called once with the first such put still to be sent.
	before func()
}

// RoundTrip implements http.RoundTripper.
func (w *slowWire) RoundTrip(r *http.Request) (*http.Response, error) {
	if before := w.before; before != nil && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, w.object) {
		w.before = nil
		before()
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A put of the head that its writer has given up is refused once another writer of the same
// epoch has opened the workspace, which deletes the packs that the put names.
func TestWorkspaceRefusesALatePut(t *testing.T) {
	t.Parallel()
	namespace := strings.ToLower(cryptorand.Text())
	wire := &slowWire{object: headName}
	a := archiveIn(t, namespace, wire)
	before, after := tree{"a": "one"}, tree{"a": "one", "b": "two"}
	epoch := take(t, a, "s1")
	late := openStore(t, a, "s1", epoch)
	before.commit(t, late)
	var now *Store
	wire.before = func() { now = openStore(t, archiveIn(t, namespace, http.DefaultTransport), "s1", epoch) }
	require.ErrorIs(t, late.Commit(t.Context(), after.files(t, late)), archive.ErrChanged)
	require.Equal(t, before, treeIn(t, openStore(t, a, "s1", 0)))
	after.commit(t, now)
	require.Equal(t, after, treeIn(t, openStore(t, a, "s1", 0)))
}

// A writer that is delayed at any request while it opens the workspace deletes nothing that
// another one has committed meanwhile, with its own epoch or the next one.
func TestWorkspaceOpenedLateDeletesNothing(t *testing.T) {
	t.Parallel()
	namespace := strings.ToLower(cryptorand.Text())
	a := archiveIn(t, namespace, http.DefaultTransport)
	for _, next := range []bool{false, true} {
		for at := 1; at <= 8; at++ {
			id := fmt.Sprintf("s-%v-%d", next, at)
			epoch := take(t, a, id)
			w := openStore(t, a, id, epoch)
			tree{"a": "one"}.commit(t, w)
			tree{"b": "never committed"}.files(t, w)
			require.NoError(t, w.Flush(t.Context()))
			after := tree{"a": "one", "c": "two"}
			requests := &teststack.Wire{}
			late := archiveIn(t, namespace, requests)
			before := requests.Count()
			requests.Cut = func(n int) (bool, bool) {
				if n == before+at {
					if next {
						epoch = take(t, a, id)
					}
					after.commit(t, openStore(t, a, id, epoch))
				}
				return false, false
			}
			_, _ = Open(t.Context(), late, id, epoch) // it may be fenced
			require.Greater(t, requests.Count(), before)
			if requests.Count() < before+at {
				continue
			}
			require.Equal(t, after, treeIn(t, openStore(t, a, id, 0)), id)
		}
	}
}
