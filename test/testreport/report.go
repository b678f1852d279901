package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/test/skip"
)

// entry is one line of go test -json; see go doc test2json. Elapsed is in seconds; for
// a parallel test it is the time for which it ran.
type entry struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// slow is the duration from which a test is reported when it ends, so that a long
// package shows progress.
const slow = 10.0

// slowest is the number of tests that the summary lists as the slowest.
const slowest = 10

// test is one test of a package, or a package itself (name "").
type test struct {
	pkg, name string
	seconds   float64
	output    []string
	// ended is false for a test that a panic, an exit or the time limit ended; paused
	// is true for one that was waiting to run.
	ended, paused bool
}

func (t *test) String() string { return strings.TrimSpace(shortened(t.pkg) + " " + t.name) }

// skipped is a reason and the tests with it.
type skipped struct {
	reason string
	tests  []string
}

// report accumulates the results of the tests.
type report struct {
	out io.Writer
	// open has the running tests, by package and name.
	open             map[[2]string]*test
	packages, passed int
	// unstarted counts the parallel tests of packages that ended before they ran.
	unstarted int
	failed    []*test
	slow      []test
	// leftOut, missing and inapplicable are the skipped tests by kind of reason.
	leftOut, missing, inapplicable []skipped
}

func newReport(out io.Writer) *report { return &report{out: out, open: map[[2]string]*test{}} }

// line reads a line of the input.
func (r *report) line(line string) {
	var e entry
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprint(r.out, line)
		return
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		t := r.of(e)
		t.output = append(t.output, e.Output)
	case "run", "start", "cont":
		r.of(e).paused = false
	case "pause":
		r.of(e).paused = true
	case "pass", "fail", "skip":
		r.end(e)
	}
}

// of returns the test of an entry.
func (r *report) of(e entry) *test {
	key := [2]string{e.Package, e.Test}
	if r.open[key] == nil {
		r.open[key] = &test{pkg: e.Package, name: e.Test}
	}
	return r.open[key]
}

func (r *report) end(e entry) {
	t := r.of(e)
	delete(r.open, [2]string{e.Package, e.Test})
	t.seconds, t.ended = e.Elapsed, true
	if e.Action == "fail" {
		fmt.Fprint(r.out, readable(strings.Join(t.output, "")))
	}
	if t.name == "" {
		r.endPackage(t, e.Action)
		return
	}
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed = append(r.failed, t)
	case "skip":
		r.skip(t)
	}
	if !strings.Contains(t.name, "/") {
		r.slow = append(r.slow, test{pkg: t.pkg, name: t.name, seconds: t.seconds})
		if t.seconds >= slow {
			fmt.Fprintf(r.out, "      %7.1f s  %s\n", t.seconds, t)
		}
	}
}

// endPackage reports a package. Its tests that are still running were ended by a panic,
// an exit or the time limit.
func (r *report) endPackage(t *test, action string) {
	for key, left := range r.open {
		if key[0] != t.pkg {
			continue
		}
		delete(r.open, key)
		if left.paused {
			r.unstarted++
		} else if action == "fail" {
			fmt.Fprint(r.out, readable(strings.Join(left.output, "")))
			r.failed = append(r.failed, left)
		}
	}
	switch action {
	case "skip": // no test files
		return
	case "fail":
		// Its failed tests are listed already. A package without any does not build, or
		// failed before its tests.
		if !slices.ContainsFunc(r.failed, func(f *test) bool { return f.pkg == t.pkg }) {
			r.failed = append(r.failed, t)
		}
	}
	r.packages++
	fmt.Fprintf(r.out, "%-4s  %7.1f s  %s\n", action, t.seconds, shortened(t.pkg))
}

// message matches the reason in the output of a skipped test.
var message = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)

// readable returns the output of a test without irrelevant goroutine stacks: those of
// libraries, and of tests that wait to run.
func readable(output string) string {
	blocks := strings.Split(output, "\n\n")
	blocks = slices.DeleteFunc(blocks, func(b string) bool {
		return strings.HasPrefix(b, "goroutine ") && (!strings.Contains(b, "\n"+module) || strings.Contains(b, "testing.(*T).Parallel("))
	})
	return strings.Join(blocks, "\n\n")
}

func (r *report) skip(t *test) {
	reason := "no reason given"
	for _, line := range t.output {
		if m := message.FindStringSubmatch(line); m != nil {
			reason = strings.TrimSpace(m[1])
		}
	}
	if rest, ok := strings.CutPrefix(reason, skip.LeftOut); ok {
		r.leftOut = noted(r.leftOut, rest, t)
	} else if rest, ok := strings.CutPrefix(reason, skip.Inapplicable); ok {
		r.inapplicable = noted(r.inapplicable, rest, t)
	} else {
		r.missing = noted(r.missing, strings.TrimPrefix(reason, skip.Missing), t)
	}
}

// noted adds a test to those with its reason.
func noted(all []skipped, reason string, t *test) []skipped {
	at := slices.IndexFunc(all, func(s skipped) bool { return s.reason == reason })
	if at < 0 {
		return append(all, skipped{reason, []string{t.String()}})
	}
	all[at].tests = append(all[at].tests, t.String())
	return all
}

func (r *report) summary(took time.Duration) {
	slices.SortStableFunc(r.slow, func(a, b test) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintf(r.out, "\nslowest:\n")
	for _, t := range r.slow[:min(slowest, len(r.slow))] {
		fmt.Fprintf(r.out, "  %7.1f s  %s\n", t.seconds, t.String())
	}
	r.list("left out of this run", r.leftOut)
	r.list("not applicable", r.inapplicable)
	r.list("skipped, for something is missing", r.missing)
	if len(r.failed) > 0 {
		fmt.Fprintf(r.out, "\nfailed:\n")
		for _, t := range r.failed {
			how := ""
			if !t.ended {
				how = " (did not end)"
			}
			fmt.Fprintf(r.out, "  %s%s\n", t, how)
			for _, line := range why(t.output) {
				fmt.Fprintf(r.out, "    %s\n", line)
			}
		}
	}
	if r.unstarted > 0 {
		fmt.Fprintf(r.out, "\n%d tests more were not started, for their package was cut off\n", r.unstarted)
	}
	fmt.Fprintf(r.out, "\n%d packages in %s: %d tests passed, %d failed, %d skipped, %d not applicable, %d left out\n", r.packages,
		took.Round(time.Second), r.passed, len(r.failed), count(r.missing), count(r.inapplicable), count(r.leftOut))
}

// whyLines is how many lines of a failure the summary repeats, and whyLength how many
// bytes of a line: enough to know what failed where only the summary is kept.
const whyLines, whyLength = 12, 300

// begins matches the first line of each thing that a test logs or that ends it.
var begins = regexp.MustCompile(`(?m)^(?:(?:    )+\S+\.go:\d+: |(?:panic|fatal error): |WARNING: DATA RACE|=== | *--- )`)

// failure matches a failed assertion of testify, or what ended the test.
var failure = regexp.MustCompile(`Error Trace:|^(?:panic|fatal error): |^WARNING: DATA RACE`)

// why returns the lines of a test's output that say why it failed: the first that match
// failure, or else the first that it logged.
func why(output []string) []string {
	text := strings.Join(output, "")
	said := ""
	starts := append(begins.FindAllStringIndex(text, -1), []int{len(text)})
	for i, start := range starts[:len(starts)-1] {
		part := text[start[0]:starts[i+1][0]]
		if failure.MatchString(part) {
			said = part
			break
		}
		if said == "" && strings.HasPrefix(part, " ") && !strings.HasPrefix(strings.TrimSpace(part), "--- ") {
			said = part
		}
	}
	var lines []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" && len(lines) < whyLines {
			lines = append(lines, brief.Truncate(line, whyLength))
		}
	}
	return lines
}

func count(all []skipped) (n int) {
	for _, s := range all {
		n += len(s.tests)
	}
	return n
}

// list prints skipped tests, a reason each line: with the test's name, or their number.
func (r *report) list(title string, all []skipped) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(r.out, "\n%s:\n", title)
	for _, s := range all {
		who := s.tests[0]
		if n := len(s.tests); n > 1 {
			who = fmt.Sprintf("%s and %d more", who, n-1)
		}
		fmt.Fprintf(r.out, "  %s: %s\n", who, s.reason)
	}
}

// verdict returns an error unless the run is a success.
func (r *report) verdict(strict bool) error {
	switch missing := count(r.missing); {
	case len(r.failed) > 0:
		return fmt.Errorf("%d failed", len(r.failed))
	case r.packages == 0:
		return errors.New("no package was tested")
	case len(r.open) > 0:
		return errors.New("the output ends in the middle of a run")
	case strict && missing > 0:
		return fmt.Errorf("%d skipped, and %s=1 allows none", missing, skip.Strict)
	}
	return nil
}

// module is the path of the repository's packages.
const module = "github.com/sojourn-run/sojourn"

// shortened returns an import path without the module's.
func shortened(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}
