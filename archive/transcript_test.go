package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/skip"
)

func noise(seed uint64, n int) []byte {
	rng, b := rand.New(rand.NewPCG(seed, 7)), make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func hexSum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func TestAppendAndRead(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	var whole []byte
	for i := range 60 {
		piece := noise(uint64(i), 1+i*13%97)
		info := mustAppend(t, a, "s1", e, int64(len(whole)), piece)
		whole = append(whole, piece...)
		require.Equal(t, TranscriptInfo{mainFile, int64(len(whole)), hexSum(whole)}, info)
	}
	require.Equal(t, whole, mustRead(t, another(t, a, nil), "s1", "main"))
	infos, err := a.Transcripts(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, []TranscriptInfo{{mainFile, int64(len(whole)), hexSum(whole)}}, infos)
}

func TestAppendIsIdempotent(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	mustAppend(t, a, "s1", e, 0, []byte("one two "))
	keys, err := a.keys(t.Context(), a.root)
	require.NoError(t, err)
	for _, b := range []*Archive{a, another(t, a, nil)} {
		info := mustAppend(t, b, "s1", e, 0, []byte("one two "))
		require.EqualValues(t, 8, info.Size)
		mustAppend(t, b, "s1", e, 4, []byte("two "))
	}
	after, err := a.keys(t.Context(), a.root)
	require.NoError(t, err)
	require.Equal(t, keys, after, "nothing was written again")
	mustAppend(t, a, "s1", e, 4, []byte("two three"))
	require.Equal(t, "one two three", string(mustRead(t, a, "s1", "main")))
}

func TestAppendRefusals(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	mustAppend(t, a, "s1", e, 0, []byte("0123456789"))
	for name, c := range map[string]struct {
		session string
		epoch   uint64
		file    adapters.Transcript
		start   int64
		data    string
		want    error
	}{
		"gap":             {"s1", e, mainFile, 11, "x", ErrGap},
		"other bytes":     {"s1", e, mainFile, 8, "8x", ErrConflict},
		"other and more":  {"s1", e, mainFile, 8, "8xabc", ErrConflict},
		"negative":        {"s1", e, mainFile, -1, "x", ErrInvalid},
		"future epoch":    {"s1", e + 1, mainFile, 10, "x", ErrFenced},
		"epoch 0":         {"s1", 0, mainFile, 10, "x", ErrFenced},
		"unknown session": {"s2", 1, mainFile, 0, "x", ErrFenced},
		"bad session":     {"a/b", 1, mainFile, 0, "x", ErrInvalid},
		"path out":        {"s1", e, adapters.Transcript{ID: "main", Path: "../x", Kind: adapters.Append}, 10, "x", ErrInvalid},
		"absolute path":   {"s1", e, adapters.Transcript{ID: "main", Path: "/etc/x", Kind: adapters.Append}, 10, "x", ErrInvalid},
		"kind":            {"s1", e, adapters.Transcript{ID: "main", Path: "x", Kind: adapters.Snapshot}, 10, "x", ErrInvalid},
		"no id":           {"s1", e, adapters.Transcript{Path: "x", Kind: adapters.Append}, 10, "x", ErrInvalid},
	} {
		for _, b := range []*Archive{a, another(t, a, nil)} {
			_, err := b.AppendTranscript(t.Context(), c.session, c.epoch, c.file, c.start, []byte(c.data))
			require.ErrorIs(t, err, c.want, name)
		}
	}
	require.Equal(t, "0123456789", string(mustRead(t, a, "s1", "main")))
	_, err := a.PutSnapshot(t.Context(), "s1", e, adapters.Transcript{ID: "main", Path: "x", Kind: adapters.Snapshot}, nil)
	require.ErrorIs(t, err, ErrInvalid, "a transcript keeps its kind")
}

// Many small appends leave few objects, and their cost does not grow.
func TestMergeKeepsFewObjects(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	var whole []byte
	for i := range 300 {
		piece := noise(uint64(i), 100)
		mustAppend(t, a, "s1", e, int64(len(whole)), piece)
		whole = append(whole, piece...)
	}
	keys, err := a.keys(t.Context(), a.transcriptKey("s1", "main"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(keys), 1+9, "head and log2(300) segments")
	require.Equal(t, whole, mustRead(t, a, "s1", "main"))
}

// With full segments the head turns pages and its size stays bounded.
func TestPagesKeepTheHeadSmall(t *testing.T) {
	skip.InShort(t, "hundreds of appends; TestMergeKeepsFewObjects has as many")
	t.Parallel()
	a := open(t)
	a.limits.segment, a.limits.page = 64, 4
	e := take(t, a, "s1")
	var whole []byte
	most := 0
	for i := range 200 {
		piece := noise(uint64(i), 1+i*29%150)
		mustAppend(t, a, "s1", e, int64(len(whole)), piece)
		whole = append(whole, piece...)
		head, _, err := a.get(t.Context(), a.transcriptKey("s1", "main")+"head.json")
		require.NoError(t, err)
		most = max(most, len(head))
	}
	require.Less(t, most, 3000)
	b := another(t, a, nil)
	require.Equal(t, whole, mustRead(t, b, "s1", "main"))
	h, err := b.freshHead(t.Context(), "s1", "main")
	require.NoError(t, err)
	require.NotNil(t, h.Page)
	for start := int64(0); start < int64(len(whole)); start += 331 {
		mustAppend(t, b, "s1", e, start, whole[start:min(start+100, int64(len(whole)))])
	}
	_, err = b.AppendTranscript(t.Context(), "s1", e, mainFile, 10, []byte("not this"))
	require.ErrorIs(t, err, ErrConflict)
}

func TestReaderSeesOneMoment(t *testing.T) {
	t.Parallel()
	a := open(t)
	a.limits.segment = 256
	e := take(t, a, "s1")
	whole := noise(1, 900)
	mustAppend(t, a, "s1", e, 0, whole[:300])
	mustAppend(t, a, "s1", e, 300, whole[300:400])
	r, err := another(t, a, nil).ReadTranscript(t.Context(), "s1", "main")
	require.NoError(t, err)
	begin := make([]byte, 10)
	_, err = io.ReadFull(r, begin)
	require.NoError(t, err)
	// The following appends merge away the segments that the reader has yet to read.
	for at := int64(400); at < 900; at += 50 {
		mustAppend(t, a, "s1", e, at, whole[at:at+50])
	}
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, whole[:400], append(begin, rest...))
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	_, err = r.Read(begin)
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

func TestReadFindsDamage(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	mustAppend(t, a, "s1", e, 0, noise(1, 5000))
	mustAppend(t, a, "s1", e, 5000, noise(2, 500))
	h, err := a.freshHead(t.Context(), "s1", "main")
	require.NoError(t, err)
	require.Len(t, h.Segments, 2)
	last := a.transcriptKey("s1", "main") + h.Segments[1].String()

	require.NoError(t, a.put(t.Context(), last, noise(3, 500)))
	good, err := readAll(t, a, "s1", "main")
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, h.Segments[1].String(), "names the segment")
	require.Equal(t, noise(1, 5000), good, "the good part comes")
	mustAppend(t, a, "s1", e, 5500, []byte("more"))
	require.NoError(t, a.remove(t.Context(), last))
	_, err = readAll(t, a, "s1", "main")
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, h.Segments[1].String())

	require.NoError(t, a.put(t.Context(), a.transcriptKey("s1", "main")+"head.json", []byte(`{"id":"main"}`)))
	_, err = a.ReadTranscript(t.Context(), "s1", "main")
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = a.ReadTranscript(t.Context(), "s1", "nobody")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestEmptyTranscript(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	info := mustAppend(t, a, "s1", e, 0, nil)
	require.Equal(t, TranscriptInfo{mainFile, 0, hexSum(nil)}, info)
	require.Empty(t, mustRead(t, a, "s1", "main"))
	mustAppend(t, a, "s1", e, 0, []byte("x"))
	require.Equal(t, "x", string(mustRead(t, another(t, a, nil), "s1", "main")))
}

func TestStrangeTranscriptIDs(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	ids := []string{"main", "a1b2.meta", "a/b", "..", ".hidden", "übel", "with space", "=41", "A", "a", "\xff"}
	for _, id := range ids {
		f := adapters.Transcript{ID: id, Path: "f", Kind: adapters.Append}
		_, err := a.AppendTranscript(t.Context(), "s1", e, f, 0, []byte(id))
		if strings.ToValidUTF8(id, "") != id {
			require.ErrorIs(t, err, ErrInvalid, "it would not survive JSON")
			continue
		}
		require.NoError(t, err, id)
		require.Equal(t, id, string(mustRead(t, a, "s1", id)))
	}
	infos, err := a.Transcripts(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, "main", infos[0].ID)
	require.Len(t, infos, len(ids)-1)
}

func TestTakeEpochConcurrently(t *testing.T) {
	t.Parallel()
	a := open(t)
	const takers, each = 8, 6
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen, failures := map[uint64]int{}, []error{}
	for range takers {
		b := another(t, a, nil)
		wg.Go(func() {
			for range each {
				epoch, err := b.TakeEpoch(t.Context(), "s1")
				mu.Lock()
				seen[epoch]++
				failures = append(failures, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(failures...))
	require.Len(t, seen, takers*each, "all distinct")
	newest, err := a.Epoch(t.Context(), "s1")
	require.NoError(t, err)
	require.EqualValues(t, takers*each, newest, "and none left out")
}

// A lower epoch is refused everywhere, from its next call on.
func TestLowerEpochIsFenced(t *testing.T) {
	t.Parallel()
	a := open(t)
	old := take(t, a, "s1")
	mustAppend(t, a, "s1", old, 0, []byte("old"))
	b := another(t, a, nil)
	now := take(t, b, "s1")
	snap := adapters.Transcript{ID: "db", Path: "db", Kind: adapters.Snapshot}
	for name, call := range map[string]func() error{
		"append": func() error {
			_, err := a.AppendTranscript(t.Context(), "s1", old, mainFile, 3, []byte("x"))
			return err
		},
		"snapshot": func() error { _, err := a.PutSnapshot(t.Context(), "s1", old, snap, []byte("x")); return err },
		"own":      func() error { return a.AppendServerEntries(t.Context(), "s1", old, ServerEntry{Event: notice("x")}) },
		"close":    func() error { return a.MarkClosed(t.Context(), "s1", old, a.now()) },
		"open":     func() error { return a.MarkOpen(t.Context(), "s1", old) },
		"sweep":    func() error { _, err := a.Sweep(t.Context(), "s1", old); return err },
		"restore": func() error {
			for _, err := range a.RestoreFiles(t.Context(), "s1", old) {
				return err
			}
			return nil
		},
	} {
		require.ErrorIs(t, call(), ErrFenced, name)
	}
	mustAppend(t, b, "s1", now, 3, []byte("new"))
	require.Equal(t, "oldnew", string(mustRead(t, a, "s1", "main")))
}

// A writer that was past the epoch check when it lost the session can't commit
// to a transcript that the next one has restored.
func TestRestoreSeals(t *testing.T) {
	t.Parallel()
	a := open(t)
	old := take(t, a, "s1")
	mustAppend(t, a, "s1", old, 0, []byte("old"))
	late := another(t, a, nil)
	err := late.changeTranscript(t.Context(), "s1", old, mainFile, func(h *transcriptHead, _ bool) (bool, error) {
		if h.Size == 3 { // the check has passed; now the session is taken over
			now := take(t, a, "s1")
			for f, err := range a.RestoreFiles(t.Context(), "s1", now) {
				require.NoError(t, err)
				require.EqualValues(t, 3, f.Size)
			}
		}
		return true, late.grow(t.Context(), "s1", old, h, []byte("late"))
	})
	require.ErrorIs(t, err, ErrFenced)
	require.Equal(t, "old", string(mustRead(t, a, "s1", "main")))
	swept, err := a.Sweep(t.Context(), "s1", 2)
	require.NoError(t, err)
	require.Equal(t, 1, swept, "the late writer's segment")
	require.Equal(t, "old", string(mustRead(t, a, "s1", "main")))
}

// A sweep that was held up while another writer took the session deletes nothing of what that
// one has written, nor what is written beside it.
func TestSweepSparesOthers(t *testing.T) {
	t.Parallel()
	a := open(t)
	a.limits.segment, a.limits.page = 64, 2
	mustAppend(t, a, "s1", take(t, a, "s1"), 0, noise(1, 100))
	now := take(t, a, "s1")
	keep, err := a.sealAll(t.Context(), "s1", now)
	require.NoError(t, err)
	sparesWhatWasAppended := func(epoch uint64, at int64) {
		mustAppend(t, another(t, a, nil), "s1", epoch, at, noise(epoch, 1000))
		dead, err := a.unnamed(t.Context(), "s1", now, keep)
		require.NoError(t, err)
		require.Empty(t, dead)
	}
	sparesWhatWasAppended(now, 100)
	sparesWhatWasAppended(take(t, a, "s1"), 1100)
	_, err = a.Sweep(t.Context(), "s1", now)
	require.ErrorIs(t, err, ErrFenced)
	require.Len(t, mustRead(t, a, "s1", "main"), 2100)
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	a := open(t)
	a.limits.segment = 1000
	e := take(t, a, "s1")
	db := adapters.Transcript{ID: "main", Path: "data/opencode.db", Kind: adapters.Snapshot}
	contents := [][]byte{[]byte("A"), []byte("B"), []byte("A"), {}, noise(1, 5000), noise(2, 200_000), noise(1, 5000)}
	for i, data := range contents {
		info, err := a.PutSnapshot(t.Context(), "s1", e, db, data)
		require.NoError(t, err)
		require.Equal(t, TranscriptInfo{db, int64(len(data)), hexSum(data)}, info)
		require.True(t, bytes.Equal(data, mustRead(t, another(t, a, nil), "s1", "main")), i)
		h, err := a.freshHead(t.Context(), "s1", "main")
		require.NoError(t, err)
		keys, err := a.keys(t.Context(), a.transcriptKey("s1", "main"))
		require.NoError(t, err)
		require.Len(t, keys, 1+len(h.Segments), "the old one is gone")
		require.LessOrEqual(t, len(h.Segments), maxPieces)
	}
	before, err := a.freshHead(t.Context(), "s1", "main")
	require.NoError(t, err)
	_, err = another(t, a, nil).PutSnapshot(t.Context(), "s1", e, db, contents[6])
	require.NoError(t, err)
	after, err := a.freshHead(t.Context(), "s1", "main")
	require.NoError(t, err)
	require.Equal(t, before, after, "the same content costs no put")
}

func TestRestoreFiles(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	mustAppend(t, a, "s1", e, 0, []byte("main"))
	for i := range 20 {
		f := adapters.Transcript{ID: fmt.Sprintf("a%02d", i), Path: fmt.Sprintf("projects/p/s/subagents/agent-a%02d.jsonl", i), Kind: adapters.Append}
		_, err := a.AppendTranscript(t.Context(), "s1", e, f, 0, []byte(f.ID))
		require.NoError(t, err)
	}
	require.NoError(t, a.AppendServerEntries(t.Context(), "s1", e, ServerEntry{Event: notice("hello")}))
	got := map[string]string{}
	for f, err := range a.RestoreFiles(t.Context(), "s1", 0) {
		require.NoError(t, err)
		r, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, f.Mode)
		got[f.Path] = string(data)
	}
	require.Len(t, got, 21, "Sojourn's own transcript is not the agent's")
	require.Equal(t, "main", got[mainFile.Path])
	require.Equal(t, "a07", got["projects/p/s/subagents/agent-a07.jsonl"])

	sources, err := a.Sources(t.Context(), "s1")
	require.NoError(t, err)
	require.Len(t, sources, 21)
	for range 2 {
		r, err := sources[0].Open()
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "main", string(data))
	}
}
