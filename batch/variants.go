package batch

import (
	"fmt"
	"slices"

	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
)

// MaxVariants bounds the number of variants.
const MaxVariants = 50

// Variant is an agent to evaluate. What it sets takes precedence over the batch's job and over
// the item.
type Variant struct {
	// Name is that of the results. Required, each once.
	Name string `json:"name"`
	// Agent, Model and Profile as in session.Options; "" changes nothing.
	Agent   string `json:"agent,omitempty"`
	Model   string `json:"model,omitempty"`
	Profile string `json:"profile,omitempty"`
}

func validateVariants(all []Variant) error {
	if len(all) > MaxVariants {
		return session.Invalid("variants", fmt.Sprintf("are %d", len(all)), fmt.Sprintf("at most %d", MaxVariants))
	}
	seen := map[string]bool{}
	for i, v := range all {
		field := fmt.Sprintf("variants[%d].name", i)
		if v.Name == "" || seen[v.Name] {
			return session.Invalid(field, fmt.Sprintf("is %q", v.Name), "a name that no other variant has")
		}
		seen[v.Name] = true
	}
	return nil
}

// over returns a job with what the variant sets.
func (v Variant) over(in jobs.Input) jobs.Input {
	set(&in.Options.Agent, v.Agent)
	set(&in.Options.Model, v.Model)
	set(&in.Options.Profile, v.Profile)
	return in
}

func set(field *string, value string) {
	if value != "" {
		*field = value
	}
}

// VariantReport is what a variant came to.
type VariantReport struct {
	Name string `json:"name"`
	// Passed are the items that completed, and so passed their check; CheckFailed those
	// that did not, and Failed all others.
	Passed      int `json:"passed"`
	CheckFailed int `json:"checkFailed"`
	Failed      int `json:"failed"`
	// PassRate is the part of its items that passed, 0 to 1.
	PassRate float64 `json:"passRate"`
	// CostUSD is of the last attempts whose cost is known, and Unpriced the number of the
	// others.
	CostUSD  float64 `json:"costUSD"`
	Unpriced int     `json:"unpriced,omitempty"`
	// P50 and P90 are as in Report.
	P50 int64 `json:"p50Ms"`
	P90 int64 `json:"p90Ms"`
}

// tally collects the lines of one variant, or of all items.
type tally struct {
	VariantReport
	times []int64
}

func (t *tally) add(l Line) {
	switch l.Type {
	case "":
		t.Passed++
	case jobs.TypeCheckFailed:
		t.CheckFailed++
	default:
		t.Failed++
	}
	if l.Result == nil {
		return
	}
	t.times = append(t.times, l.MS)
	if l.Result.CostUSD == nil {
		t.Unpriced++
	} else {
		t.CostUSD += *l.Result.CostUSD
	}
}

// report returns the figures of what was added.
func (t *tally) report() VariantReport {
	slices.Sort(t.times)
	if n := t.Passed + t.CheckFailed + t.Failed; n > 0 {
		t.PassRate = float64(t.Passed) / float64(n)
	}
	t.P50, t.P90 = quantile(t.times, 50), quantile(t.times, 90)
	return t.VariantReport
}
