package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// spoken are the types that a gateway takes and returns, besides events.
var spoken = []reflect.Type{
	reflect.TypeFor[session.Options](), reflect.TypeFor[session.Configure](), reflect.TypeFor[session.Message](),
	reflect.TypeFor[session.Receipt](), reflect.TypeFor[session.Result](),
	reflect.TypeFor[session.InterruptRequest](), reflect.TypeFor[session.InterruptReply](), reflect.TypeFor[session.RespondRequest](),
	reflect.TypeFor[session.Conversation](), reflect.TypeFor[session.Inspection](), reflect.TypeFor[session.Page](), reflect.TypeFor[stream.Change](),
}

// payloads are the structs of events.
var payloads = []reflect.Type{
	reflect.TypeFor[event.BlockUpsert](), reflect.TypeFor[event.BlockDelta](), reflect.TypeFor[event.BlockPlaced](), reflect.TypeFor[event.MetadataUpdate](),
	reflect.TypeFor[event.SubagentSpawned](), reflect.TypeFor[event.SubagentCompleted](),
	reflect.TypeFor[event.SessionInitialized](), reflect.TypeFor[event.SessionIdle](), reflect.TypeFor[event.SessionClosed](),
	reflect.TypeFor[event.EECreating](), reflect.TypeFor[event.EEReady](), reflect.TypeFor[event.EETerminated](), reflect.TypeFor[event.EEError](), reflect.TypeFor[event.EEHealthCheck](),
	reflect.TypeFor[event.QueryStarted](), reflect.TypeFor[event.QueryCompleted](), reflect.TypeFor[event.QueryFailed](), reflect.TypeFor[event.QueryInterrupted](),
	reflect.TypeFor[event.MessageFolded](), reflect.TypeFor[event.MessageOwnTurn](),
	reflect.TypeFor[event.FileCreated](), reflect.TypeFor[event.FileModified](), reflect.TypeFor[event.FileDeleted](),
	reflect.TypeFor[event.TranscriptChanged](), reflect.TypeFor[event.TranscriptWritten](),
	reflect.TypeFor[event.PermissionRequested](), reflect.TypeFor[event.PermissionResolved](),
	reflect.TypeFor[event.OptionsUpdate](), reflect.TypeFor[event.Status](), reflect.TypeFor[event.Log](), reflect.TypeFor[event.Error](), reflect.TypeFor[event.Native](),
}

// writeTypeScript writes the types of a gateway's requests, answers and events.
func writeTypeScript(root, path string) error {
	g := newGenerator(root)
	g.known[reflect.TypeFor[event.Event]()] = &Schema{Ref: "#/$defs/SessionEvent"}
	for _, name := range []string{"Change", "Error", "File", "Request"} {
		g.types[name] = reflect.TypeFor[struct{}]() // a browser has such types, or there are two
	}
	var of []string // for each payload
	for _, t := range payloads {
		if t.NumField() == 1 && t.Field(0).IsExported() && t.Field(0).Anonymous {
			t = t.Field(0).Type // it has no more than what it embeds
		}
		s, err := g.of(t)
		if err != nil {
			return err
		}
		of = append(of, typeScript(s))
	}
	// An upsert of a block that is known may leave out its type.
	g.defs["BlockUpsert"].Properties["block"].name = `Omit<Block, "type"> & { type: BlockType | "" }`
	native := g.defs["Native"] // its own JSON has a field more
	native.order = append(native.order, "lineBytes")
	native.Properties["lineBytes"] = &Schema{Type: "string", Description: "LineBytes is the line in base64, where that is not UTF-8."}
	for _, t := range append([]reflect.Type{reflect.TypeFor[event.Context]()}, spoken...) {
		if _, err := g.of(t); err != nil {
			return err
		}
	}
	var out strings.Builder
	out.WriteString("// Written by \"go generate ./gateway\" from the Go types.\n")
	if err := writeEvents(&out, root, of); err != nil {
		return err
	}
	for _, name := range g.order {
		writeInterface(&out, name, g.defs[name])
	}
	for _, name := range slices.Sorted(g.stringTypes()) {
		fmt.Fprintf(&out, "\nexport type %s = %s;\n", name, strings.Join(g.comments.constants[key(g.types[name])], " | "))
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}

// stringTypes yields the names of the strings that have constants.
func (g *generator) stringTypes() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name, t := range g.types {
			if t.Kind() == reflect.String && !yield(name) {
				return
			}
		}
	}
}

// tableRow is a line of the table of package event.
var tableRow = regexp.MustCompile(`rowOf\[(\w+)\]\("([^"]+)"\)`)

// writeEvents writes the union of all events; of are their payloads' types.
func writeEvents(out *strings.Builder, root string, of []string) error {
	table, err := os.ReadFile(filepath.Join(root, "event", "table.go"))
	if err != nil {
		return err
	}
	out.WriteString("\n/** SessionEvent is one thing that happened in a session; its type determines the payload. A newer Sojourn may send types that are not here: a switch needs a default case. */\nexport type SessionEvent =\n")
	rows := tableRow.FindAllStringSubmatch(string(table), -1)
	for _, row := range rows {
		at := slices.IndexFunc(payloads, func(t reflect.Type) bool { return t.Name() == row[1] })
		if at < 0 {
			return fmt.Errorf("event.%s is not among the payloads of internal/contract", row[1])
		}
		fmt.Fprintf(out, "  | { type: %q; payload: %s; context: Context }\n", row[2], of[at])
	}
	if len(rows) != len(payloads) {
		return fmt.Errorf("the table of events has %d rows, and internal/contract %d payloads", len(rows), len(payloads))
	}
	out.WriteString("  ;\n")
	return nil
}

func writeInterface(out *strings.Builder, name string, s *Schema) {
	out.WriteString("\n")
	writeComment(out, "", s.Description)
	fmt.Fprintf(out, "export interface %s {\n", name)
	for _, field := range s.order {
		p := s.Properties[field]
		writeComment(out, "  ", p.Description)
		optional, null := "?", ""
		if slices.Contains(s.Required, field) {
			optional = ""
		}
		if p.nullable {
			null = " | null"
		}
		fmt.Fprintf(out, "  %s%s: %s%s;\n", field, optional, typeScript(p), null)
	}
	out.WriteString("}\n")
}

func writeComment(out *strings.Builder, indent, text string) {
	if text != "" {
		fmt.Fprintf(out, "%s/** %s */\n", indent, text)
	}
}

// typeScript returns a type in TypeScript's notation.
func typeScript(s *Schema) string {
	switch {
	case s.name != "":
		return s.name
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, "#/$defs/")
	case s.Items != nil:
		return typeScript(s.Items) + "[]"
	case s.Values != nil:
		return "Record<string, " + typeScript(s.Values) + ">"
	case s.Type == "":
		return "unknown"
	case s.Type == "integer":
		return "number"
	}
	return s.Type
}
