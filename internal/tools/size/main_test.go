package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A function at its limits passes; one step more is a fault that names it.
func TestLimits(t *testing.T) {
	t.Parallel()
	source := func(ifs, lines int) string {
		return "package p\n\nfunc F(ok bool) {\n" + strings.Repeat("if ok {}\n", ifs) + strings.Repeat("\n", lines-ifs-2) + "}\n"
	}
	for _, c := range []struct {
		complexity, lines int
		faults            []string
	}{
		{maxComplexity, maxFunction, nil},
		{maxComplexity + 1, maxFunction + 1, []string{"F has complexity 16", "F has 61 lines"}},
	} {
		name := filepath.Join(t.TempDir(), "a.go")
		require.NoError(t, os.WriteFile(name, []byte(source(c.complexity-1, c.lines)), 0o600))
		f, err := read(name)
		require.NoError(t, err)
		var faults []string
		require.Equal(t, c.complexity, f.complexity(&faults))
		require.Equal(t, c.lines, f.longest(&faults))
		require.Len(t, faults, len(c.faults))
		for i, want := range c.faults {
			require.Contains(t, faults[i], want)
		}
		require.Equal(t, c.lines+2, f.lines)
	}
}

func TestProduct(t *testing.T) {
	t.Parallel()
	for name, product := range map[string]bool{
		"event/event.go": true, "event/event_test.go": false, "test/chaos/judge.go": false, "internal/settings/a.go": true,
	} {
		require.Equal(t, product, (&file{name: name}).product(), name)
	}
	require.True(t, (&file{name: "event/event.go"}).in(core))
	require.False(t, (&file{name: "event/jsonl/lines.go"}).in(core))
}
