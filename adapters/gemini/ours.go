package gemini

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
)

// A tool may run the agent's program too, in the same home and workspace: its
// sessions are beside the conversation's own and look like them. The agent chooses
// the ids, so Prepare notes before each process which sessions there are. Of those
// that appear later at most one is the conversation's: its process opens its session
// before any tool runs, so it is the oldest, and it opens none if it has loaded one.

// notesFile has the notes, in the home.
const notesFile = ".sojourn/gemini/sessions.json"

// notes are the native sessions in a home before a process was started.
type notes struct {
	// Ours are the conversation's own, Others the rest.
	Ours   []string `json:"ours"`
	Others []string `json:"others"`
	// Loads is the file that the process was to load, which grows when it does; nil if
	// it was to open a new session.
	Loads *place `json:"loads,omitempty"`
}

// place is an end of a file.
type place struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

// maxNotes bounds what is read of the notes, in bytes.
const maxNotes = 1 << 20

// readNotes returns the notes in a home; nil for a home without, such as that of an
// older build.
func readNotes(home adapters.Home) (*notes, error) {
	in, err := home.Open(notesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	n := new(notes)
	if json.NewDecoder(io.LimitReader(in, maxNotes)).Decode(n) != nil {
		return nil, nil // a tool has written it
	}
	return n, nil
}

// ours returns the ids of the conversation's own sessions among those in a home,
// which are sorted by age.
func ours(home adapters.Home, all []chat) (map[string]bool, error) {
	n, err := readNotes(home)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, c := range all {
		if n == nil || c.placed() {
			own[c.session] = true
		}
	}
	if n != nil {
		n.complete(own, home, all)
	}
	return own, nil
}

// complete adds to the sessions that are known by their files' names those that were
// noted, and the one that the process has opened. It has opened none if it has loaded
// one, and what it has opened is known already if the host was interrupted between
// moving the file and writing the notes.
func (n *notes) complete(own map[string]bool, home adapters.Home, all []chat) {
	complete := n.Loads.grown(home)
	for id := range own {
		complete = complete || id != "" && !slices.Contains(n.Ours, id)
	}
	for _, id := range n.Ours {
		own[id] = true
	}
	for _, c := range all {
		if !complete && c.prompts && c.session != "" && !own[c.session] && !slices.Contains(n.Others, c.session) {
			own[c.session], complete = true, true
		}
	}
}

// placed reports whether a file is where only Prepare and Place put one: under the
// name of an idle session, or in one piece, as today's agent does not write them.
func (c *chat) placed() bool {
	return strings.HasPrefix(path.Base(c.path), chatPrefix+idleMinute) || kindOf(c.path) == adapters.Snapshot
}

// grown reports whether a file is longer than it was; no file is not.
func (p *place) grown(home adapters.Home) bool {
	if p == nil {
		return false
	}
	in, err := home.OpenAt(p.Path, p.Size)
	if err != nil {
		return false
	}
	defer in.Close()
	n, _ := io.ReadFull(in, make([]byte, 1)) // what can't be read has not grown
	return n > 0
}

// note returns the file with the notes before a process is started; ok is false if it
// is there already.
func note(home adapters.Home, all []chat, own map[string]bool, loads *place) (file adapters.Repair, ok bool, err error) {
	n := notes{Ours: []string{}, Others: []string{}, Loads: loads}
	for _, c := range all {
		list := &n.Others
		if own[c.session] {
			list = &n.Ours
		}
		if c.session != "" && !slices.Contains(*list, c.session) {
			*list = append(*list, c.session)
		}
	}
	before, err := readNotes(home)
	data := nativejson.Encode(n)
	if err != nil || before != nil && string(nativejson.Encode(before)) == string(data) {
		return file, false, err
	}
	return adapters.Repair{Path: notesFile, Add: append(data, '\n')}, true, nil
}
