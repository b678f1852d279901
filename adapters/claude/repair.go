package claude

import (
	"bytes"
	"encoding/json"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
)

// repair returns what must be added to a session's own transcript to keep the program from
// continuing at an old place; nothing if there is nothing to add.
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
func repair(home adapters.Home, transcript string) ([]adapters.Repair, error) {
	in, err := lines.OpenAt(Name, home, transcript, lines.Mark{})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var e end
	if err := in.Followed(e.line); err != nil {
		return nil, err
	}
	if e.noted == "" || e.tip == "" || e.tip == e.noted || e.wanted {
		return nil, nil
	}
	// Quotes in the note's text are escaped: this is its field.
	added := append(bytes.Replace(e.note, leaf(e.noted), leaf(e.tip), 1), '\n')
	return []adapters.Repair{{Path: transcript, From: transcript, End: in.Size(), Add: added}}, nil
}

func leaf(id string) []byte { return []byte(`"leafUuid":"` + id + `"`) }

// end is what is known about the end of a transcript.
type end struct {
	// note is the last line that notes the conversation's current message, and noted the
	// message that it names.
	note  []byte
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
		e.note, e.noted, e.wanted = bytes.Clone(line), m.LeafUUID, m.Explicit
	case m.UUID != "" && !m.IsSidechain && (m.Type == "user" || m.Type == "assistant"):
		e.tip, e.wanted = m.UUID, false
	}
}
