package mutants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verdict is the result of a test under a mutant.
type Verdict string

const (
	// Red: the test failed by an assertion, as it must.
	Red Verdict = "red"
	// Green: the test passed, so it doesn't assert its row.
	Green Verdict = "GREEN"
	// Broken: the test has no result: it did not build, panicked, ran into its timeout,
	// or fails without the mutant too.
	Broken Verdict = "broken"
)

// Outcome is a mutant with its verdict.
type Outcome struct {
	Mutant
	Verdict Verdict `json:"verdict"`
	Seconds float64 `json:"seconds"`
	// Why is the output of build and test, if the verdict is not red.
	Why string `json:"why,omitempty"`
}

// MarkdownHead is the head of a table of outcomes.
const MarkdownHead = "| Row | Test | File | Line | Mutant | Verdict |\n| --- | --- | --- | --- | --- | --- |"

// Markdown returns a line of a table of outcomes.
func (o Outcome) Markdown() string {
	code := func(text string) string {
		return "`` " + strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`) + " ``"
	}
	return fmt.Sprintf("| %d | `%s` | %s | %s | %s | %s |", o.Row, o.Test, o.File, code(o.Old), code(o.New), o.Verdict)
}

// Runner runs mutants of one tree: it builds the next one while the test of the
// last one runs. Not safe for concurrent use.
type Runner struct {
	// Root is the tree.
	Root string
	// Timeout bounds one run of a test program. Default: 5 minutes.
	Timeout time.Duration
	// Trust leaves out the run of each test without its mutant.
	Trust bool

	dir   string
	green map[string]error
	deps  map[string][]string
}

// prepared is a mutant that is ready to be tested, or err.
type prepared struct {
	Mutant
	built built
	err   error
	took  time.Duration
}

// Run runs each mutant and calls seen with its outcome, in the given order. It returns
// an error if the runner itself can't work. It removes its temporary files.
func (r *Runner) Run(ctx context.Context, mutants []Mutant, seen func(Outcome)) (err error) {
	// Hard links to the programs in bin/ need the same file system. A folder whose name
	// begins with _ is no package for go build ./... .
	if err := os.MkdirAll(filepath.Join(r.Root, "bin"), 0o755); err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp(filepath.Join(r.Root, "bin"), "_mutants-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	r.green, r.deps = map[string]error{}, map[string][]string{}
	ready := make(chan prepared)
	go r.prepareAll(ctx, mutants, ready)
	for p := range ready {
		began := time.Now()
		out := Outcome{Mutant: p.Mutant}
		out.Verdict, out.Why = r.verdict(ctx, p)
		out.Seconds = (p.took + time.Since(began)).Seconds()
		if ctx.Err() == nil {
			seen(out)
		}
	}
	return ctx.Err()
}

// prepareAll sends each mutant once it is built. Two folders suffice: the channel is
// unbuffered, so the folder of the mutant before the last is free again.
func (r *Runner) prepareAll(ctx context.Context, mutants []Mutant, ready chan<- prepared) {
	defer close(ready)
	for i, m := range mutants {
		if ctx.Err() != nil {
			return
		}
		p, began := prepared{Mutant: m}, time.Now()
		p.built, p.err = r.prepare(ctx, filepath.Join(r.dir, strconv.Itoa(i%2)), m, mutants)
		p.took = time.Since(began)
		ready <- p
	}
}

// prepare checks that the test passes without the mutant, and builds it with the
// mutant.
func (r *Runner) prepare(ctx context.Context, dir string, m Mutant, all []Mutant) (built, error) {
	if !r.Trust {
		if err := r.passes(ctx, m, all); err != nil {
			return built{}, err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return built{}, err
	}
	return r.build(ctx, dir, m)
}

func (r *Runner) verdict(ctx context.Context, p prepared) (Verdict, string) {
	if p.err != nil {
		return Broken, p.err.Error()
	}
	said, err := r.test(ctx, p.built, p.Package, p.Test)
	if err == nil {
		return Green, said
	}
	if why := notAnAssertion(said, p.Test); why != "" {
		return Broken, why + "\n" + said
	}
	return Red, ""
}

// passes reports whether the test passes without the mutant. All tests of a
// package run together, the first time one of them is asked for.
func (r *Runner) passes(ctx context.Context, m Mutant, all []Mutant) error {
	key := m.Package + " " + m.Test
	if err, known := r.green[key]; known {
		return err
	}
	var tests []string
	for _, other := range all {
		if other.Package == m.Package && !slices.Contains(tests, other.Test) {
			tests = append(tests, other.Test)
		}
	}
	b, err := r.buildClean(ctx, m.Package)
	if err != nil {
		return err
	}
	said, err := r.test(ctx, b, m.Package, tests...)
	for _, test := range tests {
		r.green[m.Package+" "+test] = nil
		if err != nil && !passed(said, test) {
			r.green[m.Package+" "+test] = fmt.Errorf("without the mutant %s does not pass: %w\n%s", test, err, said)
		}
	}
	return r.green[key]
}

// test runs tests of a built package and returns their output.
func (r *Runner) test(ctx context.Context, b built, pkg string, tests ...string) (string, error) {
	timeout := r.Timeout
	if timeout == 0 {
		timeout = 5 * time.Minute
	}
	timeout *= time.Duration(len(tests))
	cmd := exec.CommandContext(ctx, b.test, "-test.v", "-test.count=1", "-test.timeout="+timeout.String(), "-test.run="+pattern(tests))
	cmd.Dir = filepath.Join(r.Root, filepath.FromSlash(pkg))
	cmd.Env = r.environment(b)
	// An interrupted test program ends the servers that it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
