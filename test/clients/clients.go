// Package clients has the clients of a gateway in other languages, for tests.
package clients

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/skip"
)

// Variable names another folder with the client in TypeScript: a mutant's.
const Variable = "SOJOURN_TYPESCRIPT_CLIENT"

// TypeScript returns the folder with the client in TypeScript, built. The test is skipped without it.
func TypeScript(t *testing.T) string {
	t.Helper()
	folder := cmp.Or(os.Getenv(Variable), filepath.Join("..", "..", "clients", "typescript"))
	if _, err := os.Stat(filepath.Join(folder, "example", "lib", "page.js")); err != nil {
		skip.Without(t, "the client in TypeScript: make clients builds it")
	}
	folder, err := filepath.Abs(folder)
	require.NoError(t, err)
	return folder
}
