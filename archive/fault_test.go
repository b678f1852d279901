package archive

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// script is a life of a session: appends with merges and turned pages, server
// entries, a snapshot that is replaced.
type script struct {
	t     *testing.T
	whole []byte
}

const scriptSteps = 14

func (s script) step(a *Archive, session string, epoch uint64, i int) error {
	var err error
	switch at := i * 40; {
	case i%7 == 3:
		err = a.AppendServerEntries(s.t.Context(), session, epoch, after("1", notice(fmt.Sprint(i))))
	case i%7 == 5:
		_, err = a.PutSnapshot(s.t.Context(), session, epoch, adapters.Transcript{ID: "db", Path: "db", Kind: adapters.Snapshot}, s.whole[:at])
	default:
		_, err = a.AppendTranscript(s.t.Context(), session, epoch, mainFile, s.mainSize(i), s.whole[s.mainSize(i):s.mainSize(i+1)])
	}
	return err
}

// mainSize returns the size of the main transcript before step i.
func (s script) mainSize(i int) (n int64) {
	for j := range i {
		if j%7 != 3 && j%7 != 5 {
			n += int64(20 + j*17%50)
		}
	}
	return n
}

func (s script) check(a *Archive, session string, steps ...int) {
	s.t.Helper()
	got, err := readAll(s.t, a, session, "main")
	if !errors.Is(err, ErrNotFound) {
		require.NoError(s.t, err)
	}
	for _, i := range steps {
		if int64(len(got)) == s.mainSize(i) {
			require.Equal(s.t, string(s.whole[:len(got)]), string(got))
			return
		}
	}
	require.Failf(s.t, "torn", "%d bytes, want those of step %v", len(got), steps)
}

func (s script) finish(a *Archive, session string) {
	s.t.Helper()
	s.check(a, session, scriptSteps)
	own, err := a.ServerEntries(s.t.Context(), session)
	require.NoError(s.t, err)
	require.Len(s.t, own, 2)
	require.Equal(s.t, s.whole[:12*40], mustRead(s.t, a, session, "db"))
	epoch := take(s.t, a, session)
	_, err = a.Sweep(s.t.Context(), session, epoch)
	require.NoError(s.t, err)
	s.check(a, session, scriptSteps)
	require.Equal(s.t, s.whole[:12*40], mustRead(s.t, a, session, "db"))
	keep, err := a.sealAll(s.t.Context(), session, epoch)
	require.NoError(s.t, err)
	keys, err := a.keys(s.t.Context(), a.transcriptsKey(session))
	require.NoError(s.t, err)
	require.Len(s.t, keys, len(keep), "nothing is left behind")
}

// Whichever request fails in whichever way: readers see the state before the step
// or after it, and continuing produces exactly the bytes.
func TestEveryRequestMayFail(t *testing.T) {
	t.Parallel()
	calm := open(t)
	calm.limits.segment, calm.limits.page = 64, 2
	s := script{t, noise(9, 4000)}
	w := &teststack.Wire{}
	a := another(t, calm, w)
	epoch := take(t, a, "calm")
	for i := range scriptSteps {
		require.NoError(t, s.step(a, "calm", epoch, i))
	}
	h, err := calm.freshHead(t.Context(), "calm", "main")
	require.NoError(t, err)
	require.NotNil(t, h.Page, "the script turns pages")
	s.finish(calm, "calm")
	total := w.Count()
	for name, fault := range teststack.Faults() {
		for at := 3; at <= total; at++ {
			t.Run(fmt.Sprintf("%s/%d", name, at), func(t *testing.T) {
				if at%4 > 0 {
					skip.InShort(t, "of the requests, one in four")
				}
				t.Parallel()
				liveThrough(script{t, s.whole}, calm, fault(at))
			})
		}
	}
}

func liveThrough(s script, calm *Archive, cut func(int) (bool, bool)) {
	session := "s-" + hexSum([]byte(s.t.Name()))[:20]
	a := another(s.t, calm, &teststack.Wire{Cut: cut})
	epoch := take(s.t, a, session)
	for i := range scriptSteps {
		err := s.step(a, session, epoch, i)
		if err == nil {
			continue
		}
		s.check(calm, session, i, i+1)
		// The same process tries again; if it died, another continues.
		if s.step(a, session, epoch, i) != nil {
			a = another(s.t, calm, nil)
			require.NoError(s.t, s.step(a, session, epoch, i))
		}
	}
	s.finish(calm, session)
}

func TestEpochAnswersLost(t *testing.T) {
	t.Parallel()
	a := open(t)
	lossy := another(t, a, &teststack.Wire{Cut: func(n int) (bool, bool) { return false, n%3 == 0 }})
	seen := map[uint64]bool{}
	for range 30 {
		for _, b := range []*Archive{lossy, a} {
			epoch, err := b.TakeEpoch(t.Context(), "s1")
			if err != nil {
				continue
			}
			require.False(t, seen[epoch], "epoch %d twice", epoch)
			seen[epoch] = true
		}
	}
	require.Greater(t, len(seen), 30)
}

// L7: an append costs three requests and, occasionally, a merge; the 500th no
// more than the 10th.
func TestAppendRequests(t *testing.T) {
	t.Parallel()
	a := open(t)
	w := &teststack.Wire{}
	b := another(t, a, w)
	epoch := take(t, b, "s1")
	const n = 512
	var at int64
	costs := make([]int, n)
	for i := range n {
		before := w.Count()
		at = mustAppend(t, b, "s1", epoch, at, noise(uint64(i), 64)).Size
		costs[i] = w.Count() - before
	}
	sum := func(costs []int) (total int) {
		for _, c := range costs {
			total += c
		}
		return total
	}
	require.Equal(t, 3, costs[2], "epoch, segment, head")
	require.LessOrEqual(t, float64(sum(costs))/n, 5.1, "a merge reads and deletes one segment per append")
	require.InDelta(t, sum(costs[:256]), sum(costs[256:]), 32, "no growth")

	h, err := a.freshHead(t.Context(), "s1", "main")
	require.NoError(t, err)
	before := w.Count()
	fresh := another(t, a, w)
	mustAppend(t, fresh, "s1", epoch, at, []byte("x"))
	require.Equal(t, 4+len(h.Trash), w.Count()-before, "a new process reads the head and makes sure of the last merge's trash")
}
