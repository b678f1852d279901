package limits_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
)

func TestReached(t *testing.T) {
	t.Parallel()
	dollars := func(d float64) *float64 { return &d }
	for name, c := range map[string]struct {
		limits limits.Limits
		used   limits.Used
		want   string
	}{
		"no limits":     {limits.Limits{}, limits.Used{CostUSD: dollars(1e9), Tokens: 1e12, Turns: 1e6, Work: 1e6 * time.Hour}, ""},
		"nothing used":  {limits.Limits{CostUSD: 1, Tokens: 1, Turns: 1, WorkMS: 1}, limits.Used{}, ""},
		"unknown cost":  {limits.Limits{CostUSD: 1}, limits.Used{Tokens: 1e9}, ""},
		"just below":    {limits.Limits{CostUSD: 2}, limits.Used{CostUSD: dollars(1.9999)}, ""},
		"cost":          {limits.Limits{CostUSD: 2}, limits.Used{CostUSD: dollars(2)}, "the limit of $2 is reached: $2"},
		"tokens":        {limits.Limits{Tokens: 100}, limits.Used{Tokens: 140}, "the limit of 100 tokens is reached: 140"},
		"calls":         {limits.Limits{ModelCalls: 3}, limits.Used{Calls: 3}, "the limit of 3 model calls is reached"},
		"unknown calls": {limits.Limits{ModelCalls: 1}, limits.Used{Turns: 7}, ""},
		"turns":         {limits.Limits{Turns: 3}, limits.Used{Turns: 3}, "the limit of 3 turns is reached"},
		"work":          {limits.Limits{WorkMS: 1500}, limits.Used{Work: 2 * time.Second}, "the limit of 1.5s of work is reached"},
		"the first one": {limits.Limits{Tokens: 1, Turns: 1}, limits.Used{Tokens: 1, Turns: 1}, "the limit of 1 tokens is reached: 1"},
	} {
		require.Equal(t, c.want, c.limits.Reached(c.used), name)
	}
}

func TestUsedAdds(t *testing.T) {
	t.Parallel()
	cost := 0.5
	u := limits.Used{Tokens: 10, Turns: 2, Work: time.Minute}
	more := u.Add(event.Usage{InputTokens: 3, OutputTokens: 4, CacheReadTokens: 1000}, &cost, time.Second)
	require.Equal(t, limits.Used{CostUSD: &cost, Tokens: 17, Turns: 2, Work: 61 * time.Second}, more, "what a cache had is not counted")
	require.Nil(t, u.CostUSD, "the receiver is not changed")
}

func TestWith(t *testing.T) {
	t.Parallel()
	none, turns := 0.0, 7
	was := limits.Limits{CostUSD: 1, Tokens: 5}
	require.Equal(t, was, was.With(limits.Change{}))
	require.Equal(t, limits.Limits{Tokens: 5, Turns: 7}, was.With(limits.Change{CostUSD: &none, Turns: &turns}))
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]limits.Limits{
		"": {}, "costUSD": {CostUSD: math.NaN()}, "tokens": {Tokens: -1}, "modelCalls": {ModelCalls: -1}, "turns": {Turns: -1}, "workMs": {WorkMS: -1},
	} {
		require.Equal(t, want, l.Invalid())
	}
	require.Equal(t, "workMs", limits.Limits{WorkMS: math.MaxInt64}.Invalid(), "it is more than a time.Duration holds")
	require.Equal(t, "costUSD", limits.Limits{CostUSD: math.Inf(-1)}.Invalid())
}
