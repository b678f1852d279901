package limits

import "github.com/sojourn-run/sojourn/event"

// Execution is what one execution has used, as far as its agent has reported it.
type Execution struct {
	Usage event.Usage `json:"usage"`
	// CostUSD is nil while the agent has reported no cost, and Calls while it has reported
	// no model calls.
	CostUSD *float64 `json:"costUSD,omitempty"`
	Calls   *int     `json:"calls,omitempty"`
}

// Add adds what the next event reports. Model calls are those of the main conversation.
func (x *Execution) Add(ev event.Event) {
	p, ok := ev.Payload.(event.MetadataUpdate)
	if !ok {
		return
	}
	if p.Usage != nil {
		x.Usage = x.Usage.Add(*p.Usage)
	}
	x.CostUSD = event.AddKnown(x.CostUSD, p.CostUSD)
	if p.Calls > 0 && ev.Context.Conversation() == event.Main {
		x.Calls = event.AddKnown(x.Calls, &p.Calls)
	}
}
