package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// tested returns the output of go test -json for packages of testdata/sample.txtar.
func tested(t *testing.T, packages ...string) string {
	t.Helper()
	files, err := txtar.ParseFile("testdata/sample.txtar")
	require.NoError(t, err)
	dir := t.TempDir()
	for _, f := range files.Files {
		name := filepath.Join(dir, f.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, f.Data, 0o600))
	}
	cmd := exec.Command("go", append([]string{"test", "-json", "-vet=off", "-timeout=3s"}, packages...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err, "the tests fail, go runs")
	}
	return string(out)
}

func TestASuccessfulRunTellsWhatItDidNotRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	in := "step one\n" + tested(t, "./good")
	require.NoError(t, run(strings.NewReader(in), &out, false))
	said := out.String()
	require.Contains(t, said, "step one\n")
	require.Contains(t, said, "s  sample/good\n")
	require.Contains(t, said, "left out of this run:\n  sample/good TestLong: TestQuick is the quick one\n")
	require.Contains(t, said, "not applicable:\n  sample/good TestPart/one and 1 more: no images\n")
	require.Contains(t, said, "missing:\n  sample/good TestTerminal: no tmux\n  sample/good TestBare: whatever\n")
	require.Contains(t, said, "1 packages in 0s: 2 tests passed, 0 failed, 2 skipped, 2 not applicable, 1 left out\n")
	require.NotContains(t, said, "talk", "the output of a passing test is not printed")

	require.ErrorContains(t, run(strings.NewReader(in), &out, true), "2 skipped, and SOJOURN_TEST_STRICT=1 allows none")
}

func TestFailuresAreNamedWithWhatTheySaid(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.ErrorContains(t, run(strings.NewReader(tested(t, "./bad", "./broken", "./exits", "./hangs", "./good")), &out, false), "7 failed")
	said := out.String()
	_, failed, found := strings.Cut(said, "\nfailed:\n")
	require.True(t, found)
	for _, line := range []string{
		"  sample/bad TestWrong\n", "  sample/broken\n",
		"  sample/bad TestWrong/deep\n    bad_test.go:6: one is not two\n    but three\n  ",
		"  sample/bad TestAsserts\n    bad_test.go:11:\n    Error Trace:\tbad_test.go:9\n    Error:      \tNot equal\n  ",
		"  sample/bad TestPanics\n    panic: no map [recovered, repanicked]\n", "  sample/exits\n", "  sample/hangs TestHangs (did not end)\n",
	} {
		require.Contains(t, failed, line)
	}
	for _, words := range []string{"one is not two", "undefined: nothing", "no server starts", "test timed out"} {
		require.Contains(t, said, words)
	}
	require.NotContains(t, failed, "sample/good")
	require.Contains(t, failed, "\n1 tests more were not started, for their package was cut off\n")
	require.NotContains(t, said, "testing.runTests(", "stacks without the repository's code")
}

func TestNothingTestedIsNoSuccess(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.ErrorContains(t, run(strings.NewReader(""), &out, false), "no package was tested")
	whole := tested(t, "./good")
	cut := whole[:strings.LastIndex(strings.TrimSpace(whole), "\n")+1]
	require.ErrorContains(t, run(strings.NewReader(cut), &out, false), "no package was tested")
	require.ErrorContains(t, run(strings.NewReader(whole+cut), &out, false), "in the middle of a run")
}
