package opencode

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// moment is what happens to a part or message that makes a block.
type moment int

const (
	appears moment = iota
	begins
	ends
	fails
)

// mark is one moment of a part.
type mark struct {
	at   int64
	what moment
	part *part
}

// byTime orders marks; at the same time an end comes before a beginning.
func byTime(a, b mark) int { return cmp.Compare(a.at, b.at) }

// marksByTime are a part's moments by what it says itself: the id has the time
// at which it was made, and a call the times at which it ran.
func marksByTime(p *part) []mark {
	made := idTime(p.ID)
	marks := []mark{{made, appears, p}}
	if p.Type != "tool" || p.State == nil || p.State.Status == "pending" {
		return marks
	}
	begun := max(made, ticks(p.State.Time.Start))
	marks = append(marks, mark{begun, begins, p})
	if p.State.ended() {
		marks = append(marks, mark{max(begun, ticks(p.State.Time.End)), ends, p})
	}
	return marks
}

// The agent's ids begin with twelve hexadecimal digits: the milliseconds and a
// counter of twelve bits, cut to 48 bits.
const idDigits = 12

// idTime is the time in an id.
func idTime(id string) int64 {
	_, digits, found := strings.Cut(id, "_")
	if !found || len(digits) < idDigits {
		return 0
	}
	n, err := strconv.ParseInt(digits[:idDigits], 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// ticks is a time in milliseconds as ids have it: the end of the millisecond.
func ticks(ms int64) int64 { return (ms<<12 | 0xfff) & (1<<48 - 1) }

// tell emits one moment of a part of an answer.
func (s *emitter) tell(th *thread, m *message, k mark) {
	p := k.part
	switch {
	case p.Type == "text" || p.Type == "reasoning":
		if p.Text != "" && !p.Synthetic && !p.Ignored {
			s.text(th, m, p, event.StatusComplete)
		}
	case p.Type != "tool" || p.State == nil:
	case k.what == appears:
		s.toolAppears(th, p)
	case k.what == begins && s.Tools[p.ID] != nil:
		s.toolBegins(th, p, s.Tools[p.ID])
		s.linked(th, p, s.Tools[p.ID])
	case k.what == ends && s.Tools[p.ID] != nil:
		s.toolEnds(th, p, s.Tools[p.ID])
	}
}
