// Package executable writes programs for tests.
package executable

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Write writes a program that may be executed at once. A process that is started by a
// parallel test while the file is open would inherit it, and until that process is itself
// executed nobody can execute the file ("text file busy").
func Write(t testing.TB, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, content, 0o755))
}
