package batch

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
)

// Names of the workflows, and of the messages that a batch takes.
const (
	Type     = "AgentBatch"
	ItemType = "AgentBatchItem"

	// SignalPause and SignalResume stop and continue the starting of items; those at work
	// continue. They have no payload.
	SignalPause  = "pause"
	SignalResume = "resume"
	// UpdateConfigure takes a Change and returns a Progress.
	UpdateConfigure = "configure"
	// QueryProgress returns a Progress.
	QueryProgress = "progress"
)

// Limits of a batch's input.
const (
	// DefaultWindow is how many items are at work at a time; MaxWindow bounds it.
	DefaultWindow, MaxWindow = 10, 500
	// DefaultAttempts is how often an item is tried.
	DefaultAttempts, MaxAttempts = 2, 10
	// DefaultPriority is Temporal's; MaxPriority is the last.
	DefaultPriority, MaxPriority = 3, 5
	// MaxItems bounds the number of items.
	MaxItems = 1_000_000
)

// Types of the failures of an item, besides those of its job.
const (
	// TypeEnded: the item's workflow was ended from outside.
	TypeEnded = jobs.TypeEnded
	// TypeCancelled: the batch, or the item, was cancelled.
	TypeCancelled = jobs.TypeCancelled
)

// Any is the key in Input.Attempts for the types of failures that are not in it.
const Any = "*"

// Input is what a batch has to do, besides its items.
type Input struct {
	// Job has what the items do not say themselves. {{NAME}} in its prompt is the item's
	// variable.
	Job jobs.Input `json:"job"`
	// Variants are what each line's item is run with, one job for each: an evaluation of
	// agents and models. Default: none, one job for each line.
	Variants []Variant `json:"variants,omitempty"`
	// Window is how many items are at work at a time. Default: DefaultWindow.
	Window int `json:"window,omitempty"`
	// Attempts is how often an item is tried in all, by the type of its failure (see
	// package jobs); "*" is for all others. Default: DefaultAttempts, and once for an item
	// that is invalid, did not pass its check, or was cancelled or terminated.
	Attempts map[string]int `json:"attempts,omitempty"`
	// MaxCostUSD is the known cost at which no more items are started, until it is raised.
	// Running items continue, so that it is passed by what these cost. Default: no limit.
	MaxCostUSD float64 `json:"maxCostUSD,omitempty"`
	// Priority is Temporal's priority key of all that the batch starts: of what waits for the
	// same workers, that of batches with a lower number is taken first, and batches with the
	// same one take turns. 1 to MaxPriority (5). Default: DefaultPriority (3).
	Priority int `json:"priority,omitempty"`
	// Items is their number (for each line one of each variant), Digest that of their lines; Start sets both.
	Items  int    `json:"items"`
	Digest string `json:"digest,omitempty"`
	// Carried is what a run leaves to the next one; not to be set by callers.
	Carried *State `json:"carried,omitempty"`
}

// Change is what can be changed of a batch while it runs; 0 changes nothing. A raised
// MaxCostUSD has a batch continue that has reached it.
type Change struct {
	Window     int     `json:"window,omitempty"`
	MaxCostUSD float64 `json:"maxCostUSD,omitempty"`
}

// Validate returns an error for the first invalid field. The job's own fields are checked with
// each item.
func (in Input) Validate() error {
	if err := in.validateWithoutItems(); err != nil {
		return err
	}
	if in.Items < 1 || in.Items > MaxItems {
		return session.Invalid("items", fmt.Sprintf("are %d", in.Items), fmt.Sprintf("1 to %d", MaxItems))
	}
	return nil
}

// validateWithoutItems is Validate for an input whose items were not read yet.
func (in Input) validateWithoutItems() error {
	if err := (Change{in.Window, in.MaxCostUSD}).Validate(); err != nil {
		return err
	}
	for _, typ := range typesIn(in.Attempts) {
		if n := in.Attempts[typ]; n < 1 || n > MaxAttempts {
			return session.Invalid("attempts."+typ, fmt.Sprintf("is %d", n), fmt.Sprintf("1 to %d", MaxAttempts))
		}
	}
	if in.Priority < 0 || in.Priority > MaxPriority {
		return session.Invalid("priority", fmt.Sprintf("is %d", in.Priority), fmt.Sprintf("1 to %d", MaxPriority))
	}
	if in.Job.SessionID != "" {
		return in.Job.ValidateRepeated()
	}
	return validateVariants(in.Variants)
}

// typesIn returns the types of failures in a map, in order.
func typesIn(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }

// Validate returns an error for the first invalid field.
func (c Change) Validate() error {
	if c.Window < 0 || c.Window > MaxWindow {
		return session.Invalid("window", fmt.Sprintf("is %d", c.Window), fmt.Sprintf("1 to %d", MaxWindow))
	}
	if !(c.MaxCostUSD >= 0) || math.IsInf(c.MaxCostUSD, 0) {
		return session.Invalid("maxCostUSD", fmt.Sprintf("is %v", c.MaxCostUSD), "dollars, more than 0")
	}
	return nil
}

// attempts returns how often an item is tried that fails with a type.
func (in Input) attempts(typ string) int {
	if n, ok := in.Attempts[typ]; ok {
		return n
	}
	switch typ {
	case session.TypeInvalid, TypeCancelled, TypeEnded, jobs.TypeCheckFailed:
		return 1 // another attempt at a check would tell of luck
	}
	if n, ok := in.Attempts[Any]; ok {
		return n
	}
	return DefaultAttempts
}

// State is what a run leaves to the next one.
type State struct {
	// Next is the first item that was never started.
	Next int `json:"next"`
	// Running are the items at work, Again those that wait for another attempt.
	Running []Attempt `json:"running,omitempty"`
	Again   []Attempt `json:"again,omitempty"`
	Totals  Totals    `json:"totals"`
	// Window and MaxCostUSD are the present ones, Paused is set while a person has paused
	// the batch.
	Window     int       `json:"window"`
	MaxCostUSD float64   `json:"maxCostUSD,omitempty"`
	Paused     bool      `json:"paused,omitempty"`
	StartedAt  time.Time `json:"startedAt"`
}

// maxAgain is how many items may wait for another attempt before no new ones are started: the
// next run takes over the list.
const maxAgain = 1000

// take returns the next attempt: first at new items, so that what fails always delays none.
func (st *State) take(items int) (a Attempt) {
	if st.Next < items && len(st.Again) < maxAgain {
		st.Next++
		return Attempt{Index: st.Next - 1, Attempt: 1}
	}
	a, st.Again = st.Again[0], st.Again[1:]
	return a
}

// Attempt is one attempt at an item, counted from 1.
type Attempt struct {
	Index   int `json:"index"`
	Attempt int `json:"attempt"`
}

// Totals are what the ended items came to.
type Totals struct {
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	// Retried counts the attempts that were followed by another one.
	Retried int `json:"retried,omitempty"`
	// ByType has the failed items by the type of their failure.
	ByType map[string]int `json:"byType,omitempty"`
	Usage  event.Usage    `json:"usage"`
	// CostUSD is of all attempts whose cost is known, and Unpriced the number of the
	// others.
	CostUSD  float64 `json:"costUSD"`
	Unpriced int     `json:"unpriced,omitempty"`
}

// add counts what an attempt has used.
func (t *Totals) add(o Outcome) {
	t.Usage = t.Usage.Add(o.Usage)
	if o.CostUSD == nil {
		t.Unpriced++
	} else {
		t.CostUSD += *o.CostUSD
	}
}

// Progress is how far a batch is.
type Progress struct {
	Totals
	Items   int `json:"items"`
	Running int `json:"running"`
	// Waiting are items that wait for another attempt.
	Waiting int `json:"waiting,omitempty"`
	// PausedBy is why no items are started: PausedByHand or PausedByCost; "" if some are.
	PausedBy   string    `json:"pausedBy,omitempty"`
	Window     int       `json:"window"`
	MaxCostUSD float64   `json:"maxCostUSD,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
}

// Reasons in Progress.PausedBy.
const (
	PausedByHand = "paused by hand"
	PausedByCost = "its cost has reached maxCostUSD"
)

// Ended returns how many items have ended.
func (p Progress) Ended() int { return p.Completed + p.Failed }

// Outcome is how an attempt at an item ended, as the batch has to know it.
type Outcome struct {
	// Type and Message are those of the failure; "" if there was none.
	Type    string      `json:"type,omitempty"`
	Message string      `json:"message,omitempty"`
	Usage   event.Usage `json:"usage"`
	CostUSD *float64    `json:"costUSD,omitempty"`
}

// Line is what became of an item: a line of the results.
type Line struct {
	// Index counts the items from 0, Number the lines of the input from 1.
	Index  int `json:"index"`
	Number int `json:"line"`
	// ID is the item's own, or its line's number.
	ID string `json:"id"`
	// Variant is the name of the variant that the item was run with.
	Variant string `json:"variant,omitempty"`
	// Type and Message as in Outcome.
	Type    string `json:"type,omitempty"`
	Message string `json:"message,omitempty"`
	// Attempts is how often it was tried, and MS how long the last attempt took, in
	// milliseconds.
	Attempts int   `json:"attempts"`
	MS       int64 `json:"ms"`
	// Result is that of the last attempt; nil if its job never began.
	Result *jobs.Result `json:"result,omitempty"`
}

// Report is what a batch came to.
type Report struct {
	BatchID string `json:"batchId"`
	Totals
	Items int `json:"items"`
	// MS is how long the batch took, and the others how long items took, from the start of
	// the last attempt, in milliseconds.
	MS  int64 `json:"ms"`
	P50 int64 `json:"p50Ms"`
	P90 int64 `json:"p90Ms"`
	P99 int64 `json:"p99Ms"`
	Max int64 `json:"maxMs"`
	// Variants has the same for each variant, in their order.
	Variants []VariantReport `json:"variants,omitempty"`
}
