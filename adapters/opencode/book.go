package opencode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event/jsonl"
)

// book is what a database says of conversations, whichever way it was read. What
// its parts say is on disk. It is to be closed.
type book struct {
	// sessions are the parents of the native sessions; "" for roots.
	sessions map[string]string
	messages map[string]*page
	parts    map[string]*entry
	// log is what happened to messages and parts, in order; where it is
	// missing, times decide.
	log []logged
	// told are the sessions of which the log has something.
	told  map[string]bool
	shelf *shelf
}

// page is a message's row.
type page struct {
	info *info
	row  int64
}

// entry is a part's row.
type entry struct {
	// part has what orders it; the shelf has the whole.
	part  *part
	place place
	row   int64
	// made is when it was, in milliseconds; 0 when not known.
	made int64
}

// logged is one event of the agent's own log.
type logged struct {
	at      int64
	session string
	// part or message is the subject, and what the moment of it.
	part, message string
	what          moment
}

func newBook(s *shelf) *book {
	return &book{
		sessions: map[string]string{}, messages: map[string]*page{}, parts: map[string]*entry{}, told: map[string]bool{}, shelf: s,
	}
}

func (b *book) addMessage(id, session string, row int64, data []byte) error {
	data, _ = jsonl.CutLine(data) // as it was told live
	i := new(info)
	if err := json.Unmarshal(data, i); err != nil {
		return fmt.Errorf("message %s: %w", id, err)
	}
	i.ID, i.SessionID = id, session
	b.messages[id] = &page{i, row}
	return nil
}

func (b *book) addPart(id, message, session string, e entry, data []byte) error {
	data, _ = jsonl.CutLine(data) // as it was told live
	p := new(part)
	if err := json.Unmarshal(data, p); err != nil {
		return fmt.Errorf("part %s: %w", id, err)
	}
	p.ID, p.MessageID, p.SessionID = id, message, session
	place, err := b.shelf.put(data)
	if err != nil {
		return fmt.Errorf("part %s: %w", id, err)
	}
	e.part, e.place = p.outline(), place
	b.parts[id] = &e
	return nil
}

// whole returns a part with all that it says.
func (b *book) whole(e *entry) (*part, error) {
	p := new(part)
	if err := b.shelf.get(e.place, p); err != nil {
		return nil, fmt.Errorf("part %s: %w", e.part.ID, err)
	}
	p.ID, p.MessageID, p.SessionID = e.part.ID, e.part.MessageID, e.part.SessionID
	return p, nil
}

func (b *book) close() error { return b.shelf.close() }

// addEvent takes an event of the log; those that say nothing about order are
// dropped.
func (b *book) addEvent(session string, row int64, kind string, data []byte) error {
	kind, _, _ = strings.Cut(kind, ".1")
	if kind != "message.updated" && kind != "message.part.updated" {
		return nil
	}
	var e struct {
		Info *struct {
			ID    string    `json:"id"`
			Role  string    `json:"role"`
			Error *apiError `json:"error"`
		} `json:"info"`
		Part *struct {
			ID    string `json:"id"`
			State *struct {
				Status string `json:"status"`
			} `json:"state"`
		} `json:"part"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("event %d: %w", row, err)
	}
	b.told[session] = true
	l := logged{at: row, session: session}
	switch {
	case e.Info != nil && e.Info.Error != nil:
		l.message, l.what = e.Info.ID, fails
	case e.Info != nil:
		return nil
	case e.Part != nil:
		l.part = e.Part.ID
		if e.Part.State != nil {
			l.what = momentOf(e.Part.State.Status)
		}
	}
	b.log = append(b.log, l)
	return nil
}

func momentOf(status string) moment {
	switch status {
	case "completed", "error":
		return ends
	case "running":
		return begins
	}
	return appears
}

// roots are the sessions that have no parent and have said something,
// in the order in which they began.
func (b *book) roots() []string {
	first := map[string]int64{}
	for _, m := range b.messages {
		s := b.root(m.info.SessionID)
		if at, ok := first[s]; !ok || m.row < at {
			first[s] = m.row
		}
	}
	roots := make([]string, 0, len(first))
	for s := range first {
		roots = append(roots, s)
	}
	slices.SortFunc(roots, func(x, y string) int {
		return cmp.Or(cmp.Compare(first[x], first[y]), strings.Compare(x, y))
	})
	return roots
}

// root is the session at whose bottom another was begun. A parent that the
// database does not have makes a root of its child.
func (b *book) root(session string) string {
	for range len(b.sessions) {
		parent := b.sessions[session]
		if _, known := b.sessions[parent]; !known || parent == "" {
			break
		}
		session = parent
	}
	return session
}

// choose returns the session whose conversation is emitted; "" where there is none.
func (b *book) choose(path string) (string, error) {
	roots := b.roots()
	switch {
	case len(roots) == 0:
		return "", nil
	case len(roots) > 1:
		return "", fmt.Errorf("opencode: %s: %w in one database: %s; take one out of it with `opencode export SESSION`",
			path, adapters.ErrManySessions, strings.Join(roots, ", "))
	}
	return roots[0], nil
}

// step is one thing to emit, in its place.
type step struct {
	at   int64
	part *entry
	page *page
	what moment
}

// steps are all that the conversations below a root say, in order.
func (b *book) steps(root string) []step {
	steps := b.loggedSteps(root)
	for _, e := range b.parts {
		if s := e.part.SessionID; b.root(s) == root && !b.told[s] {
			steps = append(steps, timedSteps(e)...)
		}
	}
	for _, m := range b.messages {
		if s := m.info.SessionID; m.info.Error != nil && b.root(s) == root && !b.told[s] {
			steps = append(steps, step{at: ticks(m.info.Time.Completed), page: m, what: fails})
		}
	}
	slices.SortStableFunc(steps, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.order(), y.order()))
	})
	return steps
}

// order is where the row is, which orders what the times don't.
func (s step) order() int64 {
	if s.part != nil {
		return s.part.row
	}
	return s.page.row
}

func timedSteps(e *entry) []step {
	var out []step
	for _, m := range marksByTime(e.part) {
		out = append(out, step{at: m.at, part: e, what: m.what})
	}
	return out
}

// loggedSteps follows the agent's own log: a moment is where it was first
// reached.
func (b *book) loggedSteps(root string) []step {
	type key struct {
		id   string
		what moment
	}
	seen := map[key]bool{}
	var out []step
	add := func(s step, id string, what moment) {
		if k := (key{id, what}); !seen[k] {
			seen[k] = true
			s.what = what
			out = append(out, s)
		}
	}
	slices.SortFunc(b.log, func(x, y logged) int { return cmp.Compare(x.at, y.at) })
	for n, l := range b.log {
		if b.root(l.session) != root {
			continue
		}
		s := step{at: int64(n)}
		if m := b.messages[l.message]; m != nil {
			s.page = m
			add(s, l.message, fails)
		}
		if e := b.parts[l.part]; e != nil {
			s.part = e
			for what := appears; what <= l.what; what++ {
				add(s, l.part, what)
			}
		}
	}
	for id, e := range b.parts {
		if s := e.part.SessionID; b.told[s] && b.root(s) == root {
			for _, m := range marksByTime(e.part) {
				add(step{at: int64(len(b.log)), part: e}, id, m.what)
			}
		}
	}
	return out
}
