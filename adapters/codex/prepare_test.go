package codex

import (
	"io"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

// endless is a home with one rollout of any size, which is nowhere in memory.
type endless struct {
	name string
	size int64
}

func (e endless) Glob(pattern string) ([]string, error) {
	if ok, err := path.Match(pattern, e.name); err != nil || !ok {
		return nil, err
	}
	return []string{e.name}, nil
}

func (e endless) Open(name string) (io.ReadCloser, error) { return e.OpenAt(name, 0) }

func (e endless) OpenAt(_ string, offset int64) (io.ReadCloser, error) {
	return io.NopCloser(io.LimitReader(&repeated{line: strings.Repeat("x", 1023) + "\n"}, e.size-offset)), nil
}

// repeated gives a line again and again.
type repeated struct {
	line string
	at   int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(p[n:], r.line[r.at:])
		n, r.at = n+k, (r.at+k)%len(r.line)
	}
	return n, nil
}

// A rollout of any length is looked at before a start in little memory.
func TestMemoryOfPrepare(t *testing.T) {
	const id = "11111111-2222-5333-8444-555555555555"
	h := endless{name: sessionsDir + "/2026/11/21/rollout-2026-11-21T05-00-00-" + id + rolloutSuffix, size: 300 << 20}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, err := New().Prepare(h, adapters.Launch{NativeID: id})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Equal(t, adapters.Preparation{NativeID: id}, found)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "of all that was allocated")
}
