package workspace

import (
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/sandbox"
)

// QuietFolders returns the names of folders below which changes are no events,
// though they are kept: a repository's inner files, an agent's own, and what
// tools make of other files say nothing to anybody by their coming and going.
func QuietFolders() []string {
	return append([]string{".git", ".claude", "dist", "build", ".cache", ".next", "target", "coverage", "vendor"}, caches()...)
}

// quiet reports whether a file's changes are no events.
func quiet(name string) bool {
	folders := QuietFolders()
	for part := range strings.SplitSeq(name, "/") {
		if slices.Contains(folders, part) {
			return true
		}
	}
	return false
}

// Observation is a file of the workspace as it was seen at a time.
type Observation struct {
	// Path is relative to the workspace: bytes, not always UTF-8.
	Path string
	// Gone means that there is no such file any more. SHA256, Mode, Size and
	// Content are empty then.
	Gone bool
	// SHA256 of the content, in hex.
	SHA256 string
	// Mode has the permission bits.
	Mode fs.FileMode
	// Size is in bytes.
	Size int64
	// Content is nil for what is no text, or too long.
	Content *string
	At      time.Time

	// modeUnknown is set where only the content is known.
	modeUnknown bool
}

func (o Observation) differs(was Observation) bool {
	return was.Gone || was.SHA256 != o.SHA256 || was.Mode != o.Mode && !was.modeUnknown && !o.modeUnknown
}

// Notifier keeps what was published of a workspace, so that each change
// is reported once, whatever saw it. Safe for concurrent use.
type Notifier struct {
	mu   sync.Mutex
	told map[string]Observation
}

// begin makes what is archived known: it is no news. Only the first call counts.
func (n *Notifier) begin(files []File) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told != nil {
		return
	}
	n.told = map[string]Observation{}
	for _, f := range files {
		if f.Regular() && !quiet(f.Path) {
			n.told[f.Path] = Observation{Path: f.Path, SHA256: f.SHA256, Mode: f.Mode.Perm()}
		}
	}
}

// isNews reports whether subscribers do not know this yet.
func (n *Notifier) isNews(o Observation) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unknown(o)
}

func (n *Notifier) unknown(o Observation) bool {
	was, told := n.told[o.Path]
	switch {
	case told && was.At.After(o.At):
		return false
	case o.Gone:
		return told && !was.Gone
	}
	return !told || o.differs(was)
}

// Events returns the events of what is new, and notes them as sent.
// Changes in [QuietFolders], and paths that lead out of the workspace, are none.
func (n *Notifier) Events(seen []Observation) (events []event.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range seen {
		if !sandbox.CleanPath(o.Path) || quiet(o.Path) || !n.unknown(o) {
			continue
		}
		was, told := n.told[o.Path]
		events = append(events, event.FromServer(o.payload(told && !was.Gone), time.Now().UTC()))
		o.Content = nil
		n.told[o.Path] = o
	}
	return events
}

// payload is the event that subscribers get; known files were modified, others
// created.
func (o Observation) payload(known bool) event.Payload {
	f := event.File{Path: strings.ToValidUTF8(o.Path, "\uFFFD"), Size: o.Size, SHA256: o.SHA256, Content: o.Content}
	switch {
	case o.Gone:
		return event.FileDeleted{File: event.File{Path: f.Path}}
	case known:
		return event.FileModified{File: f}
	}
	return event.FileCreated{File: f}
}

// Replay notes what another worker has published. Events of other kinds, and all of
// them before the archive was asked ([Syncer.Load]), are ignored.
func (n *Notifier) Replay(ev event.Event) {
	switch p := ev.Payload.(type) {
	case event.FileCreated:
		n.replay(p.File, false)
	case event.FileModified:
		n.replay(p.File, false)
	case event.FileDeleted:
		n.replay(p.File, true)
	}
}

func (n *Notifier) replay(f event.File, gone bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told != nil {
		n.told[f.Path] = Observation{Path: f.Path, Gone: gone, SHA256: f.SHA256, modeUnknown: true}
	}
}

// existing returns the files that exist as far as subscribers know, by path.
func (n *Notifier) existing() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, o := range n.told {
		if !o.Gone {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
