package turn

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// stories returns the files of testdata by the rule that decides them.
func stories(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/plans/*.txtar")
	require.NoError(t, err)
	out := map[string][]string{}
	for _, path := range paths {
		ar, err := txtar.ParseFile(path)
		require.NoError(t, err)
		rule, _, _ := strings.Cut(string(fileOf(t, ar, "plan")), ":")
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		out[rule] = append(out[rule], fmt.Sprintf("[%s](../turn/testdata/plans/%s.txtar)", name, name))
	}
	return out
}

// TestDoc: docs/turn.md has the code's table of rules. Run with -rewrite to write it.
func TestDoc(t *testing.T) {
	const path, begin, end = "../docs/turn.md", "<!-- rules -->\n", "<!-- end of rules -->\n"
	var table strings.Builder
	table.WriteString("| rule | when | plan | why | stories |\n| --- | --- | --- | --- | --- |\n")
	told := stories(t)
	for _, r := range Rules {
		fmt.Fprintf(&table, "| %s | %s | **%s** | %s | %s |\n", r.Name, r.When, r.Kind, r.Reason, strings.Join(told[r.Name], ", "))
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(data), begin)
	require.True(t, ok, "docs/turn.md lacks the line %s", begin)
	_, tail, ok := strings.Cut(rest, end)
	require.True(t, ok, "docs/turn.md lacks the line %s", end)
	want := head + begin + table.String() + end + tail
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(data), "docs/turn.md is not what the code has: go test ./turn -rewrite")
}
