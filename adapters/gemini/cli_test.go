package gemini

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/modelsim"
	"github.com/sojourn-run/sojourn/test/skip"
)

// One long conversation with everything that differs between the two sides: calls
// that fail before and after they start, tools that do not exist, texts that the
// agent cleans, its own commands, refusals, errors and interruptions, in one
// process and in the next.
func TestParityLongConversation(t *testing.T) {
	skip.InShort(t, "TestParityFresh has short ones")
	t.Parallel()
	r := adaptertest.New(t, conforming(), adaptertest.Options{})
	r.Start()
	for _, prompt := range []string{
		"SAY   \u200bhello <!-- hidden --> world  ",
		"THINK hard THEN TOOL bash: echo one THEN THINK again",
		"CALL no_such_tool {} THEN SAY went on",
		"CALL read_file {} THEN SAY without a path",
		"TOOL read: no-such-file THEN SAY it is not there",
		"CALL run_shell_command {\"command\":\"\"} THEN SAY empty",
		"CALL list_directory {\"dir_path\":\".\"} THEN SAY listed",
		"CALL glob {\"pattern\":\"**/*\"} THEN SAY globbed",
		"TOOL write: new.txt :: text THEN TOOL write: new.txt :: other text",
		"CALL replace {\"file_path\":\"new.txt\",\"instruction\":\"x\",\"old_string\":\"not there\",\"new_string\":\"y\"} THEN SAY no such text",
		"CALL write_todos {\"todos\":[{\"description\":\"x\",\"status\":\"pending\"}]} THEN SAY planned",
		"CALL save_memory {\"fact\":\"x\"} THEN SAY remembered",
		"TWO THEN TWO",
		"/memory show",
		"/no such command",
		"$HOME is what",
		"ERR400",
		"CUT",
		"SUBAGENT TOOL bash: echo in ANDTHEN SAY sub is done THEN SAY outer is done",
		"CALL invoke_agent {\"agent_name\":\"nobody\",\"prompt\":\"x\"} THEN SAY no such agent",
		"TOOL bash: printf 'a\\n\\n' THEN TOOL bash: true",
		"RECALL",
	} {
		r.Ask(prompt)
	}
	r.Parity()
	r.Restart()
	r.Ask("TOOL bash: echo in the next process THEN SAY went on")
	r.Ask("RECALL")
	r.Finish()
}

// The same with an answer to each call: some are refused, and some are
// interrupted while they wait.
func TestParityAskedConversation(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, its conformance suite")
	t.Parallel()
	r := adaptertest.New(t, conforming(), adaptertest.Options{Permission: adapters.PermissionAsk})
	r.Start()
	decide := func(prompt string, allow ...bool) {
		t.Helper()
		r.Send(prompt)
		for _, a := range allow {
			r.Answer(r.AwaitPermission(), a, "", nil)
		}
		r.AwaitIdle()
	}
	decide("TOOL bash: touch a THEN SAY done", true)
	decide("TOOL bash: touch b THEN TOOL bash: touch c THEN SAY half", false, true)
	decide("TOOL write: d.txt :: text THEN SAY written", true)
	decide("TOOL write: e.txt :: text THEN SAY not written", false)
	decide("CALL run_shell_command {\"command\":\"\"} THEN SAY empty")
	decide("SUBAGENT SAY sub THEN SAY refused by its rules")
	r.Send("TOOL bash: touch f")
	r.AwaitPermission()
	require.True(t, r.Interrupt().Interrupted)
	decide("SAY on")
	r.Parity()
	r.Restart()
	decide("TOOL bash: touch g THEN SAY done", true)
	require.NotEmpty(t, r.Blocks(event.BlockToolResult))
	r.Finish()
}

// A session that was emptied in its file, as the agent does when it loads one in
// the minute of its start, is refilled and remembered.
func TestEmptiedSessionGoesOn(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, its conformance suite")
	t.Parallel()
	r := adaptertest.New(t, conforming(), adaptertest.Options{})
	r.Start()
	r.Ask("SAY remember-the-first")
	home, err := adapters.OpenHome(r.Home())
	require.NoError(t, err)
	found, err := chats(home, whole, false)
	require.NoError(t, err)
	file, err := os.OpenFile(filepath.Join(r.Home(), found[0].path), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(stubText(found[0].session, found[0].started))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	r.Restart()
	r.Ask("RECALL")
	require.Contains(t, r.Said(), "remember-the-first")
	r.Finish()
}

// The blocks of a session have one id each, wherever it continues: its prompts are
// counted by its files, which have those that the agent has forgotten too.
func TestIDsInTheNextSandbox(t *testing.T) {
	t.Parallel()
	for name, forgotten := range map[string]func(r *adaptertest.Rig){
		"interrupted": func(r *adaptertest.Rig) {
			r.Send("SAY half THEN GATE never")
			r.AwaitDelta("half")
			require.True(t, r.Interrupt().Interrupted)
			r.Model.Open("never")
		},
		"refused": func(r *adaptertest.Rig) { require.NotNil(t, r.Ask("ERR400").Error) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := adaptertest.New(t, conforming(), adaptertest.Options{})
			r.Start()
			r.Ask("SAY remember-the-first")
			forgotten(r)
			r.Move()
			r.Ask("SAY well again")
			require.Len(t, r.Blocks(event.BlockUserMessage), 3)
			r.Finish()
		})
	}
}

// The agent takes a cancelled prompt back, and does so with the prompt of a turn that is
// only cut off too: its host's end cancels it. Who continues that turn remembers the prompt
// and what was done for it; who does not, forgets both.
func TestATurnThatWasTakenBackIsContinued(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, its conformance suite")
	for name, continues := range map[string]bool{"continued": true, "ended": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := adaptertest.New(t, conforming(), adaptertest.Options{})
			r.Start()
			r.Ask("SAY remember-the-first")
			const prompt = "TOOL bash: expr 6 '*' 7001 THEN SAY half THEN GATE never"
			r.Send(prompt)
			r.AwaitDelta("half")
			require.True(t, r.Interrupt().Interrupted)
			r.Model.Open("never")
			if continues {
				r.Launch.Unfinished = []adapters.Unfinished{{Begins: prompt}}
			}
			r.Restart()
			r.Ask("RECALL")
			require.Contains(t, r.Said(), "remember-the-first")
			require.Equal(t, continues, strings.Contains(r.Said(), prompt), "it has said %q", r.Said())
			require.Equal(t, continues, slices.ContainsFunc(r.Model.Recorded(), func(q modelsim.Recorded) bool {
				return bytes.Contains(q.Body, []byte("RECALL")) && bytes.Contains(q.Body, []byte("42006"))
			}), "the call's result")
			r.Finish()
		})
	}
}

// A prompt that is not one text, and that the agent had stored but not begun to
// answer when it died, keeps its number.
func TestIDsAfterADeathBeforeAnyOutput(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, its conformance suite")
	t.Parallel()
	r := adaptertest.New(t, conforming(), adaptertest.Options{})
	r.Start()
	r.Ask("SAY remember-the-first")
	r.Prompt(adapters.Prompt{Text: "GATE never", Parts: []event.Part{{Type: "text", Text: "and this"}}})
	require.NoError(t, r.Model.Waiting(t.Context(), "never"))
	r.Kill()
	r.Model.Open("never")
	r.Restart()
	r.Ask("SAY well again")
	require.Len(t, r.Blocks(event.BlockUserMessage), 3)
	r.Finish()
}

// A session that a tool has with the same program, in the same home, stays the
// tool's.
func TestAToolRunsTheProgram(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, its conformance suite")
	t.Parallel()
	r := adaptertest.New(t, conforming(), adaptertest.Options{})
	r.Start()
	r.Ask("SAY remember-the-first")
	r.Ask("TOOL bash: gemini --skip-trust -m gemini-2.5-pro -p 'SAY of-a-tool' > said.txt THEN SAY done")
	said, err := os.ReadFile(filepath.Join(r.Workspace(), "said.txt"))
	require.NoError(t, err)
	require.Contains(t, string(said), "of-a-tool", "the tool did not run the program")
	r.Restart()
	r.Ask("RECALL")
	require.Contains(t, r.Said(), "remember-the-first")
	r.Ask("TOOL bash: gemini --skip-trust -m gemini-2.5-pro -p 'SAY of-a-tool-too' > said.txt THEN SAY done")
	r.Move()
	r.Ask("RECALL")
	require.Contains(t, r.Said(), "remember-the-first")
	r.Finish()
}
