package modelsim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bench struct {
	sim    *Server
	url    string
	client *http.Client
}

func start(t testing.TB, opts Options) *bench {
	t.Helper()
	sim := New(opts)
	url, err := sim.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(sim.Close)
	return &bench{sim, url, &http.Client{Transport: transport, Timeout: 2 * time.Minute}}
}

func request(prompt string, stream bool, results ...string) map[string]any {
	messages := []any{map[string]any{"role": "user", "content": prompt}}
	for i, r := range results {
		id := fmt.Sprint("toolu_", i)
		messages = append(messages,
			map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "tool_use", "id": id, "name": "Bash", "input": map[string]any{}}}},
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": r}}})
	}
	return map[string]any{"model": "claude-test", "stream": stream, "messages": messages, "tools": []any{}}
}

func (b *bench) post(t testing.TB, session string, body any) (*http.Response, error) {
	t.Helper()
	raw, ok := body.([]byte)
	if !ok {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(t, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/messages", bytes.NewReader(raw))
	require.NoError(t, err)
	req.Header.Set(sessionHeader, session)
	return b.client.Do(req)
}

// whole returns status and body of one request.
func (b *bench) whole(t testing.TB, body any) (int, string) {
	t.Helper()
	res, err := b.post(t, "s", body)
	require.NoError(t, err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(got)
}

func (b *bench) get(t testing.TB, method, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.url+path, nil)
	require.NoError(t, err)
	res, err := b.client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(got)
}

type streamed struct {
	Type    string
	Index   int
	Message struct{ ID, Model string }
	Block   struct{ Type, ID, Name string } `json:"content_block"`
	Delta   struct {
		Type, Text, Thinking, Signature string
		Partial                         string `json:"partial_json"`
		StopReason                      string `json:"stop_reason"`
	}
	Usage struct {
		Output int `json:"output_tokens"`
	}
	Error struct{ Type, Message string }
}

// events reads an event stream and checks that names and types agree.
func events(t testing.TB, r io.Reader) []streamed {
	t.Helper()
	var out []streamed
	var name string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = n
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e streamed
			require.NoError(t, json.Unmarshal([]byte(data), &e), data)
			require.Equal(t, name, e.Type)
			out = append(out, e)
		}
	}
	return out
}

func types(list []streamed) (out []string) {
	for _, e := range list {
		if n := len(out); n > 0 && strings.HasPrefix(out[n-1], e.Type) {
			out[n-1] = e.Type + "…"
			continue
		}
		out = append(out, e.Type)
	}
	return out
}

func TestStream(t *testing.T) {
	t.Parallel()
	b := start(t, Options{Pace: time.Millisecond})
	status, body := b.whole(t, request(`THINK deep & "wide" THEN TOOL bash: ls`, true))
	require.Equal(t, http.StatusOK, status)
	got := events(t, strings.NewReader(body))
	block := []string{"content_block_start", "content_block_delta…", "content_block_stop"}
	want := []string{"message_start"}
	for range 4 {
		want = append(want, block...)
	}
	require.Equal(t, append(want, "message_delta", "message_stop"), types(got))

	texts, calls := map[int]string{}, map[int]string{}
	for _, e := range got {
		texts[e.Index] += e.Delta.Text + e.Delta.Thinking
		calls[e.Index] += e.Delta.Partial
		if e.Type == "message_delta" {
			require.Equal(t, "tool_use", e.Delta.StopReason)
			require.Equal(t, 20, e.Usage.Output)
		}
	}
	require.Equal(t, `Let me think about this: deep & "wide"`, texts[0])
	require.Equal(t, `I thought about: deep & "wide"`, texts[1])
	require.JSONEq(t, `{"command": "ls", "description": "run ls"}`, calls[3])
	require.Equal(t, "claude-test", got[0].Message.Model)
	require.Regexp(t, `^msg_[0-9a-f]{24}$`, got[0].Message.ID)
}

func TestWhole(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	status, body := b.whole(t, request("THINK x THEN TOOL write: f :: c", false))
	require.Equal(t, http.StatusOK, status)
	var m struct {
		Content    []map[string]any
		StopReason string `json:"stop_reason"`
		Usage      map[string]int
	}
	require.NoError(t, json.Unmarshal([]byte(body), &m))
	require.Len(t, m.Content, 3)
	require.Equal(t, "Let me think about this: x", m.Content[0]["thinking"])
	require.Equal(t, "I thought about: x", m.Content[1]["text"])
	require.Equal(t, map[string]any{"file_path": "f", "content": "c\n"}, m.Content[2]["input"])
	require.Equal(t, "tool_use", m.StopReason)
	require.Equal(t, 100, m.Usage["input_tokens"])
	require.Equal(t, 20, m.Usage["output_tokens"])
}

func TestErrors(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	for status, kind := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
	} {
		for _, stream := range []bool{true, false} {
			got, body := b.whole(t, request(fmt.Sprint("ERR", status), stream))
			require.Equal(t, status, got)
			var e apiError
			require.NoError(t, json.Unmarshal([]byte(body), &e))
			require.Equal(t, "error", e.Type)
			require.Equal(t, kind, e.Error.Type)
			require.Equal(t, fmt.Sprint("scripted error ", status), e.Error.Message)
		}
	}
}

func TestErrorInTheMiddleIsAnEvent(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	status, body := b.whole(t, request("SAY a THEN ERR529", true))
	require.Equal(t, http.StatusOK, status)
	got := events(t, strings.NewReader(body))
	require.Equal(t, "overloaded_error", got[len(got)-1].Error.Type)
	require.NotContains(t, body, "message_stop")
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	for body, want := range map[string]string{
		`{`:                           "request body",
		`{"messages":[]}`:             "model: field required",
		`{"model":"m","messages":[]}`: "at least one message",
		`{"model":"m","messages":[{"role":"user","content":3}]}`:      "messages.0.content",
		`{"model":"m","messages":[{"role":"user","content":"SLOW"}]}`: "script: step 1: SLOW",
	} {
		status, got := b.whole(t, []byte(body))
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, got, want)
	}
	status, got := b.get(t, http.MethodGet, "/v1/nothing")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, got, "not_found_error")
	status, _ = b.get(t, http.MethodHead, "/")
	require.Equal(t, http.StatusOK, status)
}

func TestCutBreaksTheConnection(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	res, err := b.post(t, "s", request("CUT", true))
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Contains(t, string(body), "cut in the ")
}

func TestGateHoldsTheStream(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	res, err := b.post(t, "s", request("GATE a THEN SAY after", true))
	require.NoError(t, err)
	defer res.Body.Close()
	require.NoError(t, b.sim.Waiting(t.Context(), "a"))
	require.Equal(t, 1, b.sim.Stats().Active)
	seen := make([]byte, 1<<12)
	n, err := res.Body.Read(seen)
	require.NoError(t, err)
	require.Contains(t, string(seen[:n]), "message_start")

	_, list := b.get(t, http.MethodGet, "/gates")
	require.JSONEq(t, `[{"name":"a","open":false,"waiting":1}]`, list)
	status, _ := b.get(t, http.MethodPost, "/gates/a")
	require.Equal(t, http.StatusOK, status)
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(rest), "after")
	_, again := b.whole(t, request("GATE a", true))
	require.Contains(t, again, "passed")
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	sim := New(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, sim.Waiting(ctx, "nobody"), context.Canceled)
	sim.Close()
}

func TestCloseBreaksOffWhatHangs(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	done := make(chan error, 2)
	for _, script := range []string{"GATE a", "GATE b THEN HANG 3600"} {
		go func() {
			res, err := b.post(t, "s", request(script, true))
			if err == nil {
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			done <- err
		}()
	}
	require.NoError(t, b.sim.Waiting(t.Context(), "a"))
	require.NoError(t, b.sim.Waiting(t.Context(), "b"))
	b.sim.Open("b")
	b.sim.Close()
	b.sim.Close()
	require.Error(t, <-done)
	require.Error(t, <-done)
	require.Zero(t, b.sim.Stats().Active)
	_, err := b.sim.Start(t.Context(), "127.0.0.1:0")
	require.Error(t, err)
}

func TestClientThatLeavesFreesTheGate(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	res, err := b.post(t, "s", request("GATE a", true))
	require.NoError(t, err)
	require.NoError(t, b.sim.Waiting(t.Context(), "a"))
	require.NoError(t, res.Body.Close())
	// Close waits for every answer, so it returns only if this one ended.
	require.Eventually(t, func() bool { return b.sim.Stats().Active == 0 }, time.Minute, time.Millisecond)
}

func TestStatsCountPerSessionAndStep(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	for session, bodies := range map[string][]any{
		"one": {request("TOOL bash: a", true), request("TOOL bash: a", true, "x"), request("TOOL bash: a", true, "x")},
		"two": {request("ERR500", true)},
	} {
		for _, body := range bodies {
			res, err := b.post(t, session, body)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			res.Body.Close()
		}
	}
	require.Equal(t, 3, b.sim.Requests("one"))
	require.Equal(t, 0, b.sim.Requests("none"))
	_, got := b.get(t, http.MethodGet, "/stats")
	require.Contains(t, got, `"total":4`)
	want := []PromptStats{{Text: "TOOL bash: a", Requests: 3, Steps: map[int]int{0: 1, 1: 2}}}
	require.Equal(t, want, b.sim.Stats().Sessions["one"].Prompts)
}

func TestStatsForgetOldPrompts(t *testing.T) {
	t.Parallel()
	var l ledger
	for i := range keepPrompts + 5 {
		l.begin(asked{session: "s", Conversation: Conversation{Turns: []Turn{{Prompt: fmt.Sprint(i)}}}})
	}
	got := l.snapshot().Sessions["s"]
	require.Equal(t, keepPrompts+5, got.Requests)
	require.Len(t, got.Prompts, keepPrompts)
	require.Equal(t, "5", got.Prompts[0].Text)
}

func TestRecordKeepsTheLast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, Options{Keep: 2, RecordDir: dir})
	for _, text := range []string{"SAY a", "SAY b", "SAY c"} {
		b.whole(t, request(text, false))
	}
	b.whole(t, []byte("no json"))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	first, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Contains(t, string(first), "SAY c")
	status, last := b.get(t, http.MethodGet, "/requests/last")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"number":4,"session":"s","body":"no json"}`, last)
}

func TestBigAndDeltasAreExact(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	for script, want := range map[string]int{"BIG 0": 0, "BIG 1": 1, "BIG 100001": 7, "DELTAS 1000": 1000} {
		_, body := b.whole(t, request(script, true))
		size, deltas := 0, 0
		for _, e := range events(t, strings.NewReader(body)) {
			if e.Type == "content_block_delta" {
				deltas++
				size += len(e.Delta.Text)
			}
		}
		require.Equal(t, want, deltas, script)
		if n, ok := strings.CutPrefix(script, "BIG "); ok {
			require.Equal(t, n, fmt.Sprint(size))
		}
	}
}

func TestCountTokens(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	res, err := b.client.Post(b.url+"/v1/messages/count_tokens", "application/json", strings.NewReader(strings.Repeat("x", 400)))
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"input_tokens":100}`, string(body))
	require.Zero(t, b.sim.Stats().Total)
}

func BenchmarkDeltas(b *testing.B) {
	s := start(b, Options{})
	for b.Loop() {
		res, err := s.post(b, "s", request("DELTAS 100000", true))
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(b, err)
		res.Body.Close()
	}
	b.ReportMetric(100_000*float64(b.N)/b.Elapsed().Seconds(), "deltas/s")
}
