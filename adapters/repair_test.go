package adapters_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

func TestRepair(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("0123456789"), 0o600))
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	for want, r := range map[string]adapters.Repair{
		"":            {Path: "g"},
		"new":         {Path: "g", Add: []byte("new")},
		"0123":        {Path: "f", From: "f", End: 4},
		"456789":      {Path: "g", From: "f", Begin: 4, End: 10},
		"0123456789+": {Path: "f", From: "f", End: 10, Add: []byte("+")},
	} {
		in, err := r.Open(home)
		require.NoError(t, err)
		got, err := io.ReadAll(in)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		require.Equal(t, want, string(got))
		require.EqualValues(t, len(want), r.Size())
	}
	in, err := adapters.Repair{Path: "g", From: "f", End: 11, Add: []byte("+")}.Open(home)
	require.NoError(t, err)
	_, err = io.ReadAll(in)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a file that has become shorter is not filled up")
	_, err = adapters.Repair{Path: "g", From: "none", End: 1}.Open(home)
	require.ErrorIs(t, err, os.ErrNotExist)
}
