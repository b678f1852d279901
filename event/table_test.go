package event

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// structs returns the structs of the package's source by name.
func structs(t *testing.T) map[string]*ast.GenDecl {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := map[string]*ast.GenDecl{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.TypeSpec)
				one := *d
				if d.Lparen.IsValid() {
					one.Doc = s.Doc
				}
				one.Specs = []ast.Spec{s}
				found[s.Name.Name] = &one
			}
		}
	}
	return found
}

// Each row of the table has its own documented struct and its own name.
func TestEveryRowHasAStructWithADoc(t *testing.T) {
	t.Parallel()
	declared, names := structs(t), map[Type]bool{}
	for _, r := range table {
		name := r.goType.Name()
		require.Contains(t, declared, name, "%s", r.name)
		require.True(t, strings.HasPrefix(declared[name].Doc.Text(), name+" "), "%s: the doc of %s", r.name, name)
		require.False(t, names[r.name], "%s has two rows", r.name)
		names[r.name] = true
		zero := reflect.Zero(r.goType).Interface().(Payload)
		require.Equal(t, r.name, TypeOf(zero), "%s has two rows", name)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(names)), types())
	require.NotContains(t, types(), Type("quantum:leap"))
}

// types returns the event types that this version knows.
func types() []Type {
	all := make([]Type, len(table))
	for i, r := range table {
		all[i] = r.name
	}
	return all
}

// shared are the structs that several events embed; they are no events
// themselves.
var shared = []string{"Environment", "Query", "MessageRef", "File", "Transcript"}

// Without this test, a struct that is marked as a payload but has no row would
// fail only when it is written.
func TestEveryPayloadHasARow(t *testing.T) {
	t.Parallel()
	rows := append([]string{"Unknown"}, shared...)
	for _, r := range table {
		rows = append(rows, r.goType.Name())
	}
	var marked []string
	for name, d := range structs(t) {
		s, ok := d.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range s.Fields.List {
			embedded, ok := f.Type.(*ast.Ident)
			if ok && f.Names == nil && slices.Contains(append(shared, "body"), embedded.Name) {
				marked = append(marked, name)
			}
		}
	}
	require.ElementsMatch(t, rows, marked)
}

// A value that compiles as a payload but is none is refused, not written.
func TestOnlyPayloadsOfTheTableAreEncoded(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Payload{
		"event.Environment": Environment{}, "event.Query": Query{}, "*event.Log": &Log{},
		"event.Unknown": Unknown{Raw: json.RawMessage(`{}`)},
	} {
		require.Empty(t, TypeOf(p))
		out, err := AppendEvent([]byte("kept"), Event{Payload: p})
		require.EqualError(t, err, "event: encode: "+name+" is no payload of an event")
		require.Equal(t, "kept", string(out))
	}
}
