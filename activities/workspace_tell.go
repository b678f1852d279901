package activities

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
)

// What an event carries of a file's content: text up to this size, and no more
// than the sum per look.
const (
	toldFileBytes = 32 << 10
	toldBytes     = 1 << 20
)

// untoldFolders are names below which changes are no events, though they are
// kept: a repository's inner files, an agent's own, and what tools make of
// other files say nothing to anybody by their coming and going.
func untoldFolders() []string {
	return append([]string{".git", ".claude", "dist", "build", ".cache", ".next", "target", "coverage", "vendor"}, workspaceCaches()...)
}

// toldOf says whether a file's changes are events.
func toldOf(name string) bool {
	untold := untoldFolders()
	for part := range strings.SplitSeq(name, "/") {
		if slices.Contains(untold, part) {
			return false
		}
	}
	return true
}

// sighting is a file of the workspace as somebody saw it.
type sighting struct {
	path string
	gone bool
	sum  string
	// mode is modeUnknown where only the content is known.
	mode fs.FileMode
	size int64
	// content is nil for what is no text, or too long.
	content *string
	at      time.Time
}

const modeUnknown = ^fs.FileMode(0)

// teller knows what subscribers were told of a workspace. The looks of the
// archive and the watch beside a turn see the same changes; each is told once.
type teller struct {
	mu   sync.Mutex
	told map[string]sighting
}

// begin makes what is archived known: it is nobody's news.
func (t *teller) begin(files []archive.WorkspaceFile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told != nil {
		return
	}
	t.told = map[string]sighting{}
	for _, f := range files {
		if f.Regular() && toldOf(f.Path) {
			t.told[f.Path] = sighting{path: f.Path, sum: f.SHA256, mode: f.Mode.Perm()}
		}
	}
}

// news says whether subscribers do not know this yet.
func (t *teller) news(s sighting) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, is := t.told[s.path]
	switch {
	case is && was.at.After(s.at):
		return false
	case s.gone:
		return is && !was.gone
	}
	return !is || was.gone || was.sum != s.sum || was.mode != s.mode && was.mode != modeUnknown && s.mode != modeUnknown
}

// tell makes events of what is news, and notes that they were told.
func (t *teller) tell(sightings []sighting) (events []event.Event) {
	for _, s := range sightings {
		if !t.news(s) {
			continue
		}
		t.mu.Lock()
		was, is := t.told[s.path]
		noted := s
		noted.content = nil
		t.told[s.path] = noted
		t.mu.Unlock()
		file := event.File{Path: strings.ToValidUTF8(s.path, "\uFFFD"), Size: s.size, SHA256: s.sum, Content: s.content}
		switch {
		case s.gone:
			events = append(events, own(event.FileDeleted{File: event.File{Path: file.Path}}))
		case is && !was.gone:
			events = append(events, own(event.FileModified{File: file}))
		default:
			events = append(events, own(event.FileCreated{File: file}))
		}
	}
	return events
}

// hear takes over what another worker has told.
func (t *teller) hear(ev event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told == nil {
		return
	}
	note := func(f event.File, gone bool) {
		t.told[f.Path] = sighting{path: f.Path, gone: gone, sum: f.SHA256, mode: modeUnknown}
	}
	switch p := ev.Payload.(type) {
	case event.FileCreated:
		note(p.File, false)
	case event.FileModified:
		note(p.File, false)
	case event.FileDeleted:
		note(p.File, true)
	}
}

// beginning keeps the first bytes of what is written to it.
type beginning struct {
	limit int
	data  []byte
}

func (b *beginning) Write(p []byte) (int, error) {
	b.data = append(b.data, p[:min(len(p), b.limit-len(b.data))]...)
	return len(p), nil
}

// saw notes a file that was read.
func (l *look) saw(f archive.WorkspaceFile, b *beginning) {
	s := sighting{path: f.Path, sum: f.SHA256, mode: f.Mode.Perm(), size: f.Size, at: l.began}
	if !toldOf(f.Path) || !l.teller.news(s) {
		return
	}
	if len(b.data) <= toldFileBytes && l.told+len(b.data) <= toldBytes && isText(b.data) {
		l.told += len(b.data)
		content := string(b.data)
		s.content = &content
	}
	l.news = append(l.news, s)
}

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// missed notes what was told and is gone.
func (l *look) missed() {
	for _, name := range l.teller.standing() {
		if l.found[name] == regularFile || l.stays(name) {
			continue
		}
		l.news = append(l.news, sighting{path: name, gone: true, at: l.began})
	}
}

// standing are the files that subscribers take for standing, by path.
func (t *teller) standing() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, s := range t.told {
		if !s.gone {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
