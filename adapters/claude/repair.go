package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
)

// repair returns what must be added to a transcript of size bytes to keep the
// program from continuing at an old place; nothing if there is nothing to add.
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
func repair(transcript adapters.Source) (added []byte, size int64, err error) {
	var e end
	if err := e.read(transcript); err != nil {
		return nil, 0, err
	}
	if e.noted == "" || e.tip == "" || e.tip == e.noted || e.wanted {
		return nil, e.size, nil
	}
	if e.torn {
		added = append(added, '\n')
	}
	// Quotes in the note's text are escaped: this is its field.
	added = append(added, bytes.Replace(e.note, leaf(e.noted), leaf(e.tip), 1)...)
	return append(added, '\n'), e.size, nil
}

func leaf(id string) []byte { return []byte(`"leafUuid":"` + id + `"`) }

// end is what is known about the end of a transcript.
type end struct {
	// note is the last whole line that notes the conversation's current message, and
	// noted the message that it names.
	note  []byte
	noted string
	// wanted: the note is explicit, and nothing came behind it.
	wanted bool
	// tip is the id of the last message of the session itself.
	tip string
	// torn: the last line has no end. size is the whole file's, in bytes.
	torn bool
	size int64
}

func (e *end) read(transcript adapters.Source) error {
	in, err := lines.Open("claude", transcript)
	if err != nil {
		return err
	}
	defer in.Close()
	for {
		line, err := in.Shared()
		if err != nil && !errors.Is(err, io.EOF) {
			return in.At(err)
		}
		e.line(line)
		if err != nil {
			e.size, e.torn = in.Size(), in.Torn()
			return nil
		}
	}
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

// repaired returns the repaired transcript, as a file to write.
func repaired(home adapters.Home, t adapters.Transcript) ([]adapters.Repair, error) {
	added, size, err := repair(adapters.Source{Transcript: t, Open: func() (io.ReadCloser, error) { return home.Open(t.Path) }})
	if added == nil {
		return nil, err
	}
	return []adapters.Repair{{Path: t.Path, From: t.Path, End: size, Add: added}}, nil
}
