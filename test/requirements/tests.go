package requirements

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Test is a test that is named after a row.
type Test struct {
	Row  int
	Name string
	// File is the path from the root, with slashes.
	File string
	// Asserts reports whether anything in its body can make it fail.
	Asserts bool
}

// Tests returns the rows' tests of a tree, by row, file and name.
func Tests(tree fs.FS) ([]Test, error) {
	var tests []Test
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && notOurs(name) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		of, err := testsOf(name, data)
		tests = append(tests, of...)
		return err
	})
	slices.SortFunc(tests, func(a, b Test) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.File, b.File), cmp.Compare(a.Name, b.Name))
	})
	return tests, err
}

// notOurs reports whether a folder has no tests of the repository.
func notOurs(name string) bool {
	base := path.Base(name)
	return name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || name == "bin")
}

// rowTest matches the name of a row's test: the row alone, or the row and a word that
// begins with a capital letter or an underscore.
var rowTest = regexp.MustCompile(`^TestR(\d+)(?:[A-Z_]\w*)?$`)

func testsOf(name string, source []byte) ([]Test, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var tests []Test
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Body == nil || len(testParams(f.Type)) == 0 {
			continue
		}
		m := rowTest.FindStringSubmatch(f.Name.Name)
		if m == nil {
			continue
		}
		row, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		tests = append(tests, Test{Row: row, Name: f.Name.Name, File: name, Asserts: asserts(f)})
	}
	return tests, nil
}

// testParams returns the names of a function's parameters of type *testing.T.
func testParams(f *ast.FuncType) []string {
	var names []string
	for _, p := range f.Params.List {
		star, ok := p.Type.(*ast.StarExpr)
		if !ok {
			continue
		}
		sel, ok := star.X.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "T" || !isName(sel.X, "testing") {
			continue
		}
		for _, n := range p.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// asserts reports whether a test has a call of testify, a failure of its own, or a call
// of a helper that takes the test and returns nothing. A helper with a result is taken
// for a preparation.
func asserts(f *ast.FuncDecl) bool {
	ts := testParams(f.Type)
	found := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			ts = append(ts, testParams(n.Type)...)
		case *ast.CallExpr:
			found = found || judges(n, ts)
		case *ast.ExprStmt:
			call, ok := n.X.(*ast.CallExpr)
			found = found || ok && takes(call, ts)
		}
		return !found
	})
	return found
}

// judges reports whether a call is testify's or fails the test.
func judges(call *ast.CallExpr, ts []string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if isName(sel.X, "require", "assert") {
		return true
	}
	return isName(sel.X, ts...) && slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"}, sel.Sel.Name)
}

// takes reports whether the test itself is one of the call's arguments.
func takes(call *ast.CallExpr, ts []string) bool {
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return isName(arg, ts...) })
}

func isName(e ast.Expr, names ...string) bool {
	id, ok := e.(*ast.Ident)
	return ok && slices.Contains(names, id.Name)
}
