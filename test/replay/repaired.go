package replay

import (
	"io"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

// prepareMemory bounds the memory of Prepare for one home, as workers bound the memory
// of a session.
const prepareMemory = 64 << 20

// PreparesInBoundedMemory has an adapter prepare a home with a file of hundreds of
// megabytes, reads its repairs, and returns the preparation.
func PreparesInBoundedMemory(t testing.TB, a adapters.Adapter, l adapters.Launch, home *Endless) adapters.Preparation {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // a worker's
	runtime.GC()                                     // what earlier tests left
	require.Greater(t, home.Size(), int64(250<<20))
	found, err := a.Prepare(home, l)
	require.NoError(t, err)
	for _, m := range found.Move {
		require.Equal(t, home.Name, m.From)
		home.Name = m.To
	}
	for _, r := range found.Write {
		in, err := r.Open(home)
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, in)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		require.Equal(t, r.Size(), n)
	}
	require.Positive(t, home.Peak)
	require.Less(t, home.Peak, uint64(prepareMemory))
	t.Logf("%d MiB of transcript, at most %d MiB of memory", home.Size()>>20, home.Peak>>20)
	return found
}

// Repaired returns the content of a home's file after a repair.
func Repaired(t testing.TB, home adapters.Home, r adapters.Repair) string {
	t.Helper()
	in, err := r.Open(home)
	require.NoError(t, err)
	defer in.Close()
	data, err := io.ReadAll(in)
	require.NoError(t, err)
	require.EqualValues(t, len(data), r.Size())
	return string(data)
}
