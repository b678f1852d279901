package modelsim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// each runs a test for every protocol, streamed and whole.
func each(t *testing.T, test func(t *testing.T, b *bench, w wire, path string, stream bool)) {
	t.Helper()
	for name, w := range wires() {
		for path, stream := range map[string]bool{w.path: true, w.whole + "?": false} {
			t.Run(fmt.Sprint(name, "/stream=", stream), func(t *testing.T) {
				t.Parallel()
				test(t, start(t, Options{}), w, strings.TrimSuffix(path, "?"), stream)
			})
		}
	}
}

func TestWiresSayThinkAndCall(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench, w wire, path string, stream bool) {
		status, body, err := b.send(t, path, w.body(`THINK deep & "wide" é THEN TOOL bash: ls <x>`, stream, "bash"))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		got := w.read(t, body, stream)
		require.Equal(t, heard{
			text: `I thought about: deep & "wide" éRunning it.`, thought: `Let me think about this: deep & "wide" é`,
			calls: got.calls, ended: true, tools: true, in: 100, out: 20,
		}, got)
		require.Len(t, got.calls, 1)
		require.Equal(t, "bash", got.calls[0].name)
		require.JSONEq(t, `{"command":"ls <x>"}`, got.calls[0].input)
	})
}

func TestWiresCallTwoAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench, w wire, path string, stream bool) {
		_, body, err := b.send(t, path, w.body("TWO", stream, "bash"))
		require.NoError(t, err)
		got := w.read(t, body, stream)
		require.Len(t, got.calls, 2)
		require.JSONEq(t, `{"command":"echo second"}`, got.calls[1].input)
	})
}

func TestWiresPlayEveryWord(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench, w wire, path string, stream bool) {
		b.sim.Open("g")
		_, body, err := b.send(t, path, w.body("GATE g THEN DELTAS 3 THEN SLOW 0 THEN HANG 0 THEN BIG 70 THEN RECALL", stream, "bash"))
		require.NoError(t, err)
		got := w.read(t, body, stream)
		require.True(t, got.ended)
		require.False(t, got.tools)
		big := strings.Repeat("0123456789abcdef", 4)[:63] + "\n" + "012345"
		require.Equal(t, "waiting at g passedw0 w1 w2 hung for 0s"+big+"RECALL I saw 0 earlier prompts: ", got.text)
	})
}

func TestWiresGiveErrors(t *testing.T) {
	t.Parallel()
	kinds := map[string]map[int]string{
		"OpenAI": {400: "invalid_request_error", 401: "invalid_request_error", 404: "invalid_request_error", 429: "rate_limit_error", 500: "server_error"},
		"Google": {
			400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
			429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
		},
	}
	each(t, func(t *testing.T, b *bench, w wire, path string, stream bool) {
		family := "OpenAI"
		if strings.HasPrefix(path, "/v1beta/") {
			family = "Google"
		}
		for status, kind := range kinds[family] {
			got, body, err := b.send(t, path, w.body(fmt.Sprint("ERR", status), stream, "bash"))
			require.NoError(t, err)
			require.Equal(t, status, got)
			text, said := w.message(t, body)
			require.Equal(t, fmt.Sprint("scripted error ", status), text)
			require.Equal(t, kind, said)
		}
		got, body, err := b.send(t, path, w.body("SLOW", stream, "bash"))
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, got)
		text, _ := w.message(t, body)
		require.Contains(t, text, "script: step 1: SLOW")
		got, _, err = b.send(t, path, "no request")
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, got)
	})
}

func TestWiresFailInTheMiddle(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench, w wire, path string, stream bool) {
		if !stream {
			return // nothing has been sent yet: it is an error like any other
		}
		for script, words := range map[string]string{"SAY a THEN ERR500": "scripted error 500", "SAY a THEN ERR429": "scripted error 429"} {
			status, body, err := b.send(t, path, w.body(script, true, "bash"))
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			got := w.read(t, body, true)
			require.Equal(t, words, got.failed)
			require.False(t, got.ended)
		}
	})
}

func TestWiresAreCut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench, w wire, path string, stream bool) {
		if !stream {
			return
		}
		_, body, err := b.send(t, path, w.body("CUT", true, "bash"))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Contains(t, body, "cut in the ")
	})
}

// A request that lends no tools is the agent's own: for a title, for example.
func TestWiresAnswerSideRequests(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench, w wire, path string, stream bool) {
		_, body, err := b.send(t, path, w.body("Give a title:\nUser: ERR500 THEN GATE never", stream), "X-Session-Id", "s")
		require.NoError(t, err)
		require.Equal(t, "ERR500 THEN GATE never", w.read(t, body, stream).text)
		require.Equal(t, SessionStats{Side: 1, Prompts: []PromptStats{}}, b.sim.Stats().Sessions["s"])
	})
}

func TestSideAnswersFitTheSchema(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"OBJECT","required":["reasoning","next_speaker","n","ok","list","pick"],"properties":{
		"reasoning":{"type":"string"},"next_speaker":{"type":"string","enum":["user","model"]},"n":{"type":["integer","null"]},
		"ok":{"type":"boolean"},"list":{"type":"array","minItems":1,"items":{"const":"c"}},"pick":{"anyOf":[{"type":"number"}]},"left":{}}}`)
	want := `{"reasoning":"scripted","next_speaker":"user","n":0,"ok":false,"list":["c"],"pick":0}`
	b := start(t, Options{})
	for path, body := range map[string]any{
		"/v1beta/models/m:generateContent": map[string]any{
			"contents": []any{map[string]any{"parts": []any{map[string]any{"text": "who speaks next?"}}}}, "generationConfig": map[string]any{"responseJsonSchema": schema},
		},
		"/v1beta/models/n:generateContent": map[string]any{
			"contents": []any{map[string]any{"parts": []any{map[string]any{"text": "who speaks next?"}}}}, "generationConfig": map[string]any{"responseSchema": schema},
		},
		"/v1/chat/completions": map[string]any{
			"model": "m", "messages": []any{map[string]any{"role": "user", "content": "x"}},
			"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"schema": schema}},
		},
		"/v1/responses": map[string]any{"model": "m", "input": "x", "text": map[string]any{"format": map[string]any{"schema": schema}}},
	} {
		status, body, err := b.send(t, path, body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		text := readWhole(t, path, body)
		require.JSONEq(t, want, text, path)
	}
}

func readWhole(t *testing.T, path, body string) string {
	t.Helper()
	for _, w := range wires() {
		if w.whole == strings.Replace(path, "/n:", "/m:", 1) {
			return w.read(t, body, false).text
		}
	}
	require.Fail(t, "no such path")
	return ""
}

// Gemini's command line asks for a summary without a system instruction.
func TestGeminiSummaryIsASideRequest(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	body := geminiBody("Summarize the user's primary intent.\n\nConversation:\nUser: TOOL bash: x\n", false)
	delete(body, "systemInstruction")
	_, got, err := b.send(t, "/v1beta/models/m:generateContent", body)
	require.NoError(t, err)
	require.Equal(t, "TOOL bash: x", readGemini(t, got, false).text)
	require.Equal(t, 1, b.sim.Stats().Sessions[""].Side)
	body = geminiBody("SAY by hand", false)
	delete(body, "systemInstruction")
	_, got, err = b.send(t, "/v1beta/models/m:generateContent", body)
	require.NoError(t, err)
	require.Equal(t, "by hand", readGemini(t, got, false).text)
}

func TestTopic(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]string{
		"":                       "nothing yet",
		"Hello\nworld":           "Hello",
		"Title for:\nSAY x":      "SAY x",
		"TOOL bash: echo":        "TOOL bash: echo",
		"SAY x: SAY y":           "SAY x: SAY y",
		strings.Repeat("x", 200): strings.Repeat("x", maxTopic) + "…",
	} {
		require.Equal(t, want, topic(Conversation{Turns: []Turn{{Prompt: prompt}}}), prompt)
	}
	require.Equal(t, "nothing yet", topic(Conversation{}))
}

// Every protocol has its own way of naming the session.
func TestSessionsOfEveryProtocol(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	say := func(path string, body map[string]any, header ...string) {
		status, got, err := b.send(t, path, body, header...)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, got)
	}
	keyed := responsesBody("SAY x", true, "exec_command")
	keyed["prompt_cache_key"] = "by-key"
	say("/v1/responses", keyed)
	say("/v1/responses", keyed, "Session-Id", "codex", "Thread-Id", "subagent")
	say("/v1/chat/completions", chatBody("SAY x", true, "bash"), "X-Session-Id", "open")
	say("/v1/chat/completions", chatBody("SAY x", true, "bash"), "X-Session-Id", "child", "X-Parent-Session-Id", "open")
	say("/v1/chat/completions", chatBody("SAY x", true, "bash"), "X-Session-Id", "grandchild", "X-Parent-Session-Id", "child")
	say("/v1beta/models/m:streamGenerateContent?alt=sse", geminiBody("SAY x", true, "x"), "X-Session-Id", "gem")
	say("/v1beta/models/m:streamGenerateContent?alt=sse", geminiBody("SAY x", true, "x"))
	for session, want := range map[string]int{"by-key": 1, "codex": 1, "open": 3, "child": 0, "grandchild": 0, "gem": 1, "": 1} {
		require.Equal(t, want, b.sim.Requests(session), session)
	}
}

func TestGeminiPaths(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	_, got, err := b.send(t, "/v1beta/models/m:countTokens", strings.Repeat("x", 398))
	require.NoError(t, err)
	require.JSONEq(t, `{"totalTokens":100}`, got)
	for _, path := range []string{"/v1beta/models/m:dance", "/v1beta/models/m", "/v1beta/nothing"} {
		status, got, err := b.send(t, path, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, status)
		_, kind := geminiMessageOf(t, got)
		require.Equal(t, "NOT_FOUND", kind)
	}
}

// A namespace is part of a call, not of its name.
func TestResponsesCallsInANamespace(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	body := responsesBody("SUBAGENT SAY x", true)
	body["tools"] = []any{map[string]any{
		"type": "namespace", "name": "multi_agent_v1", "tools": []any{map[string]any{"type": "function", "name": "spawn_agent"}},
	}}
	_, got, err := b.send(t, "/v1/responses", body)
	require.NoError(t, err)
	require.Contains(t, got, `"name":"spawn_agent","namespace":"multi_agent_v1"`)
}

func BenchmarkWireDeltas(b *testing.B) {
	for name, w := range wires() {
		b.Run(name, func(b *testing.B) {
			s := start(b, Options{})
			for b.Loop() {
				_, _, err := s.send(b, w.path, w.body("DELTAS 100000", true, "bash"))
				require.NoError(b, err)
			}
			b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "deltas/s")
		})
	}
}
