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
		Tool:  func(server, tool string) string { return mcpPrefix + server + "_" + tool },
	}
}

func TestConformance(t *testing.T) { adaptertest.Run(t, conforming()) }

func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, conforming()) }
