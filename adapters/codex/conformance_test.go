package codex

import (
	"testing"

	"github.com/sojourn-run/sojourn/adapters/adaptertest"
)

func TestConformance(t *testing.T) { adaptertest.Run(t, conforming()) }

func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, conforming()) }

// conforming is the agent as the suite knows it.
func conforming() adaptertest.Agent {
	return adaptertest.Agent{
		Adapter: New(),
		Model:   "sim-model", OtherModel: "sim-other",
		Tool:    func(server, tool string) string { return "mcp__" + server + "." + tool },
		Missing: map[string]string{},
	}
}
