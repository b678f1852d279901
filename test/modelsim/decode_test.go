package modelsim

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	machine "github.com/sojourn-run/sojourn/turn"
)

// sample is a request that a real command line has sent; its long texts and
// the descriptions of its tools are cut.
func sample(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	require.NoError(t, err)
	return raw
}

func TestDecodeCodex(t *testing.T) {
	t.Parallel()
	a, err := decodeResponses(sample(t, "codex"))
	require.NoError(t, err)
	require.Equal(t, "fake-model", a.model)
	require.Equal(t, "01a1fc84-7ef4-77b2-840f-aa1f92e71531", a.session)
	require.True(t, a.stream)
	require.False(t, a.Side)
	require.Subset(t, a.Tools, []string{"exec_command", "multi_agent_v1.spawn_agent", "multi_agent_v1.wait_agent"})
	require.NotContains(t, a.Tools, "", "what the server runs itself is no tool of the agent")
	require.Equal(t, []Turn{{
		Prompt: "SUBAGENTBG SAY inner THEN SAY meanwhile THEN WAITAGENT THEN TWO THEN SAY outer",
		Results: []Result{{
			Text: "inner", Agent: "01a1fc84-7f37-7822-ad6b-8fe6853cbe14", Reported: true, Waited: 1,
		}},
		Waits: 1,
	}}, a.Turns)
	parts, err := reply(a.Conversation)
	require.NoError(t, err)
	require.Equal(t, twoStep{}.parts(a.Conversation), parts)
}

func TestDecodeOpenCode(t *testing.T) {
	t.Parallel()
	a, err := decodeChat(sample(t, "opencode"))
	require.NoError(t, err)
	require.True(t, a.stream && a.usage)
	require.False(t, a.Side)
	require.Contains(t, a.Tools, "bash")
	require.Equal(t, []Turn{{Prompt: "TOOL bash: echo one", Results: []Result{{Text: "one\n"}}}, {Prompt: "RECALL"}}, a.Turns)
}

func TestDecodeOpenCodeTitle(t *testing.T) {
	t.Parallel()
	a, err := decodeChat(sample(t, "opencode-title"))
	require.NoError(t, err)
	require.True(t, a.Side)
	parts, err := reply(a.Conversation)
	require.NoError(t, err)
	require.Equal(t, []part{textPart{"SAY hello there"}}, parts)
}

func TestDecodeGemini(t *testing.T) {
	t.Parallel()
	a, err := decodeGemini(sample(t, "gemini"), true)
	require.NoError(t, err)
	require.False(t, a.Side)
	require.Nil(t, a.Finish)
	require.Contains(t, a.Tools, "run_shell_command")
	require.Len(t, a.Turns, 1)
	require.Equal(t, "TWO THEN SAY done", a.Turns[0].Prompt)
	require.Len(t, a.Turns[0].Results, 2)
	require.Contains(t, a.Turns[0].Results[1].Text, "Output: second")
}

// After a resume the command line sends a result twice.
func TestDecodeGeminiCountsAResultOnce(t *testing.T) {
	t.Parallel()
	a, err := decodeGemini(sample(t, "gemini-resumed"), true)
	require.NoError(t, err)
	require.Len(t, a.Turns, 2)
	require.Len(t, a.Turns[0].Results, 1)
	require.Equal(t, Turn{Prompt: "RECALL"}, a.Turns[1])
}

// A subagent of Gemini must hand in its result by a call whose input the
// request describes.
func TestGeminiSubagentHandsInItsResult(t *testing.T) {
	t.Parallel()
	a, err := decodeGemini(sample(t, "gemini-subagent"), true)
	require.NoError(t, err)
	parts, err := reply(a.Conversation)
	require.NoError(t, err)
	require.Equal(t, textPart{"sub done"}, parts[0])
	require.Len(t, parts, 2)
	name, input := nativeCall(parts[1].(callPart).call, a.Tools, geminiDialect())
	require.Equal(t, "complete_task", name)
	require.JSONEq(t, `{"result":{"response":"sub done"}}`, string(input))
	for _, script := range []string{"TOOL bash: x", "ERR500", "CUT"} {
		c := Conversation{Finish: a.Finish, Tools: a.Tools, Turns: []Turn{{Prompt: script}}}
		parts, err := reply(c)
		require.NoError(t, err)
		require.NotContains(t, parts, callPart{Call{Tool: ToolFinish}}, script)
		require.LessOrEqual(t, len(parts), 2)
	}
}

func TestDecodeErrorsOfFunctions(t *testing.T) {
	t.Parallel()
	a, err := decodeGemini([]byte(`{"contents":[{"parts":[{"text":"TWO"}]},{"parts":[
		{"functionResponse":{"response":{"error":"no"}}},{"functionResponse":{"response":{"x":1}}},{"functionResponse":{}}]}]}`), true)
	require.NoError(t, err)
	require.Equal(t, []Result{{Text: "no", IsError: true}, {Text: `{"x":1}`}, {Text: "null"}}, a.Turns[0].Results)
}

// What an agent writes into the user's messages is no prompt.
func TestWroteLeavesWhatTheUserWrote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SAY x": "SAY x",
		" SAY x <system-reminder>y</system-reminder>\n":               "SAY x",
		"<environment_context>\n<cwd>/</cwd>\n</environment_context>": "",
		"<permissions instructions>x</permissions instructions>":      "",
		"<session_context>x</session_context>":                        "",
		"<turn_aborted>\nx\n</turn_aborted>":                          "",
		"# AGENTS.md instructions for /srv\n\n<INSTRUCTIONS>x":        "",
		"You have exceeded the time limit. You have one final chance": "",
		"<b>bold</b>":     "<b>bold</b>",
		"<half_open> SAY": "<half_open> SAY",
	} {
		require.Equal(t, want, wrote(text), text)
	}
}

// Files and images that belong to a prompt come after it.
func TestFirstTextOfAMessageIsThePrompt(t *testing.T) {
	t.Parallel()
	chat, err := decodeChat([]byte(`{"model":"m","messages":[{"role":"user","content":[
		{"type":"text","text":"SAY x"},{"type":"image_url"},{"type":"text","text":"the file"}]}]}`))
	require.NoError(t, err)
	require.Equal(t, []Turn{{Prompt: "SAY x"}}, chat.Turns)
	plain, err := decodeResponses([]byte(`{"model":"m","input":"SAY x"}`))
	require.NoError(t, err)
	require.Equal(t, []Turn{{Prompt: "SAY x"}}, plain.Turns)
	require.False(t, plain.Side)
}

// Codex, asked to wait, may learn that the time is up, that the subagent
// failed, or something that is no JSON.
func TestWaitsForSubagents(t *testing.T) {
	t.Parallel()
	const id = `01a1fc84`
	for output, want := range map[string]Result{
		`{"status":{},"timed_out":true}`:                       {Text: `{"agent_id":"01a1fc84"}`, Agent: id},
		`{"status":{"01a1fc84":{"completed":"well"}}}`:         {Text: "well", Agent: id, Reported: true, Waited: 1},
		`{"status":{"01a1fc84":{"errored":"scripted error"}}}`: {Text: "scripted error", IsError: true, Agent: id, Reported: true, Waited: 1},
		`{"status":{"01a1fc84":"shutdown"}}`:                   {Text: "shutdown", Agent: id, Reported: true, Waited: 1},
		`aborted`:                                              {Text: "aborted", Agent: id, Reported: true, Waited: 1},
	} {
		body, err := json.Marshal(map[string]any{"model": "m", "input": []any{
			map[string]any{"role": "user", "content": "SUBAGENT SAY well"},
			map[string]any{"type": "function_call", "name": "spawn_agent", "call_id": "1", "arguments": "{}"},
			map[string]any{"type": "function_call_output", "call_id": "1", "output": `{"agent_id":"01a1fc84"}`},
			map[string]any{"type": "function_call", "name": "wait_agent", "call_id": "2", "arguments": `{"targets":["01a1fc84"]}`},
			map[string]any{"type": "function_call_output", "call_id": "2", "output": output},
		}})
		require.NoError(t, err)
		a, err := decodeResponses(body)
		require.NoError(t, err)
		require.Equal(t, []Result{want}, a.Turns[0].Results, output)
	}
}

// A model that is told that its subagents were lost with the machine continues without them; else
// it waits.
func TestLostSubagentsAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	said := func(last string) []part {
		body, err := json.Marshal(map[string]any{"model": "m", "tools": []any{
			map[string]any{"type": "function", "name": "spawn_agent"}, map[string]any{"type": "function", "name": "wait_agent"},
		}, "input": []any{
			map[string]any{"role": "user", "content": "SUBAGENT SAY well THEN SAY after it"},
			map[string]any{"type": "function_call", "name": "spawn_agent", "call_id": "1", "arguments": "{}"},
			map[string]any{"type": "function_call_output", "call_id": "1", "output": `{"agent_id":"01a1fc84"}`},
			map[string]any{"role": "user", "content": last},
		}})
		require.NoError(t, err)
		a, err := decodeResponses(body)
		require.NoError(t, err)
		parts, err := reply(a.Conversation)
		require.NoError(t, err)
		return parts
	}
	require.IsType(t, callPart{}, said("<system-reminder>it is at work</system-reminder>")[0])
	lost := &machine.Resume{PromptPersisted: true}
	require.Equal(t, []part{textPart{"after it"}}, said(lost.Prompt(machine.Message{ID: "m1"}).Text))
}

// A script that calls the tool itself gets its result as of any other tool.
func TestWaitThatTheScriptCalledIsAResult(t *testing.T) {
	t.Parallel()
	a, err := decodeResponses([]byte(`{"model":"m","input":[{"role":"user","content":"CALL wait_agent {\"targets\":[\"x\"]} THEN SAY y"},
		{"type":"function_call","name":"wait_agent","call_id":"1","arguments":"{\"targets\":[\"x\"]}"},
		{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"not found"}]}]}`))
	require.NoError(t, err)
	require.Equal(t, []Result{{Text: "not found"}}, a.Turns[0].Results)
	parts, err := reply(a.Conversation)
	require.NoError(t, err)
	require.Equal(t, []part{textPart{"y"}}, parts)
}

func TestDecodersRefuse(t *testing.T) {
	t.Parallel()
	geminiBody := func(body []byte) (asked, error) { return decodeGemini(body, true) }
	for _, tc := range []struct {
		decode     func([]byte) (asked, error)
		body, says string
	}{
		{decodeChat, `{`, "request body"},
		{decodeChat, `{"messages":[]}`, "model"},
		{decodeChat, `{"model":"m"}`, "at least one message"},
		{decodeChat, `{"model":"m","messages":[{"role":"user","content":3}]}`, "messages[0].content"},
		{decodeResponses, `{`, "request body"},
		{decodeResponses, `{}`, "model"},
		{decodeResponses, `{"model":"m"}`, "input: missing"},
		{decodeResponses, `{"model":"m","input":3}`, "input: "},
		{decodeResponses, `{"model":"m","input":[{"role":"user","content":3}]}`, "input[0]: content"},
		{geminiBody, `{`, "request body"},
		{geminiBody, `{}`, "contents is not specified"},
	} {
		_, err := tc.decode([]byte(tc.body))
		require.ErrorContains(t, err, tc.says, tc.body)
	}
}

// checkAnswer asserts that whatever was decoded is answered or refused, with
// calls that are JSON.
func checkAnswer(t *testing.T, c Conversation, d dialect) {
	parts, err := reply(c)
	if err != nil {
		return
	}
	require.NotEmpty(t, parts)
	for _, p := range parts {
		if call, ok := p.(callPart); ok {
			name, input := nativeCall(call.call, c.Tools, d)
			require.True(t, json.Valid(input), "%s", input)
			require.True(t, name != "" || call.call.Tool == ToolNamed)
		}
	}
}

// The seeds are small: what the fuzzer finds in large ones it takes minutes to
// make small.
func FuzzDecodeChat(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"TWO"},{"role":"tool","content":"a"},{"role":"tool","content":[{"text":"b"}]}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"system","content":"title"},{"role":"user","content":"x: SAY y"}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"SUBAGENTBG SAY a THEN WAITAGENT"}],"tools":[{"function":{"name":"task"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, err := decodeChat(body); err == nil {
			checkAnswer(t, a.Conversation, chatDialect())
		}
	})
}

func FuzzDecodeResponses(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":[{"role":"user","content":"SUBAGENTBG SAY a THEN WAITAGENT"},
{"type":"function_call","name":"spawn_agent","call_id":"1"},{"type":"function_call_output","call_id":"1","output":"{\"agent_id\":\"a\"}"},
{"type":"function_call","name":"wait_agent","call_id":"2","arguments":"{\"targets\":[\"a\"]}"},{"type":"function_call_output","call_id":"2","output":"{}"}],
"tools":[{"type":"namespace","name":"n","tools":[{"name":"spawn_agent"}]}]}`))
	f.Add([]byte(`{"model":"m","input":[{"role":"user","content":"<subagent_notification>{\"agent_path\":\"a\",\"status\":{\"completed\":1}}</subagent_notification>"}]}`))
	f.Add([]byte(`{"model":"m","input":"SUBAGENT SAY a THEN WAITAGENT THEN SAY b","tools":[{"name":"spawn_agent"}]}`))
	f.Add([]byte(`{"model":"m","instructions":"x","input":[{"role":"user"}],"text":{"format":{"schema":{"type":"array","minItems":1}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, err := decodeResponses(body); err == nil {
			checkAnswer(t, a.Conversation, responsesDialect())
		}
	})
}

func FuzzDecodeGemini(f *testing.F) {
	f.Add([]byte(`{"contents":[{"parts":[{"text":"<a_b>x</a_b>"},{"text":"TWO"}]},{"parts":[{"functionResponse":{"id":"1","response":{"output":"x"}}}]}]}`), true)
	f.Add([]byte(`{"contents":[{"parts":[{"text":"SAY x"}]}],"tools":[{"functionDeclarations":[{"name":"complete_task","parameters":{"type":"object"}}]}]}`), true)
	f.Add([]byte(`{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"responseSchema":{"type":"OBJECT","properties":{"a":{"enum":[1]}},"required":["a"]}}}`), false)
	f.Fuzz(func(t *testing.T, body []byte, stream bool) {
		if a, err := decodeGemini(body, stream); err == nil {
			checkAnswer(t, a.Conversation, geminiDialect())
		}
	})
}
