package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"time"
)

// Schema is a JSON schema, as far as the contract needs it.
type Schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"`
	Format      string             `json:"format,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
	Values      *Schema            `json:"additionalProperties,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Defs        map[string]*Schema `json:"$defs,omitempty"`

	// order has the properties as they are declared.
	order []string
	// name is a type's name in TypeScript, where that has one of its own.
	name string
	// nullable is a field that is null where it has no value.
	nullable bool
}

// words returns a type in a few words of Markdown.
func (s *Schema) words() string {
	switch {
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, "#/$defs/")
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case s.Items != nil:
		return "list of " + s.Items.words()
	case s.Values != nil:
		return "object of " + s.Values.words()
	case s.Format != "":
		return s.Type + ", " + s.Format
	case s.Type == "":
		return "any"
	}
	return s.Type
}

// generator makes schemas of Go types, each struct once.
type generator struct {
	comments *comments
	defs     map[string]*Schema
	order    []string
	types    map[string]reflect.Type
	// known are the schemas of types that are not made from their fields.
	known map[reflect.Type]*Schema
}

func newGenerator(root string) *generator {
	return &generator{
		comments: &comments{root: root, fields: map[string]map[string]string{}, constants: map[string][]string{}, parsed: map[string]bool{}},
		defs:     map[string]*Schema{}, types: map[string]reflect.Type{},
		known: map[reflect.Type]*Schema{
			reflect.TypeFor[json.RawMessage](): {},
			reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		},
	}
}

func (g *generator) of(t reflect.Type) (*Schema, error) {
	if known := g.known[t]; known != nil {
		own := *known
		return &own, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.Bool:
		return &Schema{Type: "boolean"}, nil
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return &Schema{Type: "integer"}, nil
	case reflect.Float64:
		return &Schema{Type: "number"}, nil
	case reflect.String:
		return g.text(t)
	case reflect.Slice:
		items, err := g.of(t.Elem())
		return &Schema{Type: "array", Items: items}, err
	case reflect.Map:
		values, err := g.of(t.Elem())
		return &Schema{Type: "object", Values: values}, err
	case reflect.Struct:
		return g.object(t)
	}
	return nil, fmt.Errorf("%v: a %v has no place in the contract", t, t.Kind())
}

// text returns a string's schema. Of one with constants of its own it has the type.
func (g *generator) text(t reflect.Type) (*Schema, error) {
	s := &Schema{Type: "string"}
	if t.PkgPath() == "" {
		return s, nil
	}
	if err := g.comments.parse(t.PkgPath()); err != nil {
		return nil, err
	}
	if g.comments.constants[key(t)] != nil {
		s.name = g.name(t)
	}
	return s, nil
}

// name returns a type's name in the contract: its own, or that of its package before it where
// another type has that.
func (g *generator) name(t reflect.Type) string {
	name := t.Name()
	if had := g.types[name]; had != nil && had != t {
		base := path.Base(t.PkgPath())
		name = strings.ToUpper(base[:1]) + base[1:] + name
	}
	g.types[name] = t
	return name
}

// internalField is in the comment of a field that is no part of the contract.
const internalField = "not to be set by callers"

// object returns a reference to a struct's schema.
func (g *generator) object(t reflect.Type) (*Schema, error) {
	own := g.name(t)
	ref := &Schema{Ref: "#/$defs/" + own}
	if g.defs[own] != nil {
		return ref, nil
	}
	comments, err := g.comments.of(t)
	if err != nil {
		return nil, err
	}
	s := &Schema{Type: "object", Description: comments[""], Properties: map[string]*Schema{}}
	g.defs[own] = s
	g.order = append(g.order, own)
	for _, f := range reflect.VisibleFields(t) {
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() || f.Anonymous {
			continue
		}
		from := comments
		if n := len(f.Index); n > 1 { // it is an embedded type's
			if from, err = g.comments.of(t.FieldByIndex(f.Index[:n-1]).Type); err != nil {
				return nil, err
			}
		}
		if strings.Contains(from[f.Name], internalField) {
			continue
		}
		p, err := g.of(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t.Name(), f.Name, err)
		}
		p.Description = from[f.Name]
		s.Properties[name] = p
		s.order = append(s.order, name)
		if !strings.HasPrefix(rest, "omit") {
			s.Required = append(s.Required, name)
			p.nullable = f.Type.Kind() == reflect.Pointer
		}
	}
	return ref, nil
}

// comments has what is written of the fields of types.
type comments struct {
	root string
	// fields are by type, import path included, and field; "" is the type itself.
	fields map[string]map[string]string
	// constants are the values of a string's type, in Go's notation.
	constants map[string][]string
	parsed    map[string]bool
}

// key is a type's name with its package's path.
func key(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// of returns the comments of a struct's fields.
func (c *comments) of(t reflect.Type) (map[string]string, error) {
	if err := c.parse(t.PkgPath()); err != nil {
		return nil, err
	}
	if c.fields[key(t)] == nil {
		return nil, fmt.Errorf("%s is not declared in its package", key(t))
	}
	return c.fields[key(t)], nil
}

func (c *comments) parse(pkg string) error {
	if c.parsed[pkg] {
		return nil
	}
	c.parsed[pkg] = true
	paths, err := filepath.Glob(filepath.Join(c.root, strings.TrimPrefix(pkg, "github.com/sojourn-run/sojourn/"), "*.go"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				c.add(pkg, d)
			}
		}
	}
	return nil
}

func (c *comments) add(pkg string, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST {
			c.addConstant(pkg, v)
		}
		t, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		s, ok := t.Type.(*ast.StructType)
		if !ok {
			continue
		}
		fields := map[string]string{"": line(t.Doc)}
		if fields[""] == "" {
			fields[""] = line(d.Doc)
		}
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				fields[name.Name] = line(f.Doc)
			}
		}
		c.fields[pkg+"."+t.Name.Name] = fields
	}
}

// addConstant keeps the value of a constant that has a type of its package.
func (c *comments) addConstant(pkg string, v *ast.ValueSpec) {
	t, ok := v.Type.(*ast.Ident)
	if !ok || len(v.Values) != 1 {
		return
	}
	if value, ok := v.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
		of := pkg + "." + t.Name
		c.constants[of] = append(c.constants[of], value.Value)
	}
}

// line returns a comment in one line.
func line(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }
