package opencode

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// phase is an event of a part or message that changes a block.
type phase int

const (
	appears phase = iota
	begins
	ends
	fails
)

// mark is one phase of a part.
type mark struct {
	at   int64
	what phase
	part *part
}

// byTime orders marks; at the same time an end precedes a beginning.
func byTime(a, b mark) int { return cmp.Compare(a.at, b.at) }

// marksByTime returns a part's phases by its own times: the id has the time at
// which it was made, and a call the times at which it ran.
func marksByTime(p *part) []mark {
	made := idTime(p.ID)
	marks := []mark{{made, appears, p}}
	if p.Type != "tool" || p.State == nil || p.State.Status == "pending" {
		return marks
	}
	started := max(made, ticks(p.State.Time.Start))
	marks = append(marks, mark{started, begins, p})
	if p.State.ended() {
		marks = append(marks, mark{max(started, ticks(p.State.Time.End)), ends, p})
	}
	return marks
}

// The agent's ids begin with twelve hexadecimal digits: the milliseconds and a
// counter of twelve bits, cut to 48 bits.
const idDigits = 12

// idTime returns the time in an id.
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

// ticks returns a time in milliseconds in the ids' unit: the end of the
// millisecond.
func ticks(ms int64) int64 { return (ms<<12 | 0xfff) & (1<<48 - 1) }

// emitPhase emits one phase of a part of an answer.
func (s *emitter) emitPhase(th *thread, m *message, k mark) {
	p := k.part
	switch {
	case p.Type == "text" || p.Type == "reasoning":
		if p.Text != "" && !p.Synthetic && !p.Ignored {
			s.text(th, m, p, event.StatusComplete)
		}
	case p.Type == "step-finish":
		s.used(th, p)
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
