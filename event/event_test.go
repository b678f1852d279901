package event

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sample has one event of every known type, with every field set that it has.
func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func sample() map[Type]Payload {
	text, n, yes, cost := new("text <&>"), new(int64(7)), new(true), new(0.25)
	env := Environment{SandboxID: "sb", Host: "h", Provider: "local", Status: "ready", RestartCount: 1,
		LastHealthCheck: at(5), Reason: "idle", Message: "m"}
	fault := ErrorInfo{Message: "m", Code: "c", Field: "f", Data: json.RawMessage(`{"a":1}`)}
	usage := Usage{InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4}
	query := Query{ExecutionID: "x", MessageIDs: []string{"m1"}, Message: "m", DurationMS: 5, Error: &fault, Reason: "r",
		Result: &QueryResult{Response: "r", StopReason: "end_turn", Usage: usage, CostUSD: new(0.5), Ticks: new(3), LastSeq: 9}}
	ref, transcript := MessageRef{MessageID: "m"}, Transcript{ID: "main", Offset: 5, SHA256: "ab"}
	file := File{Path: "a/b", Content: text, Size: 3, SHA256: "ab"}
	block := Block{ID: "b", Type: BlockToolUse, Status: StatusPending, Timestamp: at(9), Source: SourceServer,
		Metadata: map[string]json.RawMessage{"k": json.RawMessage(`1`)}, Content: text,
		Parts: []Part{{Type: "image", Text: "t", MediaType: "image/png", Data: "AA==", URL: "u"}}, Model: "m", Summary: text,
		ToolName: "Bash", ToolUseID: "t", Input: json.RawMessage(`{}`), Execution: ExecutionRunning,
		Output: json.RawMessage(`null`), IsError: yes, DurationMS: n, SubagentID: "agent-1", Name: "n", Description: "d",
		Subtype: "s", Message: text, Code: "c", SkillName: "pdf"}
	payloads := []Payload{
		BlockUpsert{Block: block}, BlockDelta{BlockID: "b", Delta: "d\n\"漢\""}, BlockPlaced{BlockID: "b"},
		MetadataUpdate{Total: true, Usage: &usage, CostUSD: cost, Model: "m", Calls: 2, Extra: json.RawMessage(`[]`)},
		SubagentSpawned{ToolUseID: "t", AgentID: "a", Prompt: "p", SubagentType: "s", Description: "d", ChildSessionID: "c"},
		SubagentCompleted{ToolUseID: "t", AgentID: "a", Status: SubagentFailed, Output: text, DurationMS: n, ChildSessionID: "c"},
		SessionInitialized{Agent: "claude", Profile: "p", Title: "t", Parent: "s0", Reopened: true},
		SessionIdle{StopReason: "end_turn", Interrupted: true, Error: &fault}, SessionClosed{Reason: "user"},
		EECreating{env}, EEReady{env}, EETerminated{env}, EEError{env}, EEHealthCheck{env},
		QueryStarted{query}, QueryCompleted{query}, QueryFailed{query}, QueryInterrupted{query},
		MessageFolded{ref}, MessageOwnTurn{ref},
		FileCreated{file}, FileModified{file}, FileDeleted{file},
		TranscriptChanged{transcript}, TranscriptWritten{transcript},
		PermissionRequested{RequestID: "r", ToolName: "Bash", ToolUseID: "t", Input: json.RawMessage(`{}`), Title: "title", Questions: json.RawMessage(`[]`)},
		PermissionResolved{RequestID: "r", Decision: "deny", By: "user", Message: "no"},
		OptionsUpdate{Title: text, Model: text, PermissionMode: text,
			Metadata: map[string]json.RawMessage{"k": json.RawMessage(`{"v":1}`)}, Tags: []string{"a"}},
		Status{State: "idle", Epoch: 2, Attempt: 3, Runtime: &Runtime{IsLoaded: true, Sandbox: &env}, Message: "m"},
		Log{Level: "info", Message: "m", Data: json.RawMessage(`{}`)}, Error{ErrorInfo: fault, MessageID: "m"},
		Native{Agent: "claude", Dir: DirOut, Kind: "k", Raw: json.RawMessage(`{"x":1}`)},
	}
	byType := make(map[Type]Payload, len(payloads))
	for _, p := range payloads {
		byType[TypeOf(p)] = p
	}
	return byType
}

func whole(p Payload) Event {
	return Event{Payload: p, Context: Context{SessionID: "s", ConversationID: "main", Source: SourceRunner, Timestamp: at(1_700_000_000_001), Seq: 7}}
}

func roundTrip(t *testing.T, e Event) Event {
	t.Helper()
	data, err := json.Marshal(e)
	require.NoError(t, err)
	var back Event
	require.NoError(t, json.Unmarshal(data, &back))
	return back
}

func TestEveryTypeRoundTrips(t *testing.T) {
	t.Parallel()
	payloads := sample()
	require.Len(t, payloads, len(types()))
	for _, typ := range types() {
		want := whole(payloads[typ])
		require.Equal(t, typ, want.Type())
		require.Equal(t, want, roundTrip(t, want), "%s", typ)
		var back Event
		line, err := AppendEvent(nil, want)
		require.NoError(t, err)
		require.NotContains(t, string(line), "\n")
		require.NoError(t, json.Unmarshal(line, &back))
		require.Equal(t, want, back, "%s", typ)
	}
}

// The hand-written encoder writes what encoding/json would.
func TestAppendEventIsWhatReflectionGives(t *testing.T) {
	t.Parallel()
	for typ, p := range sample() {
		e := whole(p)
		line, err := AppendEvent([]byte("before "), e)
		require.NoError(t, err)
		want, err := json.Marshal(struct {
			Type    Type    `json:"type"`
			Payload any     `json:"payload"`
			Context Context `json:"context"`
		}{typ, p, e.Context})
		require.NoError(t, err)
		require.JSONEq(t, string(want), strings.TrimPrefix(string(line), "before "))
	}
}

func TestEncodeRefusals(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]Event{
		"without payload": {},
		"is not JSON":     {Payload: Unknown{Name: "new:thing", Raw: json.RawMessage(`{"torn`)}},
		"context":         {Payload: Log{}, Context: Context{Timestamp: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"unsupported":     {Payload: MetadataUpdate{CostUSD: new(math.Inf(1))}},
	} {
		out, err := AppendEvent([]byte("kept"), e)
		require.ErrorContains(t, err, name)
		require.Equal(t, "kept", string(out), "what stood in the buffer stays alone")
		_, err = json.Marshal(e)
		require.ErrorContains(t, err, name)
	}
}

func TestDecodeRefusals(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{`:                                     "unexpected end",
		`[]`:                                    "event: decode",
		`{"payload":1}`:                         `"type" is missing`,
		`{"type":"block:delta","context":{}}`:   `block:delta: field "payload" is missing`,
		`{"type":"block:delta","payload":null}`: `block:delta: field "payload" is missing`,
		`{"type":"block:delta","payload":[]}`:   "decode block:delta",
		`{"type":"block:upsert","payload":{"block":{"id":7}}}`:     "block.id",
		`{"type":"log","payload":{},"context":{"timestamp":"x"}}`:  "event: decode",
		`{"type":"new:thing","payload":{},"context":{"seq":-1}}`:   "event: decode",
		`{"type":"native","payload":{"lineBytes":"not base64 !"}}`: "decode native",
	} {
		require.ErrorContains(t, json.Unmarshal([]byte(in), new(Event)), want, in)
	}
}

// L9: what this version does not know is kept, byte for byte.
func TestUnknownTypeIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{"b": 1,  "a":"<&>\u00e9\/", "n":1.0e+2}`, `null`, `"x"`, `[ ]`, `7`} {
		line := `{"type":"quantum:leap","payload":` + payload + `,"context":{"sessionId":"s","seq":3}}`
		var e Event
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		require.Equal(t, payload, string(e.Payload.(Unknown).Raw))
		out, err := AppendEvent(nil, e)
		require.NoError(t, err)
		require.Equal(t, line, string(out))
	}
}

func TestUnknownOverSeveralLinesStaysOneLine(t *testing.T) {
	t.Parallel()
	out, err := AppendEvent(nil, Event{Payload: Unknown{Name: "new:thing", Raw: json.RawMessage("{\n \"a\": 1\n}")}})
	require.NoError(t, err)
	require.Equal(t, `{"type":"new:thing","payload":{"a":1},"context":{}}`, string(out))
	out, err = AppendEvent(nil, Event{Payload: Unknown{Name: "new:thing"}})
	require.NoError(t, err)
	require.Equal(t, `{"type":"new:thing","payload":null,"context":{}}`, string(out))
}

// L9: a native record is kept also when it is not JSON, or not text.
func TestNativeKeepsWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	for _, n := range []Native{{Line: "plain"}, {Line: "broken \xff\xfe"}, {Raw: json.RawMessage(`{"a":1}`)}, {}} {
		require.Equal(t, n, roundTrip(t, whole(n)).Payload)
	}
	torn := roundTrip(t, whole(Native{Raw: json.RawMessage("{\"torn\xff")}))
	require.Equal(t, Native{Line: "{\"torn\xff"}, torn.Payload)
}

func TestUsageAdds(t *testing.T) {
	t.Parallel()
	u := Usage{1, 2, 3, 4}
	require.Equal(t, Usage{2, 4, 6, 8}, u.Add(u))
}

func BenchmarkAppendEventDelta(b *testing.B) {
	e, buf := whole(BlockDelta{BlockID: "msg_01:0", Delta: "five words of it, "}), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = AppendEvent(buf[:0], e)
	}
}
