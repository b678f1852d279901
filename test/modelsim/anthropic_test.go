package modelsim

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the command line adds to the user's messages is no prompt.
func TestDecodeFindsThePrompts(t *testing.T) {
	t.Parallel()
	body := `{"model":"m","tools":[{"name":"Bash"}],"messages":[
		{"role":"user","content":[{"type":"text","text":"<system-reminder>\nSAY no\n</system-reminder>"},{"type":"text","text":"SAY one"}]},
		{"role":"system","content":"Available agent types"},
		{"role":"assistant","content":[{"type":"text","text":"one"}]},
		{"role":"user","content":"<command-message>x</command-message>"},
		{"role":"user","content":"<local-command-stdout>x</local-command-stdout>"},
		{"role":"user","content":[{"type":"text","text":"SAY two <system-reminder>more</system-reminder>"}]},
		{"role":"user","content":[
			{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"},{"type":"image"},{"type":"text","text":"y"}]},
			{"type":"tool_result","tool_use_id":"b","content":"z","is_error":true},
			{"type":"tool_result","tool_use_id":"c"},
			{"type":"text","text":"Base directory for this skill: /x\n\nbody"},
			{"type":"text","text":"[Request interrupted by user]"}]},
		{"role":"user","content":"<task-notification>\n<task-id>a</task-id>"}]}`
	_, c, err := decodeAnthropic([]byte(body))
	require.NoError(t, err)
	require.Equal(t, Conversation{
		Tools: []string{"Bash"},
		Turns: []Turn{
			{Prompt: "SAY one"},
			{Prompt: "SAY two", Results: []Result{{Text: "x y"}, {Text: "z", IsError: true}, {}}, Notices: 1},
		},
	}, c)
}

// A message sent while a tool runs arrives beside the result in one of two ways.
func TestDecodeFindsFoldedMessages(t *testing.T) {
	t.Parallel()
	note := "The user sent a new message while you were working:\nSAY steer\n\nIMPORTANT: After"
	for name, rest := range map[string][]any{
		"as a system message": {
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "content": "slept"}}},
			map[string]any{"role": "system", "content": note},
		},
		"in the result": {
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "content": "slept\n\n" + note}}},
		},
	} {
		messages := append([]any{map[string]any{"role": "user", "content": "TOOL bash: x"}}, rest...)
		body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
		require.NoError(t, err)
		_, c, err := decodeAnthropic(body)
		require.NoError(t, err)
		require.Equal(t, []Turn{{
			Prompt: "TOOL bash: x", Results: []Result{{Text: "slept\n\n" + note}}, Folded: []string{"SAY steer"},
		}}, c.Turns, name)
	}
}

func TestSubagentToolHasTheNameOnOffer(t *testing.T) {
	t.Parallel()
	call := Call{Tool: ToolSubagent, Prompt: "SAY <a>", Background: true}
	name, input := nativeCall(call, []string{"Task", "Bash"}, anthropicDialect())
	require.Equal(t, "Task", name)
	require.Equal(t, `{"description": "inner job", "prompt": "SAY <a>", "subagent_type": "general-purpose", "run_in_background": true}`, string(input))
	name, _ = nativeCall(call, []string{"Task", "Agent"}, anthropicDialect())
	require.Equal(t, "Agent", name)
}

// Whatever comes in, the decoder and the interpreter answer or refuse.
func FuzzDecodeAnthropic(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"SAY x THEN TWO"}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"TOOL bash: a"},{"type":"tool_result","content":[{"type":"text","text":"x"}]}]}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"system","content":null},{"role":"user","content":"SUBAGENT SAY a ANDTHEN SAY b"}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"CALL x {\"a\":1} THEN GATE g THEN BIG 3"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, c, err := decodeAnthropic(body)
		if err != nil {
			return
		}
		parts, err := reply(c)
		if err != nil {
			return
		}
		require.NotEmpty(t, parts)
		for _, p := range parts {
			if call, ok := p.(callPart); ok {
				_, input := nativeCall(call.call, c.Tools, anthropicDialect())
				require.True(t, json.Valid(input), "%s", input)
			}
		}
	})
}
