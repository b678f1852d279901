package modelsim

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

type fields = map[string]any

// scriptsBody is a request that lends tools to scripts, and items after the
// prompt.
func scriptsBody(prompt string, items ...any) fields {
	tools := []any{
		fields{"type": "namespace", "name": "functions", "tools": []any{
			fields{"type": "custom", "name": "exec", "description": "Runs it.\n\n### `exec_command`\nOne.\n\n### `mcp__lab__echo`\nTwo."},
			fields{"type": "function", "name": "wait"},
		}},
		fields{"type": "namespace", "name": "collaboration", "tools": []any{
			fields{"type": "function", "name": "spawn_agent"}, fields{"type": "function", "name": "wait_agent"},
		}},
	}
	input := []any{
		fields{"type": "additional_tools", "role": "developer", "tools": tools},
		fields{"type": "message", "role": "developer", "content": "work"},
		fields{"type": "message", "role": "user", "content": prompt},
	}
	return fields{"model": "m", "stream": true, "input": append(input, items...)}
}

func ran(name string) fields {
	return fields{"type": "custom_tool_call", "namespace": "functions", "name": name, "call_id": "c", "input": "…"}
}

func printedBy(head string, texts ...string) fields {
	pieces := []any{fields{"type": "input_text", "text": head + "\nWall time 0.1 seconds\nOutput:\n"}}
	for _, text := range texts {
		pieces = append(pieces, fields{"type": "input_text", "text": text})
	}
	return fields{"type": "custom_tool_call_output", "call_id": "c", "output": pieces}
}

func hears(t *testing.T, body fields) heard {
	t.Helper()
	b := start(t, Options{})
	status, got, err := b.send(t, "/v1/responses", body)
	require.NoError(t, err)
	require.Equal(t, 200, status, got)
	return readResponses(t, got, true)
}

// Where tools are functions of scripts, the calls of an answer are one script,
// and what it prints are their results.
func TestToolsOfScripts(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]heardCall{
		"TOOL bash: ls": {"exec", "const r = await tools.exec_command({\"cmd\": \"ls\"});\ntext(" + told + ");\n"},
		"TWO": {"exec", inTurn + "for (const call of [\n  () => tools.exec_command({\"cmd\": \"echo first\"}),\n" +
			"  () => tools.exec_command({\"cmd\": \"echo second\"}),\n]) {\n" + startOne + "}\n" +
			"for (const { value: r, reason } of await Promise.allSettled(calls)) text(reason ? String(reason) : " + told + ");\n"},
		`CALL mcp__lab.echo {"a":1}`: {"exec", "const r = await tools.mcp__lab__echo({\"a\":1});\ntext(" + told + ");\n"},
		`CALL nothing {}`:            {"exec", "const r = await tools.nothing({});\ntext(" + told + ");\n"},
		"SUBAGENT SAY a":             {"spawn_agent", `{"task_name": "job_1", "message": "SAY a", "fork_turns": "none"}`},
	} {
		t.Run(prompt, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []heardCall{want}, hears(t, scriptsBody(prompt)).calls)
		})
	}
}

func TestResultsOfScripts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prompt string
		output fields
		want   string
	}{
		"each text":  {"TWO", printedBy("Script completed", "a", "b"), "FINAL after 2 tool result(s): a | b"},
		"empty text": {"TOOL bash: true", printedBy("Script completed", ""), "FINAL after 1 tool result(s): "},
		"no text":    {"TOOL bash: true", printedBy("Script completed"), "FINAL after 1 tool result(s): "},
		"failure":    {"TOOL bash: x", printedBy("Script failed", "Script error:\nwhy"), "FINAL after 1 tool result(s): ERR:Script error:\nwhy"},
		"broken off": {"TOOL bash: x", fields{"type": "custom_tool_call_output", "call_id": "c", "output": "aborted"}, "FINAL after 1 tool result(s): aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, hears(t, scriptsBody(c.prompt, ran("exec"), c.output)).text)
		})
	}
}

// A script that takes its time is waited for, and no step goes by meanwhile.
func TestScriptThatTakesItsTime(t *testing.T) {
	t.Parallel()
	running := fields{"type": "custom_tool_call_output", "call_id": "c", "output": "Script running with cell ID 7\nWall time 30.0 seconds\nOutput:\n"}
	got := hears(t, scriptsBody("TOOL bash: x", ran("exec"), running))
	require.Equal(t, []heardCall{{"wait", `{"cell_id": "7", "yield_time_ms": 300000}`}}, got.calls)
	wait := fields{"type": "function_call", "namespace": "functions", "name": "wait", "call_id": "w", "arguments": "{}"}
	done := printedBy("Script completed", "late")
	done["call_id"] = "w"
	require.Equal(t, "FINAL after 1 tool result(s): late", hears(t, scriptsBody("TOOL bash: x", ran("exec"), running, wait, done)).text)
}

// What runs scripts may be gone with an interrupt: then the script is called
// again.
func TestScriptThatHadNothingToRunIt(t *testing.T) {
	t.Parallel()
	gone := fields{
		"type": "custom_tool_call_output", "call_id": "c",
		"output": "The exec runtime was replaced. Stored values and running cells were lost. You may continue with a fresh exec call.",
	}
	got := hears(t, scriptsBody("TOOL bash: x", ran("exec"), gone))
	require.Len(t, got.calls, 1)
	require.Equal(t, "exec", got.calls[0].name)
}

// Subagents that have names answer by mail.
func TestSubagentsByMail(t *testing.T) {
	t.Parallel()
	task := fields{
		"type": "agent_message", "author": "/root", "recipient": "/root/job_1",
		"content": []any{
			fields{"type": "input_text", "text": "Message Type: NEW_TASK\nTask name: /root/job_1\nSender: /root\nPayload:\n"},
			fields{"type": "encrypted_content", "encrypted_content": "SAY inner"},
		},
	}
	body := scriptsBody("")
	body["input"] = append(body["input"].([]any)[:2], task)
	require.Equal(t, "inner", hears(t, body).text)

	spawn := fields{"type": "function_call", "namespace": "collaboration", "name": "spawn_agent", "call_id": "s", "arguments": "{}"}
	begun := fields{"type": "function_call_output", "call_id": "s", "output": `{"task_name":"/root/job_1"}`}
	got := hears(t, scriptsBody("SUBAGENT SAY inner THEN SAY outer", spawn, begun))
	require.Equal(t, []heardCall{{"wait_agent", `{"timeout_ms": 180000}`}}, got.calls)

	wait := fields{"type": "function_call", "namespace": "collaboration", "name": "wait_agent", "call_id": "w", "arguments": "{}"}
	waited := fields{"type": "function_call_output", "call_id": "w", "output": `{"message":"Wait completed.","timed_out":false}`}
	answer := fields{"type": "agent_message", "author": "/root/job_1", "recipient": "/root", "content": []any{
		fields{"type": "input_text", "text": "Message Type: FINAL_ANSWER\nTask name: /root\nSender: /root/job_1\nPayload:\ninner"},
	}}
	require.Equal(t, "outer", hears(t, scriptsBody("SUBAGENT SAY inner THEN SAY outer", spawn, begun, wait, waited, answer)).text)
	require.Equal(t, "FINAL after 1 tool result(s): inner", hears(t, scriptsBody("SUBAGENT SAY inner", spawn, begun, wait, waited, answer)).text)
}

// The arguments of a function that takes text are the text.
func TestPatchOfAScriptIsText(t *testing.T) {
	t.Parallel()
	source, ok := script([]Call{{Tool: ToolNamed, Name: "apply_patch", Input: json.RawMessage(`{"input":"*** Begin"}`)}},
		[]string{codeTool, codePrefix + "apply_patch"})
	require.True(t, ok)
	require.Contains(t, source, `tools.apply_patch("*** Begin");`)
}
