package batch

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
)

func fromPayloads(err *workflow.ContinueAsNewError, into any) error {
	return converter.GetDefaultDataConverter().FromPayloads(err.Input, into)
}

func TestItemIsOverItsBatch(t *testing.T) {
	t.Parallel()
	all := jobs.Input{
		Options: session.Options{Agent: "claude", Model: "big", Metadata: map[string]json.RawMessage{"team": json.RawMessage(`"a"`)}},
		Prompt:  "Read {{file}} and {{ n }}", Artifacts: []string{"out.md"},
	}
	id, in, err := parse(all, Variant{}, []byte(`{"id": "x", "vars": {"file": "a.go", "n": 3}, "options": {"model": "small", "metadata": {"item": 1}}}`), 7)
	require.NoError(t, err)
	require.Equal(t, "x", id)
	require.Equal(t, "Read a.go and 3", in.Prompt)
	require.Equal(t, "claude", in.Options.Agent)
	require.Equal(t, "small", in.Options.Model)
	require.Equal(t, []string{"out.md"}, in.Artifacts)
	require.Len(t, in.Options.Metadata, 2)
	require.Len(t, all.Options.Metadata, 1, "an item changes no other")

	for line, wants := range map[string]string{
		`nothing`:                     "line 7: is no item",
		`[1]`:                         "line 7: is no item",
		`{"promt": "x"}`:              `unknown field "promt"`,
		`{"prompt": "{{b}}"}`:         `line 7: vars: have no "b", which the prompt names`,
		`{"vars": {"file": "x"}}`:     `have no "n"`,
		`{"prompt":"x"} {"a":1}`:      "",
		`{"prompt":"x","repairs":11}`: "line 7: repairs: is 11",
	} {
		id, _, err := parse(all, Variant{}, []byte(line), 7)
		require.Equal(t, "7", id)
		if wants != "" {
			require.ErrorContains(t, err, wants, line)
		}
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	require.Zero(t, quantile(nil, 50))
	require.Equal(t, int64(1), quantile([]int64{1}, 50))
	ten := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for percent, wants := range map[int]int64{50: 5, 90: 9, 99: 10, 100: 10, 1: 1} {
		require.Equal(t, wants, quantile(ten, percent), percent)
	}
}

// FuzzParse: whatever a line is, it is an item or has a reason.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"id":"a","vars":{"x":null},"prompt":"{{x}}"}`, `null`, `{"options":null}`, "\x00"} {
		f.Add([]byte(seed))
	}
	all := jobs.Input{Options: session.Options{Agent: "claude"}, Prompt: "go on"}
	f.Fuzz(func(t *testing.T, line []byte) {
		_, in, err := parse(all, Variant{}, line, 1)
		if err == nil {
			require.NoError(t, in.Validate())
		}
	})
}
