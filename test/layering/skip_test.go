package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownSkips are the files in which testing's Skip may be called: the package whose
// reasons a run lists and a strict run refuses, and its copies in the modules that
// can't import it.
var ownSkips = []string{"test/skip/skip.go", "internal/tools/without_test.go", "devstack/internal/launch/without_test.go"}

// skips are the methods of testing that skip a test.
var skips = []string{"Skip", "Skipf", "SkipNow"}

// A strict run would not notice a test that calls testing's Skip itself.
func TestTestsSkipByPackageSkipOnly(t *testing.T) {
	t.Parallel()
	dir := root(t)
	eachGoFile(t, dir, func(name string) {
		if slices.Contains(ownSkips, name) {
			return
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for _, place := range callsOf(t, name, data, skips...) {
			t.Errorf("%s: a test skips by itself; test/skip does, so that the reason is listed and a strict run fails", place)
		}
	})
}

func TestASkipIsSeen(t *testing.T) {
	t.Parallel()
	const source = `package p
func f(t *testing.T, b rig) {
	t.Skip("x")
	b.t.Skipf("%s", "x")
	t.SkipNow()
	skip.Without(t, "x")
	dec.SkipValue()
}`
	require.Equal(t, []string{"p_test.go:3:2", "p_test.go:4:2", "p_test.go:5:2"}, callsOf(t, "p_test.go", []byte(source), skips...))
}

// TestEndToEndTestsAskForTheTime: one that runs in parallel by itself, a subtest too, would begin
// when the time of a run is up.
func TestEndToEndTestsAskForTheTime(t *testing.T) {
	t.Parallel()
	dir := root(t)
	var places []string
	eachGoFile(t, dir, func(name string) {
		if path.Dir(name) != "test/e2e" {
			return
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		places = append(places, callsOf(t, name, data, "Parallel")...)
	})
	require.Len(t, places, 1, "only inParallel calls testing's Parallel")
}

// callsOf returns the calls of methods with some names in a Go source.
func callsOf(t *testing.T, name string, data []byte, names ...string) []string {
	t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, data, parser.SkipObjectResolution)
	require.NoError(t, err)
	var places []string
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(names, f.Sel.Name) {
			places = append(places, files.Position(call.Pos()).String())
		}
		return true
	})
	return places
}
