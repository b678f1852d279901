package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/sojourn-run/sojourn/event"
)

// The marks of a request's lines. A value's own lines can't imitate them: a field
// begins in the third column, and a value's content is always behind a mark.
const (
	fieldIndent  = "  "
	markValue    = "  │ "
	markContinue = "  ↪ "
)

// permission shows a request whole. A person approves what is on the screen, so
// nothing of it is truncated and no character is left out.
func (p *Printer) permission(l *lane, session string, r event.PermissionRequested) {
	head := "? may it run  " + visible(cmp.Or(r.ToolName, r.Title, "a tool"))
	if r.ToolName == "" && r.ToolUseID == "" && r.Title != "" {
		head = "? may it  " + visible(r.Title) // it is about no tool
	}
	s := sheet{p: p, room: p.room(l)}
	s.add(asked, "", head)
	s.input(r.Input)
	if call := p.tools[r.ToolUseID]; call != nil && !sameJSON(call.tool.Input, r.Input) {
		s.input(call.tool.Input)
	}
	if len(s.lines) == 1 && r.Title != "" {
		s.value("title", r.Title)
	}
	if !p.o.Interactive {
		s.add(dim, fieldIndent, fmt.Sprintf("sojourn respond %s %s allow|deny", visible(cmp.Or(session, "ID")), visible(r.RequestID)))
	}
	p.emit(unit{lane: l, group: groupWork, lines: s.lines})
	p.endLine()
	p.release() // also what was held back, since it must be answered
}

// sheet has the lines of a request.
type sheet struct {
	p     *Printer
	room  int
	lines []string
}

// add appends one line, broken at the terminal's width.
func (s *sheet) add(st style, mark, text string) {
	for {
		at := splitAt(text, s.room-width(mark))
		s.lines = append(s.lines, mark+s.p.paint(st, text[:at]))
		if text = text[at:]; text == "" {
			return
		}
		mark = markContinue
	}
}

// input appends the fields of a tool's input.
func (s *sheet) input(input json.RawMessage) {
	if len(input) == 0 {
		return
	}
	// Decoded, since an escape in JSON could hide a letter.
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		v = string(input)
	}
	s.value("", v)
}

// value appends a value under the path to it, such as edits[0].file.
func (s *sheet) value(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		s.object(path, v)
	case []any:
		for i, element := range v {
			s.value(fmt.Sprintf("%s[%d]", path, i), element)
		}
		if len(v) == 0 && path != "" {
			s.field(path, "[]")
		}
	case string:
		s.text(path, v)
	default:
		text, _ := json.Marshal(v) // decoded from JSON, so it can be encoded
		s.field(path, string(text))
	}
}

func (s *sheet) field(path, text string) {
	s.add(plain, fieldIndent, cmp.Or(visible(path), "input")+": "+text)
}

func (s *sheet) object(path string, fields map[string]any) {
	if len(fields) == 0 && path != "" {
		s.field(path, "{}")
	}
	was, becomes, lines := change(fields)
	for _, name := range slices.SortedFunc(maps.Keys(fields), summaryFieldsFirst) {
		at := name
		if path != "" {
			at = path + "." + name
		}
		switch {
		case lines == nil || name != was && name != becomes:
			s.value(at, fields[name])
		case name == becomes:
			s.difference(at, lines)
		}
	}
}

func summaryFieldsFirst(a, b string) int {
	rank := func(name string) int {
		if i := slices.Index(summaryFields[:], name); i >= 0 {
			return i
		}
		return len(summaryFields)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// text appends a string: beside its name, or on separate lines.
func (s *sheet) text(path, text string) {
	if !strings.Contains(text, "\n") {
		s.field(path, cmp.Or(visible(text), `""`))
		return
	}
	s.add(plain, fieldIndent, cmp.Or(visible(path), "input")+":")
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		s.add(plain, markValue, visible(line))
	}
}

// difference appends the lines of a unified diff.
func (s *sheet) difference(path string, lines []string) {
	s.add(plain, fieldIndent, visible(path)+", as a difference:")
	for _, line := range lines {
		s.add(differenceStyles[line[:1]], markValue, visible(line))
	}
}

// differenceStyles are by the first character of a line of a unified diff.
var differenceStyles = map[string]style{"+": green, "-": red, "@": dim}

// changes are the names that tools use for a piece of a file and its replacement.
var changes = [...][2]string{{"old_string", "new_string"}, {"oldString", "newString"}, {"oldText", "newText"}}

// change returns the two fields of an object that describe a change of a text,
// and the change as the lines of a unified diff; nil lines for none.
func change(fields map[string]any) (was, becomes string, lines []string) {
	for _, names := range changes {
		before, known := fields[names[0]].(string)
		after, given := fields[names[1]].(string)
		isNew := fields[names[0]] == nil
		if given && (known || isNew) {
			return names[0], names[1], unified(before, after)
		}
	}
	return "", "", nil
}

// unified returns a unified diff without its head; nil for equal texts.
func unified(before, after string) []string {
	if !strings.HasSuffix(before, "\n") && !strings.HasSuffix(after, "\n") {
		// Neither ends its last line: that is not a difference to show.
		before, after = ended(before), ended(after)
	}
	const head = 3 // the names of the files
	all := strings.Split(strings.TrimSuffix(string(diff.Diff("", []byte(before), "", []byte(after))), "\n"), "\n")
	if len(all) <= head {
		return nil
	}
	return all[head:]
}

func ended(text string) string {
	if text == "" {
		return ""
	}
	return text + "\n"
}

// sameJSON reports whether both encode one value.
func sameJSON(a, b json.RawMessage) bool {
	var v, w any
	if json.Unmarshal(a, &v) != nil || json.Unmarshal(b, &w) != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(v, w)
}
