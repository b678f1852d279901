package batch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
)

func TestVariantIsOverItsItem(t *testing.T) {
	t.Parallel()
	all := jobs.Input{Options: session.Options{Agent: "claude", Model: "big"}, Prompt: "go on"}
	line := []byte(`{"options": {"model": "of the line", "profile": "strict"}}`)
	_, in, err := parse(all, Variant{Name: "a", Agent: "codex", Model: "small"}, line, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"codex", "small", "strict"}, []string{in.Options.Agent, in.Options.Model, in.Options.Profile})
	_, in, err = parse(all, Variant{Name: "b"}, line, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"claude", "of the line"}, []string{in.Options.Agent, in.Options.Model})
}

func TestVariantsHaveNames(t *testing.T) {
	t.Parallel()
	for wants, all := range map[string][]Variant{
		`variants[0].name: is ""`:  {{Agent: "claude"}},
		`variants[1].name: is "a"`: {{Name: "a"}, {Name: "a", Agent: "codex"}},
		"variants: are 51":         make([]Variant, MaxVariants+1),
	} {
		require.ErrorContains(t, Input{Items: 1, Variants: all}.Validate(), wants)
	}
	require.NoError(t, Input{Items: 1, Variants: []Variant{{Name: "a"}, {Name: "b"}}}.Validate())
}

func TestTally(t *testing.T) {
	t.Parallel()
	cost := 0.25
	var all tally
	for _, l := range []Line{
		{MS: 10, Result: &jobs.Result{CostUSD: &cost}},
		{MS: 30, Result: &jobs.Result{}},
		{MS: 20, Type: jobs.TypeCheckFailed, Result: &jobs.Result{CostUSD: &cost}},
		{Type: session.TypeInvalid},
	} {
		all.add(l)
	}
	require.Equal(t, VariantReport{Passed: 2, CheckFailed: 1, Failed: 1, PassRate: 0.5, CostUSD: 0.5, Unpriced: 1, P50: 20, P90: 30}, all.report())
	require.Zero(t, (&tally{}).report().PassRate)
}

// An item that does not pass its check is not tried again, unless that is wanted.
func TestCheckIsTriedOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, 1, Input{Attempts: map[string]int{Any: 5}}.attempts(jobs.TypeCheckFailed))
	require.Equal(t, 5, Input{Attempts: map[string]int{Any: 5}}.attempts(jobs.TypeUnchecked))
	require.Equal(t, 3, Input{Attempts: map[string]int{jobs.TypeCheckFailed: 3}}.attempts(jobs.TypeCheckFailed))
}
