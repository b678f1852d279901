package modelsim

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func turn(prompt string, results ...string) Conversation {
	t := Turn{Prompt: prompt}
	for _, r := range results {
		t.Results = append(t.Results, Result{Text: r})
	}
	return Conversation{Turns: []Turn{t}}
}

func bash(command string) callPart { return callPart{Call{Tool: ToolBash, Command: command}} }

func TestReply(t *testing.T) {
	t.Parallel()
	noticed := turn("SUBAGENTBG SAY a THEN WAITAGENT THEN SAY done", "launched")
	noticed.Turns[0].Notices = 1
	remembering := Conversation{Turns: []Turn{
		{Prompt: "SAY one"}, {Prompt: strings.Repeat("x", 70), Folded: []string{"SAY folded"}}, {Prompt: "RECALL"},
	}}
	failed := turn("TOOL bash: x")
	failed.Turns[0].Results = []Result{{Text: "no", IsError: true}}

	for name, tc := range map[string]struct {
		c    Conversation
		want []part
	}{
		"say":               {turn("SAY hi"), []part{textPart{"hi"}}},
		"no script":         {turn("hello THEN bye"), []part{textPart{"You said: hello THEN bye"}}},
		"nothing":           {Conversation{}, []part{textPart{"You said: "}}},
		"word in a word":    {turn("SAYING so"), []part{textPart{"You said: SAYING so"}}},
		"think":             {turn("THINK it"), []part{thinkPart{"Let me think about this: it"}, textPart{"I thought about: it"}}},
		"bash":              {turn("TOOL bash: ls"), []part{textPart{"Running it."}, bash("ls")}},
		"read":              {turn("TOOL read: a"), []part{callPart{Call{Tool: ToolRead, File: "a"}}}},
		"write":             {turn("TOOL write: a :: b c"), []part{callPart{Call{Tool: ToolWrite, File: "a", Content: "b c\n"}}}},
		"call":              {turn(`CALL x {"a": 1}`), []part{callPart{Call{Name: "x", Input: json.RawMessage(`{"a": 1}`)}}}},
		"final":             {turn("TOOL bash: ls", "out"), []part{textPart{"FINAL after 1 tool result(s): out"}}},
		"final of an error": {failed, []part{textPart{"FINAL after 1 tool result(s): ERR:no"}}},
		"final is cut":      {turn("TOOL bash: ls", strings.Repeat("é", 200)), []part{textPart{"FINAL after 1 tool result(s): " + strings.Repeat("é", 160)}}},
		"two":               {turn("TWO"), []part{textPart{"Two at once."}, bash("echo first"), bash("echo second")}},
		"two half done":     {turn("TWO THEN SAY x", "first"), []part{textPart{"Two at once."}, bash("echo first"), bash("echo second")}},
		"two done":          {turn("TWO", "b", "a"), []part{textPart{"FINAL after 2 tool result(s): b | a"}}},
		"second step":       {turn("TOOL bash: a THEN TOOL bash: b THEN SAY c", "x"), []part{textPart{"Running it."}, bash("b")}},
		"last step":         {turn("TOOL bash: a THEN TOOL bash: b THEN SAY c", "x", "y"), []part{textPart{"c"}}},
		"texts until call":  {turn("SAY a THEN SAY b THEN TOOL read: f THEN SAY c"), []part{textPart{"a"}, textPart{"b"}, callPart{Call{Tool: ToolRead, File: "f"}}}},
		"text before done":  {turn("SAY a THEN TOOL read: f THEN SAY c", "x"), []part{textPart{"c"}}},
		"subagent": {turn("SUBAGENT SUBAGENT SAY a ANDANDTHEN SAY b ANDTHEN SAY c THEN SAY d"), []part{textPart{"Delegating."},
			callPart{Call{Tool: ToolSubagent, Prompt: "SUBAGENT SAY a ANDTHEN SAY b THEN SAY c"}}}},
		"background":        {turn("SUBAGENTBG SAY a"), []part{textPart{"Delegating."}, callPart{Call{Tool: ToolSubagent, Prompt: "SAY a", Background: true}}}},
		"wait":              {turn("SUBAGENTBG SAY a THEN WAITAGENT THEN SAY done", "launched"), []part{textPart{"Waiting."}}},
		"waited":            {noticed, []part{textPart{"done"}}},
		"recall":            {remembering, []part{textPart{"RECALL I saw 3 earlier prompts: SAY one || " + strings.Repeat("x", 60) + " || SAY folded"}}},
		"error":             {turn("ERR529"), []part{failPart{529, "scripted error 529"}}},
		"error later":       {turn("TOOL bash: a THEN ERR400", "x"), []part{failPart{400, "scripted error 400"}}},
		"slow":              {turn("SLOW 0.5 THEN SAY x"), []part{slowPart{500 * time.Millisecond}, textPart{"x"}}},
		"hang":              {turn("HANG 3"), []part{hangPart{3 * time.Second}}},
		"deltas":            {turn("DELTAS 100000"), []part{deltasPart{100000}}},
		"big":               {turn("BIG 7"), []part{bigPart{7}}},
		"gate":              {turn("GATE a"), []part{gatePart{"a"}}},
		"cut":               {turn("CUT"), []part{cutPart{}}},
		"multi-line":        {turn("SAY a\nb THEN SAY c"), []part{textPart{"a\nb"}, textPart{"c"}}},
		"no error number":   {turn("ERR299"), []part{textPart{"You said: ERR299"}}},
		"later no script":   {turn("SAY a THEN go"), []part{textPart{"a"}, textPart{"You said: go"}}},
		"echo is bounded":   {turn(strings.Repeat("a", 3000)), []part{textPart{"You said: " + strings.Repeat("a", 2000) + "…"}}},
		"call without args": {turn("CALL x"), []part{callPart{Call{Name: "x", Input: json.RawMessage(`{}`)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := reply(tc.c)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestWrongScript(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"SLOW":                   "SLOW: want seconds",
		"SLOW NaN":               "SLOW: want seconds",
		"HANG -1":                "HANG: want seconds",
		"DELTAS 100001":          "DELTAS: want a number from 0 to 100000",
		"BIG x":                  "BIG: want a number",
		"GATE a b":               "GATE: want a name",
		"TWO three":              "TWO: takes no argument",
		"TOOL sh: x":             `TOOL: unknown tool "sh"`,
		"TOOL bash":              "TOOL: want bash:",
		"TOOL write: f":          "TOOL: want write: file :: content",
		"CALL x {":               "CALL: want a name and a JSON object",
		"CALL x [1]":             "CALL: want a name and a JSON object",
		"SUBAGENT":               "SUBAGENT: want a script",
		"SAY a THEN WAITAGENT x": "step 2: WAITAGENT: takes no argument",
	} {
		_, err := reply(turn(script))
		require.ErrorContains(t, err, want, script)
	}
}

func TestPiecesKeepTheText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "one", "one two", " a  b\nc ", "a b c d e f g h i j k"} {
		got := pieces(text)
		require.Equal(t, text, strings.Join(got, ""))
	}
	require.Equal(t, []string{"hello wonderful ", "world from ", "the fake ", "model"},
		pieces("hello wonderful world from the fake model"))
}
