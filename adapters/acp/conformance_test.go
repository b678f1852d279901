package acp

import (
	"testing"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/adaptertest"
)

// program is the adapter on a host whose settings name a program.
type program struct {
	*Adapter
	line, files string
}

func (p program) Locate(getenv func(string) string) (string, error) {
	return p.Adapter.Locate(func(name string) string {
		switch name {
		case ProgramVariable:
			return p.line
		case FilesVariable:
			return p.files
		}
		return getenv(name)
	})
}

// openCode is a real program that this package knows nothing of. That it asks
// before it acts, and has two models, is in its own settings.
func openCode() adaptertest.Agent {
	return adaptertest.Agent{
		Adapter: program{
			Adapter: New(),
			line:    "OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1 opencode acp",
			files:   ".local/share/opencode/opencode.db*:.local/share/opencode/storage/*/*",
		},
		Env:        []string{},
		OtherModel: "modelsim/other",
		Profile: adapters.Profile{Workspace: map[string]string{"opencode.json": `{
			"$schema": "https://opencode.ai/config.json",
			"permission": {"bash": "ask", "edit": "ask"},
			"provider": {"modelsim": {"models": {"other": {"tool_call": true, "reasoning": true, "limit": {"context": 200000, "output": 8192}}}}}
		}`}},
		RetriesForever: true,
		Missing: map[string]string{
			"tool-failure":          "a command that fails is told like one that succeeds",
			"permission-deny-heard": "the protocol has no place for the words of a denial",
			"profile":               "where a program looks for its instructions is not known: such a profile is refused",
			"system-prompt":         "the protocol has no place for it",
		},
	}
}

func TestConformance(t *testing.T) { adaptertest.Run(t, openCode()) }

func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, openCode()) }
