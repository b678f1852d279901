package claude

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/skip"
)

// Images in a message and in a tool's result reach the model and both sides.
func TestRealImages(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{})
	data, err := base64.StdEncoding.DecodeString(pixel)
	require.NoError(t, err)
	file := filepath.Join(r.Workspace(), "dot.png")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	r.Ask("TOOL read: " + file + " THEN SAY seen")
	r.Prompt(adapters.Prompt{Text: "SAY looked", Parts: []event.Part{{Type: "image", MediaType: "image/png", Data: pixel}}})
	r.AwaitIdle()
	r.Stop()
	var inResult, inMessage bool
	for _, b := range r.Live().Blocks {
		inResult = inResult || b.Type == event.BlockToolResult && strings.Contains(string(b.Output), `"image"`) && strings.Contains(string(b.Output), pixel[:20])
		inMessage = inMessage || b.Type == event.BlockUserMessage && len(b.Parts) == 2 && b.Parts[1].Data == pixel
	}
	require.True(t, inResult, "the result shows the image: %s", pretty(t, r.Live()))
	require.True(t, inMessage, "the message shows the image")
	r.Finish()
}

// A skill's text is a skill_load block, in a subagent too.
func TestRealSkill(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{Profile: &adapters.Profile{Skills: map[string]map[string]string{"labskill": {"SKILL.md": "---\nname: labskill\ndescription: for the lab\n---\nMARK-BODY of the skill\n"}}}})
	r.Ask(`CALL Skill {"skill":"labskill"} THEN SAY ok`)
	r.Ask(`SUBAGENT CALL Skill {"skill":"labskill"} ANDTHEN SAY ok`)
	r.Stop()
	loads := 0
	for _, blocks := range [][]event.Block{r.Live().Blocks, firstThread(t, r)} {
		for _, b := range blocks {
			if b.Type == event.BlockSkillLoad {
				require.Equal(t, "labskill", b.SkillName)
				require.Contains(t, *b.Content, "MARK-BODY")
				loads++
			}
		}
	}
	require.Equal(t, 2, loads)
	r.Finish()
}

// What was emitted before a compaction is kept, and so is what follows; the
// summary is between them.
func TestRealCompaction(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{})
	r.Ask("SAY one THEN TOOL bash: echo two")
	r.Ask("/compact keep the numbers")
	r.Ask("SUBAGENT SAY three")
	r.Ask("/compact")
	r.Ask("SAY four")
	r.Stop()
	subtypes := map[string]int{}
	for _, b := range r.Live().Blocks {
		if b.Type == event.BlockSystem {
			subtypes[b.Subtype]++
		}
	}
	require.Equal(t, 2, subtypes["compact_boundary"])
	require.Equal(t, 2, subtypes["compact_summary"])
	r.Finish()
}

// A fork is a separate session, whose transcript begins with a copy of what it
// was forked from: the conversation is the original's up to there, ids included,
// and then its own. The program does not copy the subagents' files, so the caller
// that forks does. The original does not change.
func TestRealFork(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	branch := &forked{Adapter: New(), id: uuid.NewString()}
	agent := strictly()
	agent.Adapter = branch
	r := adaptertest.New(t, agent, adaptertest.Options{})
	r.Start()
	r.Ask("SAY common THEN TOOL bash: echo shared")
	r.Ask("SUBAGENT TOOL bash: echo sub ANDTHEN SAY subsaid")
	r.Stop()
	original, errs := r.Restored()
	require.Empty(t, errs)
	branch.from = r.Launch.NativeID
	r.Start()
	require.Equal(t, branch.id, r.Launch.NativeID)
	r.Ask("RECALL")
	r.Stop()
	require.Contains(t, toJSON(t, r.Live()), "earlier prompts: SAY common")
	copied := filepath.Join(r.Home(), configDir, "projects", slug(r.Workspace()))
	require.NoError(t, os.CopyFS(filepath.Join(copied, branch.id), os.DirFS(filepath.Join(copied, branch.from))))
	r.Finish()
	r.Launch.NativeID = branch.from
	after, errs := r.Restored()
	require.Empty(t, errs)
	require.Equal(t, toJSON(t, original), toJSON(t, after), "the original is untouched")
}

// forked is the adapter with a session that begins as another one's fork, once
// from is set.
type forked struct {
	*Adapter
	id, from string
}

func (f *forked) NativeID(session string, n int) string {
	if f.from != "" {
		return f.id
	}
	return f.Adapter.NativeID(session, n)
}

func (f *forked) Command(l adapters.Launch) (adapters.Command, error) {
	c, err := f.Adapter.Command(l)
	if f.from != "" {
		c.Argv = append(c.Argv, "--resume", f.from, "--fork-session")
	}
	return c, err
}

// AskUserQuestion is a permission request with questions, and its answer is sent
// as the tool's input.
func TestRealQuestion(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{Permission: adapters.PermissionAsk})
	r.Send(`CALL AskUserQuestion {"questions":[{"question":"Which?","header":"h","multiSelect":false,"options":[{"label":"left","description":"x"},{"label":"right","description":"y"}]}]} THEN SAY thanks`)
	asked := r.AwaitPermission()
	var questions []struct{ Question string }
	require.NoError(t, json.Unmarshal(asked.Questions, &questions))
	require.Equal(t, "Which?", questions[0].Question)
	var in map[string]any
	require.NoError(t, json.Unmarshal(asked.Input, &in))
	in["answers"] = map[string]string{"Which?": "right"}
	answer, err := json.Marshal(in)
	require.NoError(t, err)
	r.Answer(asked, true, "", answer)
	r.AwaitIdle()
	r.Stop()
	require.Contains(t, toJSON(t, r.Live()), "right")
	r.Finish()
}
