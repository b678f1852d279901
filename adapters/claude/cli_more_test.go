package claude

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Images in a message and in a tool's result reach the model and both sides.
func TestRealImages(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{})
	data, err := base64.StdEncoding.DecodeString(pixel)
	require.NoError(t, err)
	file := filepath.Join(x.launch.Workspace, "dot.png")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	x.ask("TOOL read: " + file + " THEN SAY seen")
	x.write("p1", adapters.Prompt{MessageID: uuid.NewString(), Text: "SAY looked", Parts: []event.Part{{Type: "image", MediaType: "image/png", Data: pixel}}})
	x.await(is[event.SessionIdle])
	x.stop()
	var inResult, inMessage bool
	for _, b := range x.state().Blocks {
		inResult = inResult || b.Type == event.BlockToolResult && strings.Contains(string(b.Output), `"image"`) && strings.Contains(string(b.Output), pixel[:20])
		inMessage = inMessage || b.Type == event.BlockUserMessage && len(b.Parts) == 2 && b.Parts[1].Data == pixel
	}
	require.True(t, inResult, "the result shows the image: %s", pretty(t, x.state()))
	require.True(t, inMessage, "the message shows the image")
	x.requireParity()
}

// A skill's text is a skill_load block, in a subagent too.
func TestRealSkill(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{Skills: map[string]map[string]string{"labskill": {"SKILL.md": "---\nname: labskill\ndescription: for the lab\n---\nMARK-BODY of the skill\n"}}})
	x.ask(`CALL Skill {"skill":"labskill"} THEN SAY ok`)
	x.ask(`SUBAGENT CALL Skill {"skill":"labskill"} ANDTHEN SAY ok`)
	x.stop()
	loads := 0
	for _, blocks := range [][]event.Block{x.state().Blocks, x.thread(0)} {
		for _, b := range blocks {
			if b.Type == event.BlockSkillLoad {
				require.Equal(t, "labskill", b.SkillName)
				require.Contains(t, *b.Content, "MARK-BODY")
				loads++
			}
		}
	}
	require.Equal(t, 2, loads)
	x.requireParity()
}

// What was said before a compaction stays, and so does what follows; the
// summary stands between.
func TestRealCompaction(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{})
	x.ask("SAY one THEN TOOL bash: echo two")
	x.ask("/compact keep the numbers")
	x.ask("SUBAGENT SAY three")
	x.ask("/compact")
	x.ask("SAY four")
	x.stop()
	subtypes := map[string]int{}
	for _, b := range x.state().Blocks {
		if b.Type == event.BlockSystem {
			subtypes[b.Subtype]++
		}
	}
	require.Equal(t, 2, subtypes["compact_boundary"])
	require.Equal(t, 2, subtypes["compact_summary"])
	x.requireParity()
}

// A fork is a session of its own, whose transcript begins with a copy of what
// it was forked from: the conversation is the original's up to there, ids
// included, and then its own. The program does not copy the subagents' files,
// so whoever forks does. The original stays as it was.
func TestRealFork(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{})
	x.ask("SAY common THEN TOOL bash: echo shared")
	x.ask("SUBAGENT TOOL bash: echo sub ANDTHEN SAY subsaid")
	x.stop()
	original, from := x.restored(), x.launch.NativeID
	c, err := New().Command(x.launch)
	require.NoError(t, err)
	at := slices.Index(c.Argv, "--session-id")
	x.launch.NativeID, x.launch.Resume = uuid.NewString(), true
	c.Argv = append(c.Argv[:at:at], "--resume", from, "--fork-session", "--session-id", x.launch.NativeID)
	x.run(c)
	x.ask("RECALL")
	x.stop()
	require.Contains(t, toJSON(t, x.state()), "earlier prompts: SAY common")
	copied := filepath.Join(x.launch.Home, configDir, "projects", slug(x.launch.Workspace))
	require.NoError(t, os.CopyFS(filepath.Join(copied, x.launch.NativeID), os.DirFS(filepath.Join(copied, from))))
	x.requireParity()
	x.launch.NativeID = from
	require.Equal(t, toJSON(t, original), toJSON(t, x.restored()), "the original is untouched")
}

// AskUserQuestion is a permission request with questions, and its answer goes
// back as the tool's input.
func TestRealQuestion(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.launch.Permission = adapters.PermissionAsk
	x.start(adapters.Profile{})
	x.send(`CALL AskUserQuestion {"questions":[{"question":"Which?","header":"h","multiSelect":false,"options":[{"label":"left","description":"x"},{"label":"right","description":"y"}]}]} THEN SAY thanks`)
	asked := x.await(is[event.PermissionRequested]).Payload.(event.PermissionRequested)
	var questions []struct{ Question string }
	require.NoError(t, json.Unmarshal(asked.Questions, &questions))
	require.Equal(t, "Which?", questions[0].Question)
	var in map[string]any
	require.NoError(t, json.Unmarshal(asked.Input, &in))
	in["answers"] = map[string]string{"Which?": "right"}
	answer, err := json.Marshal(in)
	require.NoError(t, err)
	x.write("answer", adapters.Answer{RequestID: asked.RequestID, Allow: true, Input: answer})
	x.await(is[event.SessionIdle])
	x.stop()
	require.Contains(t, toJSON(t, x.state()), "right")
	x.requireParity()
}
