// Package limits bounds what a session may use. It does no I/O and reads no clock.
package limits

import (
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// Limits bound what a session uses over its whole life. 0 is no limit.
type Limits struct {
	// CostUSD bounds the cost of the session's turns and of its children. A child has a part
	// of the remainder, which counts as used until it ends. An agent
	// that reports its cost only after its turn is bound by what it has reported; one that
	// reports none, by the worker's prices.
	CostUSD float64 `json:"costUSD,omitempty"`
	// Tokens bounds input and output tokens together, those of children included: a child
	// has a part of the remainder, as of CostUSD.
	Tokens int64 `json:"tokens,omitempty"`
	// ModelCalls bounds the calls of models by the session's own conversation: not by
	// native subagents, nor by children. It doesn't bind an agent that reports no model
	// calls.
	ModelCalls int `json:"modelCalls,omitempty"`
	// Turns bounds how many messages are answered.
	Turns int `json:"turns,omitempty"`
	// WorkMS bounds how long turns run on a host, in milliseconds, including waits for a
	// person.
	WorkMS int64 `json:"workMs,omitempty"`
}

// Change is a change of some limits; nil keeps one, 0 removes it.
type Change struct {
	CostUSD    *float64 `json:"costUSD,omitempty"`
	Tokens     *int64   `json:"tokens,omitempty"`
	ModelCalls *int     `json:"modelCalls,omitempty"`
	Turns      *int     `json:"turns,omitempty"`
	WorkMS     *int64   `json:"workMs,omitempty"`
}

// With returns the limits with a change applied.
func (l Limits) With(c Change) Limits {
	set(&l.CostUSD, c.CostUSD)
	set(&l.Tokens, c.Tokens)
	set(&l.ModelCalls, c.ModelCalls)
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
	// CostUSD is nil while no agent has reported a cost.
	CostUSD *float64 `json:"costUSD,omitempty"`
	Tokens  int64    `json:"tokens,omitempty"`
	// Calls counts model calls, as far as the agent reports them.
	Calls int           `json:"calls,omitempty"`
	Turns int           `json:"turns,omitempty"`
	Work  time.Duration `json:"work,omitempty"`
}

// Add returns the usage plus that of a turn since.
func (u Used) Add(usage event.Usage, costUSD *float64, work time.Duration) Used {
	u.CostUSD = event.AddKnown(u.CostUSD, costUSD)
	u.Tokens += usage.InputTokens + usage.OutputTokens
	u.Work += work
	return u
}

// Reached returns a description of the first limit that was reached; "" for none.
// An unknown cost reaches none.
func (l Limits) Reached(u Used) string {
	switch {
	case l.CostUSD > 0 && u.CostUSD != nil && *u.CostUSD >= l.CostUSD:
		return fmt.Sprintf("the limit of $%.4g is reached: $%.4g", l.CostUSD, *u.CostUSD)
	case l.Tokens > 0 && u.Tokens >= l.Tokens:
		return fmt.Sprintf("the limit of %d tokens is reached: %d", l.Tokens, u.Tokens)
	case l.ModelCalls > 0 && u.Calls >= l.ModelCalls:
		return fmt.Sprintf("the limit of %d model calls is reached", l.ModelCalls)
	case l.Turns > 0 && u.Turns >= l.Turns:
		return fmt.Sprintf("the limit of %d turns is reached", l.Turns)
	case l.WorkMS > 0 && u.Work >= time.Duration(l.WorkMS)*time.Millisecond:
		return fmt.Sprintf("the limit of %s of work is reached", time.Duration(l.WorkMS)*time.Millisecond)
	}
	return ""
}

// maxWorkMS is 100 years; far more would overflow a time.Duration.
const maxWorkMS = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

// Invalid returns the name of an invalid field; "" if all are valid.
func (l Limits) Invalid() string {
	switch {
	case l.CostUSD < 0 || l.CostUSD != l.CostUSD:
		return "costUSD"
	case l.Tokens < 0:
		return "tokens"
	case l.ModelCalls < 0:
		return "modelCalls"
	case l.Turns < 0:
		return "turns"
	case l.WorkMS < 0 || l.WorkMS > maxWorkMS:
		return "workMs"
	}
	return ""
}
