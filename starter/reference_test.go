package starter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/adapters/claude"
)

// The page of the agents has a column and a chapter for each, a row for each
// capability, and nothing that depends on the machine.
func TestReferenceOfAgents(t *testing.T) {
	t.Setenv("SOJOURN_CLAUDE", "/nowhere/else")
	t.Setenv("PATH", "/nowhere")
	page := program(t, nil, "reference", "agents")
	require.Zero(t, page.code, page.err)
	names := builtin.Registry().Names()
	require.Contains(t, page.out, "| capability | "+strings.Join(names, " | ")+" | what it means |\n")
	for _, ability := range adapters.AllCapabilities() {
		require.Contains(t, page.out, "\n| "+ability.Name+" | ")
		require.Contains(t, page.out, " | "+ability.Meaning+" |\n")
	}
	for _, name := range names {
		a, err := builtin.Registry().Get(name)
		require.NoError(t, err)
		info := a.Info()
		_, chapter, found := strings.Cut(page.out, "\n## `"+name+"`: "+info.Product+"\n")
		require.True(t, found, name)
		chapter, _, _ = strings.Cut(chapter, "\n## ")
		for _, what := range append([]string{info.Mode, info.Files}, info.Limits...) {
			require.Contains(t, chapter, sentence(what))
		}
	}
	require.NotContains(t, page.out, "nowhere")
	require.Equal(t, page.out, program(t, nil, "reference", "agents").out)
}

// keyed is an adapter that lists the variables that its program reads, and has
// fewer capabilities.
type keyed struct{ *claude.Adapter }

func (keyed) Info() adapters.Info {
	return adapters.Info{Name: "keyed", Product: "Keyed", Mode: "lines.", Files: "none", Capabilities: adapters.Capabilities{Steer: true},
		Variables: []adapters.Variable{{Name: "KEYED_API_KEY", About: "the model's key"}}}
}

func TestReferenceOfAnAgent(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, writeAgents(&b, []adapters.Adapter{claude.New(), keyed{claude.New()}}))
	require.Contains(t, b.String(), "| steer | yes | yes |")
	require.Contains(t, b.String(), "| approve | yes | – |")
	require.Contains(t, b.String(), "## `keyed`: Keyed\n\n- **Process**: lines.\n- **Transcripts**: none.\n"+
		"- **Program**: looked for by `SOJOURN_CLAUDE`, then `PATH`; when it is missing: install Claude Code (npm install -g @anthropic-ai/claude-code), or set SOJOURN_CLAUDE to its path.\n"+
		"- **Environment**:\n  - `KEYED_API_KEY`: the model's key.\n")
}
