package modelsim

import (
	"maps"
	"slices"
	"sync"
)

// keepPrompts bounds what is remembered of a session, which may live for
// thousands of turns.
const keepPrompts = 1000

// Stats is what was asked of the server since it began. Requests are those for
// an answer of the model, whatever became of them; token counts are none.
type Stats struct {
	Total int `json:"total"`
	// Active is how many answers are under way.
	Active   int                     `json:"active"`
	Sessions map[string]SessionStats `json:"sessions"`
}

// SessionStats is the share of one agent session, its subagents included.
// Requests without a session id are counted under "".
type SessionStats struct {
	Requests int `json:"requests"`
	// Side counts the requests that the agent made for itself, such as those
	// for a title. They are not among Requests and Prompts.
	Side int `json:"side"`
	// Prompts are the prompts that requests were about, in the order of their
	// first request; only the last 1000 are kept.
	Prompts []PromptStats `json:"prompts"`
}

// PromptStats counts the requests about one prompt: one, and one more per
// round of tool results, unless the agent asked again.
type PromptStats struct {
	// Index is how many prompts came before it in its conversation.
	Index int `json:"index"`
	// Text is the prompt, cut to 200 runes.
	Text     string `json:"text"`
	Requests int    `json:"requests"`
	// Steps counts the requests by the number of tool results that they
	// brought, those of calls that wait for a subagent included. A count over 1 means that an answer was paid twice.
	Steps map[int]int `json:"steps"`
}

type ledger struct {
	mu       sync.Mutex
	total    int
	active   int
	sessions map[string]*SessionStats
	// roots are the sessions of subagents, with those that they belong to.
	roots map[string]string
}

// begin counts a request and returns the session that it counts under.
func (l *ledger) begin(a asked) (session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.active++
	session = l.root(a.session, a.parent)
	if l.sessions == nil {
		l.sessions = map[string]*SessionStats{}
	}
	if l.sessions[session] == nil {
		l.sessions[session] = &SessionStats{Prompts: []PromptStats{}}
	}
	s := l.sessions[session]
	if a.Side {
		s.Side++
		return session
	}
	s.Requests++
	s.note(max(len(a.Turns)-1, 0), a.last())
	return session
}

// root is the session that the user sees: subagents may have sessions of
// their own, which name the one above them.
func (l *ledger) root(session, parent string) string {
	if parent == "" {
		return session
	}
	if l.roots == nil {
		l.roots = map[string]string{}
	}
	root := parent
	if above, ok := l.roots[parent]; ok {
		root = above
	}
	l.roots[session] = root
	return root
}

func (s *SessionStats) note(index int, turn Turn) {
	text := head(turn.Prompt, 200)
	i := slices.IndexFunc(s.Prompts, func(p PromptStats) bool { return p.Index == index && p.Text == text })
	if i < 0 {
		if len(s.Prompts) == keepPrompts {
			s.Prompts = slices.Delete(s.Prompts, 0, 1)
		}
		i = len(s.Prompts)
		s.Prompts = append(s.Prompts, PromptStats{Index: index, Text: text, Steps: map[int]int{}})
	}
	s.Prompts[i].Requests++
	s.Prompts[i].Steps[len(turn.Results)+turn.Waits]++
}

func (l *ledger) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
}

func (l *ledger) requests(session string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[session]; s != nil {
		return s.Requests
	}
	return 0
}

func (l *ledger) snapshot() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Stats{Total: l.total, Active: l.active, Sessions: map[string]SessionStats{}}
	for id, s := range l.sessions {
		c := SessionStats{Requests: s.Requests, Side: s.Side, Prompts: slices.Clone(s.Prompts)}
		for i := range c.Prompts {
			c.Prompts[i].Steps = maps.Clone(c.Prompts[i].Steps)
		}
		out.Sessions[id] = c
	}
	return out
}
