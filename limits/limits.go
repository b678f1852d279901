// Package limits bounds what a session may use. It does no I/O and reads no clock.
package limits

import (
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// Limits bound what a session uses in its whole life. 0 is no bound.
type Limits struct {
	// CostUSD bounds what the session's turns have cost, and its children that have
	// ended. An agent that reports no cost, or only behind its turn, is bound by what
	// it has reported.
	CostUSD float64 `json:"costUSD,omitempty"`
	// Tokens bounds input and output tokens together.
	Tokens int64 `json:"tokens,omitempty"`
	// Turns bounds how many messages are answered.
	Turns int `json:"turns,omitempty"`
	// WorkMS bounds how long turns run on a host, in milliseconds, waits for a person
	// included.
	WorkMS int64 `json:"workMs,omitempty"`
}

// Change is a change of some limits; nil leaves one as it is, 0 takes it away.
type Change struct {
	CostUSD *float64 `json:"costUSD,omitempty"`
	Tokens  *int64   `json:"tokens,omitempty"`
	Turns   *int     `json:"turns,omitempty"`
	WorkMS  *int64   `json:"workMs,omitempty"`
}

// With returns the limits with a change.
func (l Limits) With(c Change) Limits {
	set(&l.CostUSD, c.CostUSD)
	set(&l.Tokens, c.Tokens)
	set(&l.Turns, c.Turns)
	set(&l.WorkMS, c.WorkMS)
	return l
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Used is what a session has used.
type Used struct {
	// CostUSD is nil while no agent has reported any.
	CostUSD *float64      `json:"costUSD,omitempty"`
	Tokens  int64         `json:"tokens,omitempty"`
	Turns   int           `json:"turns,omitempty"`
	Work    time.Duration `json:"work,omitempty"`
}

// Add returns what was used with what a turn has used since.
func (u Used) Add(usage event.Usage, costUSD *float64, work time.Duration) Used {
	u.CostUSD = event.AddCost(u.CostUSD, costUSD)
	u.Tokens += usage.InputTokens + usage.OutputTokens
	u.Work += work
	return u
}

// Reached returns the first limit that was reached, in words; "" for none. Unknown
// cost reaches none.
func (l Limits) Reached(u Used) string {
	switch {
	case l.CostUSD > 0 && u.CostUSD != nil && *u.CostUSD >= l.CostUSD:
		return fmt.Sprintf("the limit of $%.4g is reached: $%.4g", l.CostUSD, *u.CostUSD)
	case l.Tokens > 0 && u.Tokens >= l.Tokens:
		return fmt.Sprintf("the limit of %d tokens is reached: %d", l.Tokens, u.Tokens)
	case l.Turns > 0 && u.Turns >= l.Turns:
		return fmt.Sprintf("the limit of %d turns is reached", l.Turns)
	case l.WorkMS > 0 && u.Work >= time.Duration(l.WorkMS)*time.Millisecond:
		return fmt.Sprintf("the limit of %s of work is reached", time.Duration(l.WorkMS)*time.Millisecond)
	}
	return ""
}

// Invalid names a field that can't be; "" if all can.
func (l Limits) Invalid() string {
	switch {
	case l.CostUSD < 0 || l.CostUSD != l.CostUSD:
		return "costUSD"
	case l.Tokens < 0:
		return "tokens"
	case l.Turns < 0:
		return "turns"
	case l.WorkMS < 0:
		return "workMs"
	}
	return ""
}
