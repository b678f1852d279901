// Package skip has the reasons why a test of this repository does not run. The message
// of each begins with a prefix of its own, by which test/testreport distinguishes them.
// No test calls testing's Skip itself.
package skip

import (
	"os"
	"strconv"
	"testing"
	"time"
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

// Until is the variable with the moment, in Unix seconds, from which a run begins no more of
// its long tests, so that it ends on a machine of any speed. Unset, there is none.
const Until = "SOJOURN_TEST_UNTIL"

// WhenLate leaves a test out of a run whose time is up.
func WhenLate(t testing.TB) {
	t.Helper()
	until := os.Getenv(Until)
	if until == "" {
		return
	}
	at, err := strconv.ParseInt(until, 10, 64)
	if err != nil {
		t.Fatal(Until + " is " + strconv.Quote(until) + "; want the time in Unix seconds")
	}
	if !time.Now().Before(time.Unix(at, 0)) {
		t.Skip(LeftOut + "the time of this run was up (" + Until + ")")
	}
}

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
