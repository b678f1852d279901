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

// snapshot is a database's content of conversations, whichever way it was read. The
// contents of its parts are on disk. It must be closed.
type snapshot struct {
	// sessions are the parents of the native sessions; "" for roots.
	sessions map[string]string
	messages map[string]*messageRow
	parts    map[string]*partRow
	// log has the changes of messages and parts, in order; without it, times decide.
	log []logRow
	// inLog are the sessions that the log has.
	inLog    map[string]bool
	rowStore *rowStore
}

// messageRow is a message's row.
type messageRow struct {
	info *info
	row  int64
}

// partRow is a part's row.
type partRow struct {
	// part has what orders it; the row store has the whole.
	part  *part
	place place
	row   int64
	// made is its time, in milliseconds; 0 if not known.
	made int64
}

// logRow is one event of the agent's own log.
type logRow struct {
	at      int64
	session string
	// part or message is the subject, and what is its phase.
	part, message string
	what          phase
}

func newSnapshot(s *rowStore) *snapshot {
	return &snapshot{
		sessions: map[string]string{}, messages: map[string]*messageRow{}, parts: map[string]*partRow{}, inLog: map[string]bool{}, rowStore: s,
	}
}

func (b *snapshot) addMessage(id, session string, row int64, data []byte) error {
	data, _ = jsonl.CutLine(data) // as it was streamed
	i := new(info)
	if err := json.Unmarshal(data, i); err != nil {
		return fmt.Errorf("message %s: %w", id, err)
	}
	i.ID, i.SessionID = id, session
	b.messages[id] = &messageRow{i, row}
	return nil
}

func (b *snapshot) addPart(id, message, session string, e partRow, data []byte) error {
	data, _ = jsonl.CutLine(data) // as it was streamed
	p := new(part)
	if err := json.Unmarshal(data, p); err != nil {
		return fmt.Errorf("part %s: %w", id, err)
	}
	p.ID, p.MessageID, p.SessionID = id, message, session
	place, err := b.rowStore.put(data)
	if err != nil {
		return fmt.Errorf("part %s: %w", id, err)
	}
	e.part, e.place = p.outline(), place
	b.parts[id] = &e
	return nil
}

// whole returns a part with all its content.
func (b *snapshot) whole(e *partRow) (*part, error) {
	p := new(part)
	if err := b.rowStore.get(e.place, p); err != nil {
		return nil, fmt.Errorf("part %s: %w", e.part.ID, err)
	}
	p.ID, p.MessageID, p.SessionID = e.part.ID, e.part.MessageID, e.part.SessionID
	return p, nil
}

func (b *snapshot) close() error { return b.rowStore.close() }

// addEvent adds an event of the log; those that don't affect the order are
// dropped.
func (b *snapshot) addEvent(session string, row int64, kind string, data []byte) error {
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
	b.inLog[session] = true
	l := logRow{at: row, session: session}
	switch {
	case e.Info != nil && e.Info.Error != nil:
		l.message, l.what = e.Info.ID, fails
	case e.Info != nil:
		return nil
	case e.Part != nil:
		l.part = e.Part.ID
		if e.Part.State != nil {
			l.what = phaseOf(e.Part.State.Status)
		}
	}
	b.log = append(b.log, l)
	return nil
}

func phaseOf(status string) phase {
	switch status {
	case "completed", "error":
		return ends
	case "running":
		return begins
	}
	return appears
}

// roots returns the sessions that have no parent and have a message, in the order
// in which they were started.
func (b *snapshot) roots() []string {
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

// root returns the top-level ancestor of a session. If the database does not have
// a parent, its child is a root.
func (b *snapshot) root(session string) string {
	for range len(b.sessions) {
		parent := b.sessions[session]
		if _, known := b.sessions[parent]; !known || parent == "" {
			break
		}
		session = parent
	}
	return session
}

// choose returns the session whose conversation is emitted; "" if there is none.
func (b *snapshot) choose(path string) (string, error) {
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

// step is one thing to emit, at its place.
type step struct {
	at         int64
	part       *partRow
	messageRow *messageRow
	what       phase
}

// steps returns everything of the conversations below a root, in order.
func (b *snapshot) steps(root string) []step {
	steps := b.logSteps(root)
	for _, e := range b.parts {
		if s := e.part.SessionID; b.root(s) == root && !b.inLog[s] {
			steps = append(steps, timedSteps(e)...)
		}
	}
	for _, m := range b.messages {
		if s := m.info.SessionID; m.info.Error != nil && b.root(s) == root && !b.inLog[s] {
			steps = append(steps, step{at: ticks(m.info.Time.Completed), messageRow: m, what: fails})
		}
	}
	slices.SortStableFunc(steps, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.order(), y.order()))
	})
	return steps
}

// order returns the row number, which orders what the times don't.
func (s step) order() int64 {
	if s.part != nil {
		return s.part.row
	}
	return s.messageRow.row
}

func timedSteps(e *partRow) []step {
	var out []step
	for _, m := range marksByTime(e.part) {
		out = append(out, step{at: m.at, part: e, what: m.what})
	}
	return out
}

// logSteps follows the agent's own log: a phase's place is where it was first
// reached.
func (b *snapshot) logSteps(root string) []step {
	type key struct {
		id   string
		what phase
	}
	seen := map[key]bool{}
	var out []step
	add := func(s step, id string, what phase) {
		if k := (key{id, what}); !seen[k] {
			seen[k] = true
			s.what = what
			out = append(out, s)
		}
	}
	slices.SortFunc(b.log, func(x, y logRow) int { return cmp.Compare(x.at, y.at) })
	for n, l := range b.log {
		if b.root(l.session) != root {
			continue
		}
		s := step{at: int64(n)}
		if m := b.messages[l.message]; m != nil {
			s.messageRow = m
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
		if s := e.part.SessionID; b.inLog[s] && b.root(s) == root {
			for _, m := range marksByTime(e.part) {
				add(step{at: int64(len(b.log)), part: e}, id, m.what)
			}
		}
	}
	return out
}
