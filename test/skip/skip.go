// Package skip has the reasons why a test of this repository does not run. The message
// of each begins with a prefix of its own, by which test/testreport distinguishes them.
// No test calls testing's Skip itself.
package skip

import (
	"os"
	"testing"
)

// Prefixes of the messages, by reason.
const (
	// LeftOut: this run does not include the test.
	LeftOut = "left out: "
	// Missing: this machine lacks something that the test needs.
	Missing = "missing: "
	// Inapplicable: there is nothing to test in this combination.
	Inapplicable = "not applicable: "
)

// Strict is the variable that makes a missing part a failure: 1 in CI, where every part
// must be there.
const Strict = "SOJOURN_TEST_STRICT"

// InShort leaves a test out of a short run (go test -short, as in make test); make
// test-all runs it. The reason names what the short run has instead.
func InShort(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip(LeftOut + reason)
	}
}

// Unasked skips what runs only on request: a search, or a tool in the form of a test.
// The reason names the request.
func Unasked(t testing.TB, reason string) {
	t.Helper()
	t.Skip(LeftOut + reason)
}

// Without skips a test that needs something this machine lacks: a program, a privilege.
// The reason names it, and how to get it. With SOJOURN_TEST_STRICT=1 the test fails.
func Without(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv(Strict) == "1" {
		t.Fatal(Missing + reason + " (" + Strict + "=1 allows no skip)")
	}
	t.Skip(Missing + reason)
}

// NotApplicable skips a test that has nothing to test here, on any machine: an agent
// without a capability, or a test that another one of the same run includes.
func NotApplicable(t testing.TB, reason string) {
	t.Helper()
	t.Skip(Inapplicable + reason)
}
