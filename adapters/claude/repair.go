package claude

import (
	"bytes"
	"encoding/json"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
)

// repair returns the files that let the program continue at the end of each transcript that
// it adds to, of which the first is the session's own. A line that a kill has cut is set
// aside, see [lines.Tail]: the program itself writes on behind it.
func repair(home adapters.Home, found []adapters.Transcript) (p adapters.Preparation, err error) {
	for i, t := range found {
		if t.Kind != adapters.Append {
			continue
		}
		var e end
		look := e.line
		if i > 0 {
			look = func([]byte) {} // only the session's own has notes
		}
		tail, err := lines.TailOf(Name, home, t.Path, look)
		if err != nil {
			return adapters.Preparation{}, err
		}
		p.Write = append(p.Write, tail.Continued(t.Path, e.note())...)
		if tail.Torn() {
			p.Note = lines.TornNote
		}
	}
	return p, nil
}

// note returns the line that keeps the program from continuing at an old place; nothing if
// it needs none.
//
// Periodically, and when it ends, the program notes which message was the last
// one (a line "last-prompt", its leafUuid). The results of parallel calls become
// branches, of which only one is continued. A note that is written in between may
// name another one's end. A program that is started after a kill continues from the
// noted message if the last one does not descend from it, without anything later.
// So the last message is noted again, also where the program would find it by
// itself. A note of a person who went back to an old place is explicit, and it
// holds until something comes behind it. Seen with 2.1.197, see
// TestResumeBehindParallelCalls.
func (e *end) note() []byte {
	if e.noted == "" || e.tip == "" || e.tip == e.noted || e.wanted {
		return nil
	}
	// Quotes in the note's text are escaped: this is its field.
	return append(bytes.Replace(e.last, leaf(e.noted), leaf(e.tip), 1), '\n')
}

func leaf(id string) []byte { return []byte(`"leafUuid":"` + id + `"`) }

// end is what is known about the end of a transcript.
type end struct {
	// last is the last line that notes the conversation's current message, and noted the
	// message that it names.
	last  []byte
	noted string
	// wanted: the note is explicit, and nothing came behind it.
	wanted bool
	// tip is the id of the last message of the session itself.
	tip string
}

var notePrefix = []byte(`{"type":"last-prompt"`)

func (e *end) line(line []byte) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	var m struct {
		Type        string `json:"type"`
		UUID        string `json:"uuid"`
		IsSidechain bool   `json:"isSidechain"`
		LeafUUID    string `json:"leafUuid"`
		Explicit    bool   `json:"explicit"`
	}
	switch err := json.Unmarshal(line, &m); {
	case err != nil:
	case m.LeafUUID != "" && bytes.HasPrefix(line, notePrefix):
		e.last, e.noted, e.wanted = bytes.Clone(line), m.LeafUUID, m.Explicit
	case m.UUID != "" && !m.IsSidechain && (m.Type == "user" || m.Type == "assistant"):
		e.tip, e.wanted = m.UUID, false
	}
}
