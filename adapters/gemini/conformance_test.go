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
		// The change of a file is told with the whole file, before and after.
		Big: `TOOL bash: head -c 34000000 /dev/zero | tr '\0' x | fold -w 50000 > big.txt; echo >> big.txt; echo needle >> big.txt ` +
			`THEN CALL replace {"file_path":"big.txt","instruction":"x","old_string":"needle","new_string":"thread"} THEN SAY changed`,
		Missing: map[string]string{
			"permission-deny-heard": "a denial has no place for words",
			"permission-subagent":   "where it must ask, the agent refuses to start subagents",
			"subagent-nested":       "a subagent cannot start subagents",
		},
		Tool: func(server, tool string) string { return mcpPrefix + server + "_" + tool },
	}
}

func TestConformance(t *testing.T) { adaptertest.Run(t, conforming()) }

func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, conforming()) }
