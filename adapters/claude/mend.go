package claude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/sojourn-run/sojourn/adapters"
)

// mend adds to a transcript what keeps the program from going on at an old
// place. It gives nothing when there is nothing to add.
//
// Now and then, and when it ends, the program notes which message was the last
// one (a line "last-prompt", its leafUuid). Of calls that run at once, the
// results become branches, of which one is gone on from and the others stay
// without a child. A note that is written in between may name such an end; and a
// program that is started after a kill goes on from the noted message if it has
// no child, without all that came later. Seen with 2.1.197, see
// TestResumeBehindParallelCalls.
func mend(data []byte) []byte {
	note, noted := lastNote(data)
	if noted == "" {
		return nil
	}
	tip := lastMessage(data)
	if tip == "" || tip == noted || bytes.Contains(data, []byte(`"parentUuid":"`+noted+`"`)) {
		return nil
	}
	var added []byte
	if !bytes.HasSuffix(data, []byte("\n")) {
		added = append(added, '\n')
	}
	// Quotes in the note's text are escaped: this is its field.
	added = append(added, bytes.Replace(note, leaf(noted), leaf(tip), 1)...)
	return append(added, '\n')
}

func leaf(id string) []byte { return []byte(`"leafUuid":"` + id + `"`) }

// lastNote is the last whole line that notes where the conversation stands, and
// what message it names.
func lastNote(data []byte) (line []byte, id string) {
	for {
		at := bytes.LastIndex(data, []byte(`{"type":"last-prompt"`))
		if at < 0 {
			return nil, ""
		}
		var note struct {
			LeafUUID string `json:"leafUuid"`
		}
		line, _, _ := bytes.Cut(data[at:], []byte("\n"))
		begins := at == 0 || data[at-1] == '\n'
		if begins && json.Unmarshal(line, &note) == nil && note.LeafUUID != "" {
			return line, note.LeafUUID
		}
		data = data[:at]
	}
}

// lastMessage is the id of the last message of the session itself.
func lastMessage(data []byte) string {
	for len(data) > 0 {
		at := bytes.LastIndexByte(bytes.TrimRight(data, "\n"), '\n') + 1
		var m struct {
			Type        string `json:"type"`
			UUID        string `json:"uuid"`
			IsSidechain bool   `json:"isSidechain"`
		}
		err := json.Unmarshal(data[at:], &m)
		if err == nil && m.UUID != "" && !m.IsSidechain && (m.Type == "user" || m.Type == "assistant") {
			return m.UUID
		}
		data = data[:at]
	}
	return ""
}

// mended is the transcript with what it needs, as a file to write.
func mended(home adapters.Home, name string) ([]adapters.File, error) {
	f, err := home.Open(name)
	if err != nil {
		return nil, fmt.Errorf("claude: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("claude: read %s: %w", name, err)
	}
	added := mend(data)
	if added == nil {
		return nil, nil
	}
	return []adapters.File{{Base: adapters.InHome, Path: name, Mode: 0o600, Data: append(data, added...)}}, nil
}
