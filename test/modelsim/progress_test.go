package modelsim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// codexTools are those by which a model starts subagents and waits for them.
func codexTools() []string {
	return []string{"exec_command", "multi_agent_v1.spawn_agent", "multi_agent_v1.wait_agent"}
}

func spawned(id string) Result { return Result{Text: "started", Agent: id} }

func reported(id string, waited int) Result {
	return Result{Text: "from " + id, Agent: id, Reported: true, Waited: waited}
}

func waitFor(id string) part { return callPart{Call{Tool: ToolWait, Agents: []string{id}}} }

func answerTo(t *testing.T, tools []string, turns ...Turn) []part {
	t.Helper()
	parts, err := reply(Conversation{Tools: tools, Turns: turns})
	require.NoError(t, err)
	return parts
}

// Where a tool waits for subagents, SUBAGENT is two calls, one after the other.
func TestSubagentThatMustBeWaitedFor(t *testing.T) {
	t.Parallel()
	script := "SUBAGENT SAY a THEN SAY outer"
	ask := func(results ...Result) []part {
		return answerTo(t, codexTools(), Turn{Prompt: script, Results: results})
	}
	require.Equal(t, callPart{Call{Tool: ToolSubagent, Prompt: "SAY a"}}, ask()[1])
	require.Equal(t, []part{waitFor("a")}, ask(spawned("a")))
	require.Equal(t, []part{textPart{"outer"}}, ask(reported("a", 1)))
	require.Equal(t, []part{textPart{"outer"}}, ask(reported("a", 0)), "it reported before anybody asked")
	require.Equal(t, []part{textPart{"outer"}}, ask(Result{Text: "no more agents"}), "it could not be started")
}

// WAITAGENT waits for those in the background, one each, those of earlier
// prompts first, and for no session if there is none.
func TestWaitAgentWaitsForTheBackground(t *testing.T) {
	t.Parallel()
	script := "SUBAGENTBG SAY a THEN SAY on THEN WAITAGENT THEN TOOL bash: x THEN SAY end"
	ask := func(results ...Result) []part {
		return answerTo(t, codexTools(), Turn{Prompt: script, Results: results})
	}
	bash := []part{textPart{"Running it."}, callPart{Call{Tool: ToolBash, Command: "x"}}}
	require.Equal(t, []part{textPart{"on"}, waitFor("a")}, ask(spawned("a")))
	require.Equal(t, bash, ask(reported("a", 1)))
	require.Equal(t, append([]part{textPart{"on"}}, bash...), ask(reported("a", 0)))
	require.Equal(t, []part{textPart{"end"}}, ask(reported("a", 1), Result{Text: "x"}))

	before := Turn{Prompt: "SUBAGENTBG SAY a", Results: []Result{spawned("a")}}
	require.Equal(t, []part{waitFor("a")}, answerTo(t, codexTools(), before, Turn{Prompt: "WAITAGENT THEN SAY b"}))
	before.Results[0] = reported("a", 2)
	require.Equal(t, []part{textPart{"b"}}, answerTo(t, codexTools(), before, Turn{Prompt: "SAY said THEN WAITAGENT THEN SAY b"}))
	before.Results[0] = reported("a", 1)
	require.Equal(t, []part{textPart{"Nothing to wait for."}}, answerTo(t, codexTools(), before, Turn{Prompt: "WAITAGENT"}))
}

// Where every subagent is in the foreground its result is its report.
func TestWaitAgentWithoutBackground(t *testing.T) {
	t.Parallel()
	for _, tools := range [][]string{{"bash", "task"}, {"invoke_agent"}} {
		turn := Turn{Prompt: "SUBAGENTBG SAY a THEN SAY on THEN WAITAGENT THEN SAY b", Results: []Result{{Text: "done"}}}
		require.Equal(t, []part{textPart{"on"}, textPart{"b"}}, answerTo(t, tools, turn))
	}
}

// The tools on offer decide, whatever the protocol.
func TestToolsOnOfferDecide(t *testing.T) {
	t.Parallel()
	write := Call{Tool: ToolWrite, File: "a b.txt", Content: "it's\n"}
	for _, tc := range []struct {
		call        Call
		tools       []string
		name, input string
	}{
		{Call{Tool: ToolBash, Command: "ls"}, []string{"read", "bash"}, "bash", `{"command": "ls"}`},
		{Call{Tool: ToolBash, Command: "ls"}, []string{"shell"}, "shell", `{"command": ["bash","-lc","ls"]}`},
		{Call{Tool: ToolBash, Command: "ls"}, nil, "exec_command", `{"cmd": "ls"}`},
		{write, []string{"write_file"}, "write_file", `{"file_path": "a b.txt", "content": "it's\n"}`},
		{write, []string{"write", "bash"}, "write", `{"filePath": "a b.txt", "content": "it's\n"}`},
		{write, []string{"bash"}, "bash", `{"command": "printf '%s\\n' 'it'\\''s' > 'a b.txt'"}`},
		{Call{Tool: ToolRead, File: "a.txt"}, nil, "exec_command", `{"cmd": "cat a.txt"}`},
		{Call{Tool: ToolSubagent, Prompt: "p", Background: true}, []string{"task"}, "task", `{"description": "inner job", "prompt": "p", "subagent_type": "general"}`},
		{Call{Tool: ToolSubagent, Prompt: "p"}, codexTools(), "multi_agent_v1.spawn_agent", `{"message": "p"}`},
		{Call{Tool: ToolWait, Agents: []string{"a"}}, codexTools(), "multi_agent_v1.wait_agent", `{"targets": ["a"], "timeout_ms": 180000}`},
		{Call{Tool: ToolNamed, Name: "x", Input: []byte(`{}`)}, nil, "x", `{}`},
	} {
		name, input := nativeCall(tc.call, tc.tools, responsesDialect())
		require.Equal(t, tc.name, name)
		require.Equal(t, tc.input, string(input))
	}
}

func TestSplitName(t *testing.T) {
	t.Parallel()
	tools := []string{"exec_command", "mcp__lab.echo"}
	for name, want := range map[string][2]string{
		"mcp__lab.echo":   {"mcp__lab", "echo"},
		"mcp__lab__echo":  {"mcp__lab", "echo"},
		"echo":            {"mcp__lab", "echo"},
		"exec_command":    {"", "exec_command"},
		"mcp__other.echo": {"", "mcp__other.echo"},
	} {
		space, base := splitName(name, tools)
		require.Equal(t, want, [2]string{space, base}, name)
	}
}
