package modelsim

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wire is one protocol as its clients see it.
type wire struct {
	path, whole string
	// body is a request with a script, and tools if it lends any.
	body func(prompt string, stream bool, tools ...string) map[string]any
	// read takes an answer apart, streamed or whole.
	read func(t testing.TB, body string, stream bool) heard
	// message is where an error's words are.
	message func(t testing.TB, body string) (text, kind string)
}

// heard is what a client makes of an answer.
type heard struct {
	text, thought string
	calls         []heardCall
	// ended reports whether the answer is complete, tools whether it waits for them.
	ended, tools bool
	in, out      int
	failed       string
}

type heardCall struct{ name, input string }

func wires() map[string]wire {
	return map[string]wire{
		"chat":      {"/v1/chat/completions", "/v1/chat/completions", chatBody, readChat, openAIMessage},
		"responses": {"/v1/responses", "/v1/responses", responsesBody, readResponses, openAIMessage},
		"gemini": {
			"/v1beta/models/m:streamGenerateContent?alt=sse", "/v1beta/models/m:generateContent",
			geminiBody, readGemini, geminiMessageOf,
		},
	}
}

func chatBody(prompt string, stream bool, tools ...string) map[string]any {
	list := []any{}
	for _, name := range tools {
		list = append(list, map[string]any{"type": "function", "function": map[string]any{"name": name}})
	}
	return map[string]any{
		"model": "m", "stream": stream, "stream_options": map[string]any{"include_usage": true}, "tools": list,
		"messages": []any{map[string]any{"role": "system", "content": "work"}, map[string]any{"role": "user", "content": prompt}},
	}
}

func responsesBody(prompt string, stream bool, tools ...string) map[string]any {
	list := []any{}
	for _, name := range tools {
		list = append(list, map[string]any{"type": "function", "name": name})
	}
	return map[string]any{"model": "m", "stream": stream, "tools": list, "instructions": "work", "input": prompt}
}

func geminiBody(prompt string, _ bool, tools ...string) map[string]any {
	list := []any{}
	for _, name := range tools {
		list = append(list, map[string]any{"name": name})
	}
	return map[string]any{
		"systemInstruction": map[string]any{"parts": []any{map[string]any{"text": "work"}}},
		"tools":             []any{map[string]any{"functionDeclarations": list}},
		"contents":          []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": prompt}}}},
	}
}

// data returns the events of a stream.
func data(body string) (out []string) {
	for line := range strings.Lines(body) {
		if d, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "data: "); ok {
			out = append(out, d)
		}
	}
	return out
}

func parse(t testing.TB, text string, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), v), text)
}

type chatSays struct {
	Content   string
	Reasoning string `json:"reasoning_content"`
	Calls     []struct {
		Index    int
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

type chatChunk struct {
	Choices []struct {
		Delta, Message chatSays
		Finish         string `json:"finish_reason"`
	}
	Usage struct {
		In  int `json:"prompt_tokens"`
		Out int `json:"completion_tokens"`
	}
	Error struct{ Message string }
}

func readChat(t testing.TB, body string, stream bool) (h heard) {
	t.Helper()
	chunks, done := []string{body}, true
	if stream {
		chunks, done = data(body), false
	}
	for _, text := range chunks {
		if text == "[DONE]" {
			done = true
			continue
		}
		var c chatChunk
		parse(t, text, &c)
		h.failed += c.Error.Message
		h.in, h.out = h.in+c.Usage.In, h.out+c.Usage.Out
		for _, choice := range c.Choices {
			h.addChat(choice.Delta)
			h.addChat(choice.Message)
			h.ended = h.ended || choice.Finish != ""
			h.tools = h.tools || choice.Finish == "tool_calls"
		}
	}
	h.ended = h.ended && done
	return h
}

func (h *heard) addChat(s chatSays) {
	h.text += s.Content
	h.thought += s.Reasoning
	for _, c := range s.Calls {
		for len(h.calls) <= max(c.Index, 0) {
			h.calls = append(h.calls, heardCall{})
		}
		i := c.Index
		if c.ID != "" && h.calls[i].name != "" { // whole answers give no index
			h.calls = append(h.calls, heardCall{})
			i = len(h.calls) - 1
		}
		h.calls[i].name += c.Function.Name
		h.calls[i].input += c.Function.Arguments
	}
}

type responsesItemSaid struct {
	ID, Type, Name, Namespace, Arguments, Input string
	Content, Summary                            []struct{ Text string }
}

type responsesEvent struct {
	Type, Delta, Text, Status string
	Sequence                  int    `json:"sequence_number"`
	ItemID                    string `json:"item_id"`
	Item                      responsesItemSaid
	Response                  json.RawMessage
}

type responseSaid struct {
	Status string
	Output []responsesItemSaid
	Usage  struct {
		In  int `json:"input_tokens"`
		Out int `json:"output_tokens"`
	}
	Error struct{ Message string }
}

// readResponses believes the last event, and checks that the deltas before it
// say the same.
func readResponses(t testing.TB, body string, stream bool) (h heard) {
	t.Helper()
	if !stream {
		h.addResponse(t, body)
		return h
	}
	deltas, whole := map[string]string{}, map[string]string{}
	for i, text := range data(body) {
		var e responsesEvent
		parse(t, text, &e)
		require.Equal(t, i, e.Sequence)
		deltas[e.ItemID] += e.Delta
		switch e.Type {
		case "response.output_item.done":
			whole[e.Item.ID] = e.Item.said()
		case "response.completed", "response.failed":
			h.addResponse(t, string(e.Response))
		}
	}
	for id, text := range whole {
		require.Equal(t, text, deltas[id])
	}
	return h
}

func (i responsesItemSaid) said() string {
	text := i.Arguments + i.Input
	for _, part := range append(i.Content, i.Summary...) {
		text += part.Text
	}
	return text
}

func (h *heard) addResponse(t testing.TB, body string) {
	t.Helper()
	var r responseSaid
	parse(t, body, &r)
	h.ended, h.failed, h.in, h.out = r.Status == "completed", r.Error.Message, r.Usage.In, r.Usage.Out
	for _, item := range r.Output {
		switch item.Type {
		case "reasoning":
			h.thought += item.said()
		case "message":
			h.text += item.said()
		case "function_call", "custom_tool_call":
			h.tools = true
			h.calls = append(h.calls, heardCall{item.Name, item.Arguments + item.Input})
		}
	}
}

type geminiChunk struct {
	Candidates []struct {
		Content struct {
			Parts []struct {
				Text    string
				Thought bool
				Call    *struct {
					Name string
					Args json.RawMessage
				} `json:"functionCall"`
			}
		}
		Finish string `json:"finishReason"`
	}
	Usage struct {
		In  int `json:"promptTokenCount"`
		Out int `json:"candidatesTokenCount"`
	} `json:"usageMetadata"`
	Error struct{ Message string }
}

func readGemini(t testing.TB, body string, stream bool) (h heard) {
	t.Helper()
	chunks := []string{body}
	if stream {
		chunks = data(body)
	}
	for _, text := range chunks {
		var c geminiChunk
		parse(t, text, &c)
		h.in, h.out, h.failed = h.in+c.Usage.In, h.out+c.Usage.Out, h.failed+c.Error.Message
		for _, candidate := range c.Candidates {
			h.ended = h.ended || candidate.Finish == "STOP"
			for _, p := range candidate.Content.Parts {
				switch {
				case p.Call != nil:
					h.tools = true
					h.calls = append(h.calls, heardCall{p.Call.Name, string(p.Call.Args)})
				case p.Thought:
					h.thought += strings.TrimPrefix(p.Text, "**Considering**\n")
				default:
					h.text += p.Text
				}
			}
		}
	}
	return h
}

func openAIMessage(t testing.TB, body string) (text, kind string) {
	t.Helper()
	var e struct{ Error openAIError }
	parse(t, body, &e)
	return e.Error.Message, e.Error.Type
}

func geminiMessageOf(t testing.TB, body string) (text, kind string) {
	t.Helper()
	var e struct {
		Error struct {
			Code            int
			Message, Status string
		}
	}
	parse(t, body, &e)
	return e.Error.Message, e.Error.Status
}

// send posts a request and reads what came, to the end or to the cut.
func (b *bench) send(t testing.TB, path string, body any, header ...string) (status int, got string, err error) {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+path, bytes.NewReader(raw))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := b.client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	return res.StatusCode, string(all), err
}
