package mutants

import (
	"regexp"
	"strings"
)

// pattern returns the argument of -test.run that selects these tests and no others.
func pattern(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

// passed reports whether a test passed, by the output of its program.
func passed(said, test string) bool { return has(said, "--- PASS: "+test+" ") }

// asserted matches the output of a failed assertion: testify's trace, or a line of a
// test's file.
var asserted = regexp.MustCompile(`(?m)^\s+(Error Trace:|\w+_test\.go:\d+:)`)

// notAnAssertion returns why a failure is not an assertion's; "" if it is one.
func notAnAssertion(said, test string) string {
	switch {
	case strings.Contains(said, "panic: test timed out"):
		return "the test ran into its timeout"
	case regexp.MustCompile(`(?m)^panic: `).MatchString(said):
		return "the test panicked"
	case !has(said, "--- FAIL: "+test+" "):
		return "the test did not run"
	case !asserted.MatchString(said):
		return "no assertion failed"
	}
	return ""
}

func has(said, prefix string) bool {
	return strings.HasPrefix(said, prefix) || strings.Contains(said, "\n"+prefix)
}
