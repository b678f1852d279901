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

// Meter makes a session's totals of the agents' reports, which come in two
// kinds: what was used since the last report, and a process's own total so
// far. A process's total replaces the increments that it covers, so an agent
// may send both and nothing counts twice; and it starts at zero with every new
// process, so the totals of former processes are kept apart.
type Meter struct {
	// Settled is what former totals confirmed, Open what increments reported
	// since, Seen the running process's last total.
	Settled Totals `json:"settled"`
	Open    Totals `json:"open"`
	Seen    Totals `json:"seen"`
}

// report takes one report in and gives the session's totals.
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

// restart settles what the process that is gone left open.
func (m *Meter) restart() {
	m.Settled.Usage = m.Settled.Usage.Add(m.Open.Usage)
	m.Settled.CostUSD += m.Open.CostUSD
	m.Open, m.Seen = Totals{}, Totals{}
	m.bound()
}

// bound keeps the figures finite: infinity has no JSON, and no bill.
func (m *Meter) bound() {
	for _, f := range []*float64{&m.Settled.CostUSD, &m.Open.CostUSD, &m.Seen.CostUSD} {
		if math.IsNaN(*f) || math.Abs(*f) > maxCost {
			*f = math.Copysign(maxCost, *f)
		}
	}
}

const maxCost = 1e15

// advance is how far a total went on. One that went back began anew.
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
