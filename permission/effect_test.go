package permission

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEffectRules(t *testing.T) {
	t.Parallel()
	rules := EffectRules{
		{Tool: "bash", Match: "make test*", Then: LossContinue},
		{Tool: "bash", Match: "make *", Then: LossAsk},
		{Tool: "mcp__pay__*", Then: LossFail},
		{Tool: "write", Match: "*.md", Then: LossContinue},
		{Tool: "write", Then: LossAsk},
	}
	require.NoError(t, rules.Validate())
	for call, want := range map[[2]string]OnLoss{
		{"Bash", `{"command":"make test"}`}:                LossContinue,
		{"Bash", `{"command":"make deploy"}`}:              LossAsk,
		{"Bash", `{"command":"make test && make deploy"}`}: LossAsk,
		{"Bash", `{"command":"make test > Makefile"}`}:     LossAsk,
		{"Bash", `{"command":"ls"}`}:                       LossContinue,
		{"mcp__pay__transfer", `{"cents":1}`}:              LossFail,
		{"Write", `{"file_path":"a.md"}`}:                  LossContinue,
		{"Write", `{"file_path":"../a.md"}`}:               LossAsk,
		{"Write", ``}:                                      LossAsk,
		{"Read", `{"file_path":"a"}`}:                      LossContinue,
	} {
		require.Equal(t, want, rules.Then(call[0], json.RawMessage(call[1])), call)
	}
	require.Equal(t, LossContinue, EffectRules(nil).Then("Bash", nil))
}

func TestEffectRulesAreChecked(t *testing.T) {
	t.Parallel()
	for want, rules := range map[string]EffectRules{
		"field unknownEffects[0].tool is empty, want the name of a tool, or *": {{Then: LossAsk}},
		`field unknownEffects[1].then is "allow", want continue, ask or fail`:  {{Tool: "*", Then: LossFail}, {Tool: "*", Then: "allow"}},
		`field unknownEffects[0].then is "", want continue, ask or fail`:       {{Tool: "*"}},
	} {
		require.EqualError(t, rules.Validate(), want)
	}
}

func TestTheStricterVerdict(t *testing.T) {
	t.Parallel()
	order := []OnLoss{"", LossContinue, LossAsk, LossFail}
	for i, a := range order {
		for k, b := range order {
			require.Equal(t, order[max(i, k)], a.Over(b), "%s over %s", a, b)
		}
	}
}
