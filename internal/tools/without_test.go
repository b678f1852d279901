package tools

import (
	"os"
	"testing"
)

// without skips a test that lacks something on this machine, and fails it in a
// strict run, as test/skip of the root module does.
func without(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("SOJOURN_TEST_STRICT") == "1" {
		t.Fatal("missing: " + reason + " (SOJOURN_TEST_STRICT=1 allows no skip)")
	}
	t.Skip("missing: " + reason)
}

// inShort leaves a test out of a short run, as test/skip of the root module does.
func inShort(t *testing.T, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out: " + reason)
	}
}
