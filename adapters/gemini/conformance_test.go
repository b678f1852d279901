package gemini

import (
	"testing"

	"github.com/sojourn-run/sojourn/adapters/adaptertest"
)

// conforming is what the suite must know of the agent.
func conforming() adaptertest.Agent {
	return adaptertest.Agent{
		Adapter: New(),
		Env:     []string{},
		Model:   "gemini-2.5-pro", OtherModel: "gemini-2.5-flash",
		Rules: rules,
		Missing: map[string]string{
			"tool-failure":          "a command that fails is told like one that succeeds, without its exit status",
			"tool-write-read":       "what a file read gave is not told",
			"permission-deny-heard": "a denial has no place for words",
		},
		Tool: func(server, tool string) string { return mcpPrefix + server + "_" + tool },
	}
}

func TestConformance(t *testing.T) { adaptertest.Run(t, conforming()) }

func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, conforming()) }
