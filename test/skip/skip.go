// Package skip has the reasons why a test of this repository does not
// run. Each begins its message with words of its own, by which
// test/testreport tells them apart; no test calls testing's Skip itself.
package skip

import (
	"os"
	"testing"
)

// Prefixes of the messages, by reason.
const (
	// LeftOut: the run was not asked to do this.
	LeftOut = "left out: "
	// Missing: this machine lacks something that the test needs.
	Missing = "missing: "
	// Inapplicable: there is nothing to test in this combination.
	Inapplicable = "not applicable: "
)

// Strict names the variable that makes a missing part a failure: 1 in CI, where
// every part has to be there.
const Strict = "SOJOURN_TEST_STRICT"

// InShort leaves a test out of a short run (go test -short, as make test does);
// make test-all runs it. The reason says what the short run has in its place.
func InShort(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip(LeftOut + reason)
	}
}

// Unasked skips what runs only when it is asked for by name: a search, a tool
// in the shape of a test. The reason says how to ask.
func Unasked(t testing.TB, reason string) {
	t.Helper()
	t.Skip(LeftOut + reason)
}

// Without skips a test that lacks something on this machine: a program, a
// privilege. The reason says what, and how to get it. With SOJOURN_TEST_STRICT=1
// the test fails.
func Without(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv(Strict) == "1" {
		t.Fatal(Missing + reason + " (" + Strict + "=1 allows no skip)")
	}
	t.Skip(Missing + reason)
}

// NotApplicable skips a test that has nothing to prove here, on any machine: an
// agent without a capability, a test that another one of the same run includes.
func NotApplicable(t testing.TB, reason string) {
	t.Helper()
	t.Skip(Inapplicable + reason)
}
