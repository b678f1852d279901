package workspace

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/sandbox"
)

// QuietFolders returns the names of folders below which changes make no events,
// though they are archived: changes of a repository's inner files, of an agent's
// own, and of what tools derive from other files tell subscribers nothing.
func QuietFolders() []string {
	return append([]string{".git", ".claude", "dist", "build", ".cache", ".next", "target", "coverage", "vendor"}, caches()...)
}

// quiet reports whether a file's changes make no events.
func quiet(name string) bool {
	folders := QuietFolders()
	for part := range strings.SplitSeq(name, "/") {
		if slices.Contains(folders, part) {
			return true
		}
	}
	return false
}

// Observation is the state of a workspace file at a time.
type Observation struct {
	// Path is relative to the workspace: bytes, not always UTF-8.
	Path string
	// Gone means that the file does not exist any more. SHA256, Mode, Size and
	// Content are empty then.
	Gone bool
	// SHA256 of the content, in hex.
	SHA256 string
	// Mode has the permission bits.
	Mode fs.FileMode
	// Size is in bytes.
	Size int64
	// Content is nil if it is not text, or too long.
	Content *string
	At      time.Time

	// modeUnknown is set if only the content is known.
	modeUnknown bool
}

func (o Observation) differs(was Observation) bool {
	return was.Gone || was.SHA256 != o.SHA256 || was.Mode != o.Mode && !was.modeUnknown && !o.modeUnknown
}

// Notifier remembers what was published of a workspace, so that each change is
// reported once, whatever observed it. Safe for concurrent use.
type Notifier struct {
	mu sync.Mutex
	// published has the last observation of each file. That of a file that is gone outdates
	// earlier ones, which may arrive later, until a sync that began after it has ended.
	published map[string]Observation
	// unsent are the observations whose events were not sent yet, in order.
	unsent []Observation
}

// begin records what is archived as known. Only the first call counts.
func (n *Notifier) begin(files []File) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.published != nil {
		return
	}
	n.published = map[string]Observation{}
	for _, f := range files {
		if f.Regular() && !quiet(f.Path) {
			n.published[f.Path] = Observation{Path: f.Path, SHA256: f.SHA256, Mode: f.Mode.Perm()}
		}
	}
}

// isNews reports whether subscribers do not know this observation yet.
func (n *Notifier) isNews(o Observation) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unknown(o)
}

func (n *Notifier) unknown(o Observation) bool {
	was, known := n.published[o.Path]
	switch {
	case known && was.At.After(o.At):
		return false
	case o.Gone:
		return known && !was.Gone
	}
	return !known || o.differs(was)
}

// Publish passes emit the events for what is new, if there is anything, and records them as
// sent once emit has succeeded. After an error the next call passes what was new again:
// the syncs don't, since they read a file once. Changes in [QuietFolders], and paths that
// lead out of the workspace, make no events. emit must not use the notifier.
func (n *Notifier) Publish(seen []Observation, emit func([]event.Event) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen, n.unsent = append(n.unsent, seen...), nil
	var events []event.Event
	var sent []Observation
	before := map[string]Observation{}
	for _, o := range seen {
		if !sandbox.CleanPath(o.Path) || quiet(o.Path) || !n.unknown(o) {
			continue
		}
		was, known := n.published[o.Path]
		if _, again := before[o.Path]; !again {
			was.Gone = was.Gone || !known
			before[o.Path] = was
		}
		events = append(events, event.FromServer(o.payload(known && !was.Gone), time.Now().UTC()))
		sent = append(sent, o)
		o.Content = nil
		n.published[o.Path] = o
	}
	if len(events) == 0 {
		return nil
	}
	err := emit(events)
	if err != nil {
		n.unsent = sent
		maps.Copy(n.published, before)
	}
	return err
}

// Keep keeps observations for the next Publish.
func (n *Notifier) Keep(seen []Observation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unsent = append(n.unsent, seen...)
}

// payload returns the event for subscribers; known files were modified, others
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

// Replay records what another worker has published. Events of other kinds, and
// all events before [Syncer.Load], are ignored.
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
	if n.published != nil {
		n.published[f.Path] = Observation{Path: f.Path, Gone: gone, SHA256: f.SHA256, modeUnknown: true}
	}
}

// prune forgets files that were gone before a time, unless earlier observations are still
// unsent, which may be of a file that was there until then.
func (n *Notifier) prune(before time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.unsent) == 0 {
		maps.DeleteFunc(n.published, func(_ string, o Observation) bool { return o.Gone && o.At.Before(before) })
	}
}

// existing returns the paths of the files that exist as far as subscribers know.
func (n *Notifier) existing() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, o := range n.published {
		if !o.Gone {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
