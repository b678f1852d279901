package executable

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWrittenProgramsCanBeExecuted: programs that are written and executed in parallel.
func TestWrittenProgramsCanBeExecuted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for n := range 8 {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			for i := range 25 {
				path := filepath.Join(dir, strconv.Itoa(n)+"-"+strconv.Itoa(i))
				Write(t, path, []byte("#!/bin/sh\nexit 0\n"))
				require.NoError(t, exec.CommandContext(t.Context(), path).Run())
			}
		})
	}
}
