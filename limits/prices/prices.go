// Package prices puts a cost on what an agent reports in tokens only. It does no I/O and
// reads no clock.
package prices

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// Price is what a million tokens of a model cost, in US dollars.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	// CacheRead and CacheWrite are for tokens that a cache had or was given; without them
	// those cost as much as Input.
	CacheRead  *float64 `json:"cacheRead,omitempty"`
	CacheWrite *float64 `json:"cacheWrite,omitempty"`
}

// Of returns what tokens cost, in US dollars.
func (p Price) Of(u event.Usage) float64 {
	cache := func(price *float64) float64 {
		if price == nil {
			return p.Input
		}
		return *price
	}
	return (float64(u.InputTokens)*p.Input + float64(u.OutputTokens)*p.Output +
		float64(u.CacheReadTokens)*cache(p.CacheRead) + float64(u.CacheWriteTokens)*cache(p.CacheWrite)) / 1e6
}

// Table has the prices by the names of models. A name that ends with an asterisk is for
// all that begin so; the longest that fits counts. The asterisk alone is for any model,
// also an unknown one.
type Table map[string]Price

// Read reads a table from JSON:
//
//	{"gpt-5*": {"input": 1.25, "output": 10, "cacheRead": 0.125}, "gemini-3-pro": {"input": 2, "output": 12}}
//
// Both prices, input and output, are wanted of each model. The error names the model and
// the field.
func Read(in io.Reader) (Table, error) {
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	var given map[string]*struct {
		Input, Output, CacheRead, CacheWrite *float64
	}
	if err := d.Decode(&given); err != nil {
		return nil, fmt.Errorf(`want {"model": {"input": dollars, "output": dollars}, …}: %w`, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one JSON object, and nothing behind it")
	}
	t := Table{}
	for model, g := range given {
		if g == nil || g.Input == nil || g.Output == nil {
			return nil, fmt.Errorf("%q: input and output are wanted, in dollars per million tokens", model)
		}
		if star := strings.Index(model, "*"); model == "" || star >= 0 && star != len(model)-1 {
			return nil, fmt.Errorf("%q: want the name of a model, or its beginning and an asterisk", model)
		}
		p := Price{*g.Input, *g.Output, g.CacheRead, g.CacheWrite}
		if field := p.invalid(); field != "" {
			return nil, fmt.Errorf("%q: %s: want dollars per million tokens, 0 to %g", model, field, maxPrice)
		}
		t[model] = p
	}
	return t, nil
}

// maxPrice bounds a price, in US dollars per million tokens: more is a slip.
const maxPrice = 1e6

// invalid returns the name of an invalid field; "" if all are valid.
func (p Price) invalid() string {
	bad := func(f float64) bool { return !(f >= 0 && f <= maxPrice) }
	switch {
	case bad(p.Input):
		return "input"
	case bad(p.Output):
		return "output"
	case p.CacheRead != nil && bad(*p.CacheRead):
		return "cacheRead"
	case p.CacheWrite != nil && bad(*p.CacheWrite):
		return "cacheWrite"
	}
	return ""
}

// Of returns a model's price; false for a model that the table lacks.
func (t Table) Of(model string) (Price, bool) {
	if p, ok := t[model]; ok {
		return p, true
	}
	best := ""
	for name := range t {
		if begin, all := strings.CutSuffix(name, "*"); all && strings.HasPrefix(model, begin) && len(name) > len(best) {
			best = name
		}
	}
	p, ok := t[best]
	return p, ok
}

// Meter puts a cost on the reports of one agent that reports none. The zero value leaves
// them as they are.
type Meter struct {
	Table Table `json:"table,omitempty"`
	// Model is the one that the agent uses, as far as it is known.
	Model string `json:"model,omitempty"`
}

// Priced returns the events with the cost of the tokens that they report. It stays unknown
// for a model that the table lacks, and where the agent itself reports a cost.
func (m *Meter) Priced(events []event.Event) []event.Event {
	if len(m.Table) == 0 {
		return events
	}
	var priced []event.Event
	for i, ev := range events {
		p, ok := ev.Payload.(event.MetadataUpdate)
		if !ok {
			continue
		}
		if p.Model != "" {
			m.Model = p.Model
		}
		price, known := m.Table.Of(m.Model)
		if p.Usage == nil || p.CostUSD != nil || !known {
			continue
		}
		if priced == nil {
			priced = slices.Clone(events)
		}
		cost := price.Of(*p.Usage)
		p.CostUSD = &cost
		priced[i].Payload = p
	}
	if priced == nil {
		return events
	}
	return priced
}
