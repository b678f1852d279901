package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/requirements"
)

const entry = "# a remark\n\n7 p TestR7Adds ci\np/p.go\n- return a + b\n+ return a - b\n"

func TestTable(t *testing.T) {
	t.Parallel()
	all, err := Table()
	require.NoError(t, err)
	rows, ci := map[int]bool{}, 0
	for _, m := range all {
		rows[m.Row] = true
		if m.CI {
			ci++
		}
	}
	require.GreaterOrEqual(t, len(rows), 70, "rows with a mutant")
	require.Equal(t, 10, ci, "mutants of every run of CI")
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := parse(entry + "\n8 p TestR8\np/p.go\n- x\n+\n")
	require.NoError(t, err)
	require.Equal(t, []Mutant{
		{Row: 7, Package: "p", Test: "TestR7Adds", CI: true, File: "p/p.go", Old: "return a + b", New: "return a - b"},
		{Row: 8, Package: "p", Test: "TestR8", File: "p/p.go", Old: "x"},
	}, got)
	for bad, want := range map[string]string{
		"7 p TestR7\np/p.go\n- a":              "has 3 lines, not 4",
		"seven p TestR7\np/p.go\n- a\n+ b":     `"seven" is no row`,
		"7 p TestR7 fast\np/p.go\n- a\n+ b":    "is not: row package test [ci]",
		"7 p TestR7\np/p.go\n+ a\n- b":         "begins with -",
		"7 p TestR7\np/p.go\n- same\n+ same\n": "begins with -",
	} {
		_, err := parse(bad)
		require.ErrorContains(t, err, want, bad)
	}
}

func TestCheckNamesTheMutant(t *testing.T) {
	t.Parallel()
	test := requirements.Test{Row: 7, Name: "TestR7Adds", File: "p/p_test.go"}
	for name, c := range map[string]struct {
		source, file string
		test         requirements.Test
		want         string
	}{
		"applies":      {source: "return a + b", test: test},
		"is gone":      {source: "return sum(a, b)", test: test, want: `row 7: p/p.go has "return a + b" 0 times, not once`},
		"is ambiguous": {source: "return a + b; return a + b", test: test, want: `row 7: p/p.go has "return a + b" 2 times, not once`},
		"has no test":  {source: "return a + b", want: "row 7: p has no test TestR7Adds of that row"},
		"of a test":    {source: "return a + b", file: "p/p_test.go", test: test, want: "row 7: p/p_test.go is not of the product"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := parse(entry)
			require.NoError(t, err)
			if c.file != "" {
				all[0].File = c.file
			}
			tree := fstest.MapFS{all[0].File: {Data: []byte(c.source)}}
			require.Equal(t, c.want, strings.Join(Check(all, []requirements.Test{c.test}, tree), "; "))
		})
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const failed = "=== RUN   TestR7\n    p_test.go:3: not so\n--- FAIL: TestR7 (0.00s)\nFAIL\n"
	require.Empty(t, notAnAssertion(failed, "TestR7"))
	require.Empty(t, notAnAssertion("--- FAIL: TestR7 (0.00s)\n        \tError Trace:\tp.go:1\n", "TestR7"))
	require.Equal(t, "the test did not run", notAnAssertion(failed, "TestR70"))
	require.Equal(t, "the test ran into its timeout", notAnAssertion(failed+"panic: test timed out after 5m0s", "TestR7"))
	require.Equal(t, "the test panicked", notAnAssertion(failed+"panic: nil map", "TestR7"))
	require.Equal(t, "no assertion failed", notAnAssertion("--- FAIL: TestR7 (0.00s)\n", "TestR7"))
	require.True(t, passed("ok\n--- PASS: TestR7 (0.00s)\n", "TestR7"))
	require.False(t, passed("ok\n--- PASS: TestR70 (0.00s)\n", "TestR7"))
}

// A module of its own: one test that asserts, one that doesn't, one that panics with
// the mutant, one that fails without it, and a mutant that doesn't build. The files
// stay unchanged.
func TestRun(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"p/p.go": "package p\n\nfunc Add(a, b int) int { return a + b }\n",
		"p/p_test.go": `package p

import "testing"

func TestR1(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Fatal("not 3")
	}
}

func TestR2(t *testing.T) { Add(1, 2) }

func TestR3(t *testing.T) {
	if Add(1, 2) != 3 {
		panic("not 3")
	}
}

func TestR4(t *testing.T) { t.Fatal("always") }
`,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	m := func(row int, test, to string) Mutant {
		return Mutant{Row: row, File: "p/p.go", Old: "a + b", New: to, Package: "p", Test: test}
	}
	mutants := []Mutant{m(1, "TestR1", "a - b"), m(2, "TestR2", "a - b"), m(3, "TestR3", "a - b"), m(4, "TestR4", "a - b"), m(5, "TestR1", "nothing")}
	var verdicts []Verdict
	var why []string
	r := Runner{Root: root}
	require.NoError(t, r.Run(t.Context(), mutants, func(out Outcome) {
		verdicts, why = append(verdicts, out.Verdict), append(why, out.Why)
	}))
	require.Equal(t, []Verdict{Red, Green, Broken, Broken, Broken}, verdicts, "%s", why)
	require.Contains(t, why[2], "the test panicked")
	require.Contains(t, why[3], "without the mutant TestR4 does not pass")
	require.Contains(t, why[4], "undefined: nothing")
	left, err := os.ReadDir(filepath.Join(root, "bin"))
	require.NoError(t, err)
	require.Empty(t, left)
	source, err := os.ReadFile(filepath.Join(root, "p", "p.go"))
	require.NoError(t, err)
	require.Contains(t, string(source), "a + b")
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	o := Outcome{Mutant: Mutant{Row: 7, Package: "p", Test: "TestR7", File: "p/p.go", Old: "a || b ", New: "`x`"}, Verdict: Red}
	require.Equal(t, "| 7 | `TestR7` | p/p.go | `` a \\|\\| b `` | `` `x` `` | red |", o.Markdown())
}
