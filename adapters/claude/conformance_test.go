package claude

import (
	"encoding/json"
	"testing"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/adaptertest"
)

func TestConformance(t *testing.T) { adaptertest.Run(t, conforming()) }

func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, conforming()) }

// conforming is the agent as the suite sees it.
func conforming() adaptertest.Agent {
	return adaptertest.Agent{
		Adapter:    New(),
		Env:        []string{"CLAUDE_CODE_MAX_RETRIES=1"},
		OtherModel: "claude-sonnet-4-5",
		Rules:      rules,
		Question: adaptertest.Question{
			Script: `CALL AskUserQuestion {"questions":[{"question":"Which color?","header":"Color","multiSelect":false,"options":[{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]}]} THEN SAY answered`,
			Answer: answerBlue, Heard: "Blue",
		},
		Compact: "/compact",
		Hostile: hostile, Instructions: "CLAUDE.md",
		Tool: func(server, tool string) string { return "mcp__" + server + "__" + tool },
	}
}

func answerBlue(asked event.PermissionRequested) json.RawMessage {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(asked.Input, &in); err != nil {
		return nil
	}
	in["answers"] = json.RawMessage(`{"Which color?":"Blue"}`)
	out, err := json.Marshal(in)
	if err != nil {
		return nil
	}
	return out
}
