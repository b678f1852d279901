package codex

import (
	"encoding/json"
	"testing"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/skip"
)

func TestConformance(t *testing.T) { adaptertest.Run(t, conforming()) }

func TestConformanceOwnModel(t *testing.T) {
	skip.InShort(t, "TestConformance has the program with a model that is not its own")
	adaptertest.Run(t, ownModel())
}

func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, conforming()) }

// conforming is the agent as the suite sees it.
func conforming() adaptertest.Agent {
	return adaptertest.Agent{
		Adapter: New(),
		Model:   "sim-model", OtherModel: "sim-other",
		Tool:    func(server, tool string) string { return "mcp__" + server + "." + tool },
		Hostile: hostile, Instructions: "AGENTS.md",
		Question: adaptertest.Question{
			Script: `CALL request_user_input {"questions":[{"id":"color","header":"Color","question":"Which color?","options":[{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]}]} THEN SAY answered`,
			Answer: func(event.PermissionRequested) json.RawMessage {
				return json.RawMessage(`{"answers":{"color":"Blue"}}`)
			},
			Heard: "Blue",
		},
		// Deleting a file sends its content; a long answer takes the program minutes,
		// and it refuses a long message.
		Big: "TOOL bash: head -c 67200000 /dev/zero | tr '\\0' x > big.txt THEN " +
			"TOOL bash: apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: big.txt\n*** End Patch\nEOF THEN SAY done",
		Missing: map[string]string{
			"subagent-nested":       "the program does not offer subagents to its subagents",
			"permission-deny-heard": "the protocol has no place for the words of a denial; the model hears that the user rejected the call",
		},
	}
}

// ownModel is the agent with the program's own model: it calls tools by scripts,
// and its subagents are a team.
func ownModel() adaptertest.Agent {
	a := conforming()
	a.Model, a.OtherModel = "", "gpt-6-sol"
	a.SealedTasks = true
	const same = "it is the same with every model, and takes long"
	a.Missing = map[string]string{
		"permission-deny-heard": a.Missing["permission-deny-heard"],
		"big-line":              same, "slow-reader": same, "api-error": same, "stream-cut": same,
	}
	return a
}
