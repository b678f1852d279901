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
// branches, of which one is continued and the others have no child. A note that
// is written in between may name such a branch's end. A program that is started
// after a kill continues from the noted message if that has no child, without
// anything later. Seen with 2.1.197, see TestResumeBehindParallelCalls.
func repair(transcript adapters.Source) (added []byte, size int64, err error) {
	var e end
	if err := e.read(transcript); err != nil {
		return nil, 0, err
	}
	if e.noted == "" || e.tip == "" || e.tip == e.noted {
		return nil, e.size, nil
	}
	if goneOn, err := hasChild(transcript, e.noted); goneOn || err != nil {
		return nil, e.size, err
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
	// tip is the id of the last message of the session itself.
	tip string
	// torn: the last line has no end. size is the whole file's, in bytes.
	torn bool
	size int64
}

func (e *end) read(transcript adapters.Source) (err error) {
	e.size, e.torn, err = eachLine(transcript, func(line []byte) (more bool) {
		e.line(line)
		return true
	})
	return err
}

var notePrefix = []byte(`{"type":"last-prompt"`)

func (e *end) line(line []byte) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	var m struct {
		Type        string `json:"type"`
		UUID        string `json:"uuid"`
		IsSidechain bool   `json:"isSidechain"`
		LeafUUID    string `json:"leafUuid"`
	}
	switch err := json.Unmarshal(line, &m); {
	case err != nil:
	case m.LeafUUID != "" && bytes.HasPrefix(line, notePrefix):
		e.note, e.noted = bytes.Clone(line), m.LeafUUID
	case m.UUID != "" && !m.IsSidechain && (m.Type == "user" || m.Type == "assistant"):
		e.tip = m.UUID
	}
}

// hasChild reports whether another message of a transcript continues this one.
func hasChild(transcript adapters.Source, id string) (found bool, err error) {
	parent := []byte(`"parentUuid":"` + id + `"`)
	_, _, err = eachLine(transcript, func(line []byte) (more bool) {
		found = bytes.Contains(line, parent)
		return !found
	})
	return found, err
}

// eachLine passes the lines of a transcript to take while it wants more, and
// returns how many bytes they have, and whether the last one is incomplete.
func eachLine(transcript adapters.Source, take func(line []byte) (more bool)) (size int64, torn bool, err error) {
	in, err := lines.Open("claude", transcript)
	if err != nil {
		return 0, false, err
	}
	defer in.Close()
	for {
		line, err := in.Shared()
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, false, in.At(err)
		}
		if len(line) > 0 && !take(line) || err != nil {
			return in.Size(), in.Torn(), nil
		}
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
