package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownSkips are the files in which testing's Skip may be called: the package whose
// reasons a run lists and a strict run refuses, and its copies in the modules that
// can't import it.
var ownSkips = []string{"test/skip/skip.go", "internal/tools/without_test.go", "devstack/internal/launch/without_test.go"}

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
		for _, place := range skips(t, name, data) {
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
	require.Equal(t, []string{"p_test.go:3:2", "p_test.go:4:2", "p_test.go:5:2"}, skips(t, "p_test.go", []byte(source)))
}

// skips returns the calls of testing's Skip, Skipf and SkipNow in a Go source.
func skips(t *testing.T, name string, data []byte) []string {
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
		if f, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, f.Sel.Name) {
			places = append(places, files.Position(call.Pos()).String())
		}
		return true
	})
	return places
}
