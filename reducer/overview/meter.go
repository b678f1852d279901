package overview

import (
	"math"

	"github.com/sojourn-run/sojourn/event"
)

// Totals is what a session used.
type Totals struct {
	Usage   event.Usage `json:"usage"`
	CostUSD float64     `json:"costUSD"`
}

// Meter computes a session's totals from the agents' reports. They are of two
// kinds: what was used since the last report, and a process's own total so far. A
// process's total replaces the increments that it covers, so an agent may send
// both and nothing counts twice. It starts at zero with every new process, so the
// totals of former processes are kept apart.
type Meter struct {
	// Settled is what former totals confirmed, Open the sum of increments since, Seen
	// the running process's last total.
	Settled Totals `json:"settled"`
	Open    Totals `json:"open"`
	Seen    Totals `json:"seen"`
}

// report adds one report and returns the session's totals.
func (m *Meter) report(p event.MetadataUpdate) Totals {
	if p.Usage != nil && p.Total {
		m.Settled.Usage = m.Settled.Usage.Add(advance(m.Seen.Usage, *p.Usage))
		m.Seen.Usage, m.Open.Usage = *p.Usage, event.Usage{}
	} else if p.Usage != nil {
		m.Open.Usage = m.Open.Usage.Add(*p.Usage)
	}
	if p.CostUSD != nil && p.Total {
		m.Settled.CostUSD += advanceCost(m.Seen.CostUSD, *p.CostUSD)
		m.Seen.CostUSD, m.Open.CostUSD = *p.CostUSD, 0
	} else if p.CostUSD != nil {
		m.Open.CostUSD += *p.CostUSD
	}
	m.bound()
	return Totals{m.Settled.Usage.Add(m.Open.Usage), m.Settled.CostUSD + m.Open.CostUSD}
}

// restart moves the ended process's open increments to Settled.
func (m *Meter) restart() {
	m.Settled.Usage = m.Settled.Usage.Add(m.Open.Usage)
	m.Settled.CostUSD += m.Open.CostUSD
	m.Open, m.Seen = Totals{}, Totals{}
	m.bound()
}

// bound keeps the figures finite, since infinity has no JSON.
func (m *Meter) bound() {
	for _, f := range []*float64{&m.Settled.CostUSD, &m.Open.CostUSD, &m.Seen.CostUSD} {
		if math.IsNaN(*f) || math.Abs(*f) > maxCost {
			*f = math.Copysign(maxCost, *f)
		}
	}
}

const maxCost = 1e15

// advance returns how far a total has grown. A total that decreased was
// restarted.
func advance(seen, now event.Usage) event.Usage {
	if now.InputTokens < seen.InputTokens || now.OutputTokens < seen.OutputTokens {
		return now
	}
	return event.Usage{
		InputTokens:      now.InputTokens - seen.InputTokens,
		OutputTokens:     now.OutputTokens - seen.OutputTokens,
		CacheReadTokens:  now.CacheReadTokens - seen.CacheReadTokens,
		CacheWriteTokens: now.CacheWriteTokens - seen.CacheWriteTokens,
	}
}

func advanceCost(seen, now float64) float64 {
	if now < seen {
		return now
	}
	return now - seen
}
