package prices_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits/prices"
)

const table = `{
	"gpt-5": {"input": 1, "output": 10, "cacheRead": 0.1, "cacheWrite": 2},
	"gpt-5*": {"input": 3, "output": 4},
	"gpt-*": {"input": 5, "output": 6}
}`

func read(t *testing.T, text string) prices.Table {
	t.Helper()
	p, err := prices.Read(strings.NewReader(text))
	require.NoError(t, err)
	return p
}

func TestCost(t *testing.T) {
	t.Parallel()
	p := read(t, table)
	used := event.Usage{InputTokens: 1_000_000, OutputTokens: 500_000, CacheReadTokens: 2_000_000, CacheWriteTokens: 100_000}
	for model, want := range map[string]float64{
		"gpt-5":      1 + 5 + 0.2 + 0.2,
		"gpt-5-mini": 3 + 2 + 6 + 0.3,
		"gpt-4":      5 + 3 + 10 + 0.5,
	} {
		price, ok := p.Of(model)
		require.True(t, ok, model)
		require.InDelta(t, want, price.Of(used), 1e-9, model)
	}
	for _, model := range []string{"", "gemini", "GPT-5"} {
		_, ok := p.Of(model)
		require.False(t, ok, "%q is not in the table", model)
	}
	_, ok := read(t, `{"*": {"input": 1, "output": 1}}`).Of("")
	require.True(t, ok, "an asterisk alone is for any")
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		``:                                     `want {"model"`,
		`[]`:                                   `want {"model"`,
		`{"m": {"inputs": 1}}`:                 `unknown field "inputs"`,
		`{"m": null}`:                          `"m": input and output are wanted`,
		`{"m": {"input": 1}}`:                  `"m": input and output are wanted`,
		`{"": {"input": 1, "output": 2}}`:      `"": want the name of a model`,
		`{"a*b": {"input": 1, "output": 2}}`:   `"a*b": want the name of a model, or its beginning and an asterisk`,
		`{"m": {"input": -1, "output": 2}}`:    `"m": input: want dollars per million tokens, 0 to 1e+06`,
		`{"m": {"input": 1, "output": 1e300}}`: `"m": output: `,
		`{"m": {"input": 1, "output": 2, "cacheRead": -0.1}}`:  `"m": cacheRead: `,
		`{"m": {"input": 1, "output": 2, "cacheWrite": -0.1}}`: `"m": cacheWrite: `,
		`{"m": {"input": "1", "output": 2}}`:                   `cannot unmarshal string`,
		`{"m": {"input": 1, "output": 2}} {}`:                  `nothing behind it`,
	} {
		_, err := prices.Read(strings.NewReader(given))
		require.ErrorContains(t, err, want, given)
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	use := func(model string, tokens int64) event.Event {
		return event.Event{Payload: event.MetadataUpdate{Model: model, Usage: &event.Usage{InputTokens: tokens}}}
	}
	costs := func(events []event.Event) (out []any) {
		for _, ev := range events {
			if c := ev.Payload.(event.MetadataUpdate).CostUSD; c != nil {
				out = append(out, *c)
			} else {
				out = append(out, nil)
			}
		}
		return out
	}
	m := prices.Meter{Table: read(t, table), Model: "unheard of"}
	known := 7.0
	given := []event.Event{
		use("", 1_000_000), use("gpt-5", 2_000_000), use("", 3_000_000), use("gpt-5-mini", 1_000_000), use("other", 1),
		{Payload: event.MetadataUpdate{Model: "gpt-5"}},
		{Payload: event.MetadataUpdate{Usage: &event.Usage{InputTokens: 1_000_000}, CostUSD: &known}},
	}
	require.Equal(t, []any{nil, 2.0, 3.0, 3.0, nil, nil, 7.0}, costs(m.Priced(given)))
	require.Equal(t, []any{nil, nil, nil, nil, nil, nil, 7.0}, costs(given), "what was given is not changed")
	require.Equal(t, []any{1.0}, costs(m.Priced([]event.Event{use("", 1_000_000)})), "the model is remembered")

	var none prices.Meter
	require.Equal(t, given, none.Priced(given))
}

func FuzzRead(f *testing.F) {
	f.Add(table)
	f.Add(`{"*": {"input": 0, "output": 1e6}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := prices.Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for model := range p {
			price, ok := p.Of(model)
			require.True(t, ok)
			require.GreaterOrEqual(t, price.Of(event.Usage{InputTokens: 1, OutputTokens: 1, CacheReadTokens: 1, CacheWriteTokens: 1}), 0.0)
		}
	})
}
