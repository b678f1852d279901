package workflows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// refusals returns the session's error events about signals.
func refusals(w *world) []event.Error { return refusalsOf(w, "s1") }

func refusalsOf(w *world, id string) []event.Error { return heard[event.Error](w, id) }

func TestARawSignalIsAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ encoding, data, prompt string }{
		"JSON object":     {"json/plain", `{"text": "hello"}`, "hello"},
		"JSON string":     {"json/plain", `"hello \"you\""`, `hello "you"`},
		"plain text":      {"binary/plain", "hello, plainly", "hello, plainly"},
		"text with space": {"binary/plain", "\n hello \n", "hello"},
		"no encoding":     {"", `{"text": "hello"}`, "hello"},
		"full object":     {"json/plain", `{"id": "m1", "text": "hello", "whenBusy": "queue"}`, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t)
			p.then(func() { p.signal(session.SignalMessage, c.encoding, c.data) })
			p.run()
			require.Equal(t, []string{c.prompt}, p.w.prompts("s1"))
			require.Empty(t, refusals(p.w))
		})
	}
}

// A sender who has only signals, such as an operator in the Web UI, can answer a permission
// request: the open one, or one by its id.
func TestASignalAnswersARequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		encoding, data string
		waiting        []string
		want           *session.RespondRequest
		field          string
	}{
		"allow":                 {"json/plain", `"allow"`, []string{"r1"}, &session.RespondRequest{RequestID: "r1", Allow: true}, ""},
		"deny, plainly":         {"binary/plain", "deny\n", []string{"r1"}, &session.RespondRequest{RequestID: "r1"}, ""},
		"without an id":         {"json/plain", `{"allow": false, "message": "not this"}`, []string{"r1"}, &session.RespondRequest{RequestID: "r1", Message: "not this"}, ""},
		"by its id":             {"json/plain", `{"requestId": "r2", "allow": true}`, []string{"r1", "r2"}, &session.RespondRequest{RequestID: "r2", Allow: true}, ""},
		"which of two":          {"json/plain", `"allow"`, []string{"r1", "r2"}, nil, "requestId"},
		"nothing is open":       {"json/plain", `"allow"`, nil, nil, "requestId"},
		"neither":               {"json/plain", `"maybe"`, []string{"r1"}, nil, "respond"},
		"no answer in it":       {"json/plain", `{"requestId": "r1"}`, []string{"r1"}, nil, "allow"},
		"of another type":       {"json/plain", `{"allow": "yes"}`, []string{"r1"}, nil, "allow"},
		"a field of nobody's":   {"json/plain", `{"allow": true, "always": true}`, []string{"r1"}, nil, "always"},
		"nothing at all, in it": {"binary/null", "", []string{"r1"}, nil, "respond"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t)
			p.then(
				func() { p.send("m1", "HOLD one") },
				func() {
					p.env.SignalWorkflow(session.SignalWaiting, session.Waiting{ExecutionID: "x1", Requests: c.waiting})
				},
				func() { p.signal(session.SignalRespond, c.encoding, c.data) },
				func() { require.NoError(t, p.w.letGo("s1")) },
			)
			p.run()
			if c.want != nil {
				require.Empty(t, refusals(p.w))
				require.Equal(t, c.want, p.w.controls[0].Answer)
				return
			}
			require.False(t, slices.ContainsFunc(p.w.controls, func(in contract.ControlInput) bool { return in.Answer != nil }))
			require.Len(t, refusals(p.w), 1)
			require.Equal(t, c.field, refusals(p.w)[0].Field)
		})
	}
}

// A malformed message never fails a workflow task: it becomes an error event and an error
// block that name the field, and the session continues.
func TestABadSignalIsSaidAndSkipped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ signal, encoding, data, field string }{
		"empty payload":      {session.SignalMessage, "binary/null", "", "message.text"},
		"JSON null":          {session.SignalMessage, "json/plain", "null", "message.text"},
		"blank text":         {session.SignalMessage, "json/plain", `{"text": "  "}`, "message.text"},
		"blank string":       {session.SignalMessage, "json/plain", `""`, "message.text"},
		"wrong type":         {session.SignalMessage, "json/plain", `{"text": 5}`, "message.text"},
		"unknown field":      {session.SignalMessage, "json/plain", `{"text": "a", "txt": "b"}`, "message.txt"},
		"array":              {session.SignalMessage, "json/plain", `["a"]`, "message"},
		"number":             {session.SignalMessage, "json/plain", `5`, "message"},
		"garbage":            {session.SignalMessage, "json/plain", "hello, I am no JSON", "message"},
		"two objects":        {session.SignalMessage, "json/plain", `{"text": "a"} {"text": "b"}`, "message"},
		"bad id":             {session.SignalMessage, "json/plain", `{"id": "a b", "text": "c"}`, "message.id"},
		"bad policy":         {session.SignalMessage, "json/plain", `{"text": "a", "whenBusy": "now"}`, "message.whenBusy"},
		"over the limit":     {session.SignalMessage, "binary/plain", strings.Repeat("x", session.MaxMessageBytes), "message"},
		"queue, wrong type":  {session.SignalQueue, "json/plain", `{"text": true}`, "message.text"},
		"interrupt, garbage": {session.SignalInterrupt, "json/plain", `[`, "interrupt"},
		"interrupt, message": {session.SignalInterrupt, "json/plain", `{"message": {"text": ""}}`, "message.text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t)
			p.then(func() { p.signal(c.signal, c.encoding, c.data) }, func() { p.send("m1", "still here") })
			p.run()
			require.Equal(t, []string{"still here"}, p.w.prompts("s1"))
			said := refusals(p.w)
			require.Len(t, said, 1)
			require.Equal(t, c.field, said[0].Field)
			require.Equal(t, session.TypeInvalid, said[0].Code)
			blocks := heard[event.BlockUpsert](p.w, "s1")
			require.Len(t, blocks, 1)
			require.Equal(t, event.BlockError, blocks[0].Block.Type)
			require.Contains(t, *blocks[0].Block.Message, c.field+":")
			require.Less(t, len(*blocks[0].Block.Message), 1000, "the error is short")
		})
	}
}

func TestASignalWithNoArguments(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.env.SignalWorkflow(session.SignalMessage, nil) },
		func() { p.send("m1", "HOLD one") },
		func() { p.env.SignalWorkflow(session.SignalInterrupt, nil) },
	)
	p.run()
	require.Len(t, refusals(p.w), 1)
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
}

func TestASignalledMessageKeepsItsPolicy(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() {
			p.signal(session.SignalMessage, "json/plain", `{"id": "no", "text": "reject", "whenBusy": "reject"}`)
		},
		func() {
			p.signal(session.SignalMessage, "json/plain", `{"id": "m2", "text": "two", "whenBusy": "interrupt"}`)
		},
	)
	p.run()
	require.Equal(t, []string{"HOLD one", "two"}, p.w.prompts("s1"))
	require.Len(t, refusals(p.w), 1)
	require.Equal(t, session.TypeBusy, refusals(p.w)[0].Code)
	require.Equal(t, session.Interrupted, p.w.results("s1")["m1"].Outcome)
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	var over, known *answer
	p.then(
		func() {
			for i := range session.MaxQueue {
				p.env.SignalWorkflow(session.SignalQueue, session.Message{ID: fmt.Sprintf("m%d", i), Text: "text"})
			}
		},
		func() { p.signalText("over-signal", "one too many") },
		func() { over = p.send("over", "one too many") },
		func() { p.signalText("m0", "text") },
		func() { known = p.send("m1", "text") },
		func() { require.Len(t, p.snapshot().Queued, session.MaxQueue) },
	)
	p.run()
	var invalid *session.InvalidError
	require.ErrorAs(t, session.FromTemporal(over.refused), &invalid)
	require.Equal(t, "message", invalid.Field)
	require.Equal(t, "x2", p.receipt(known).ExecutionID)
	require.Len(t, refusals(p.w), 1)
	require.Equal(t, "message", refusals(p.w)[0].Field)
}

// Continue-as-new carries the queue in one payload, so it is bounded in bytes too; one
// message of the largest size always fits.
func TestTheQueueIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	const many = 32
	large := strings.Repeat("x", session.MaxQueueBytes/many-200)
	var over *answer
	p.then(
		func() {
			for i := range many {
				p.env.SignalWorkflow(session.SignalQueue, session.Message{ID: fmt.Sprintf("large-%d", i), Text: large})
			}
		},
		func() { p.env.SignalWorkflow(session.SignalQueue, session.Message{ID: "small", Text: "fits"}) },
		func() { over = p.send("over", strings.Repeat("y", 200*many)) },
		func() { require.Len(t, p.snapshot().Queued, many+1) },
	)
	p.run()
	var invalid *session.InvalidError
	require.ErrorAs(t, session.FromTemporal(over.refused), &invalid)
	require.Contains(t, invalid.Want, "bytes")
}

// A refusal while a turn runs is streamed by that turn, which is the only writer.
func TestARefusalGoesThroughTheRunningTurn(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.then(
		func() { p.send("m1", "HOLD one") },
		func() { p.signal(session.SignalMessage, "json/plain", `{"text": 5}`) },
		func() { require.Len(t, refusals(p.w), 1); require.NoError(t, p.w.letGo("s1")) },
	)
	p.after(time.Minute, func() {})
	p.run()
	require.Empty(t, p.w.emits)
	require.Len(t, p.w.controls, 1)
	require.Len(t, refusals(p.w), 1)
}

// FuzzDecodeMessage: any payload is a valid message or an InvalidError that names a field;
// it never panics.
func FuzzDecodeMessage(f *testing.F) {
	for _, seed := range []string{
		"", "null", "5", "true", "[]", "{}", `"text"`, `{"text": "a"}`, `{"text": 5}`, `{"text": "a", "parts": [{"type": "text", "text": "b"}]}`,
		`{"text": "a"} trailing`, `{"id": "not an id", "text": "a"}`, `{"text": "a", "whenBusy": "x"}`, `{"parts": 7}`, "plain", "\xff\xfe", `"\ud800"`, `{"text":`,
	} {
		for _, encoding := range []string{converter.MetadataEncodingJSON, converter.MetadataEncodingBinary, ""} {
			f.Add(encoding, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, encoding string, data []byte) {
		p := &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)}, Data: data}
		m, err := session.DecodeMessage(p)
		if err != nil {
			var invalid *session.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.NotEmpty(t, invalid.Field)
			require.NotEmpty(t, invalid.Want)
			return
		}
		require.NoError(t, m.Validate())
		again, err := json.Marshal(m)
		require.NoError(t, err)
		back, err := session.DecodeMessage(&commonpb.Payload{Data: again})
		require.NoError(t, err, "a valid message is valid when it is encoded again")
		require.Equal(t, m.Text, back.Text)
	})
}

func TestDecodeMessageOfNothing(t *testing.T) {
	t.Parallel()
	_, err := session.DecodeMessage(nil)
	var invalid *session.InvalidError
	require.ErrorAs(t, err, &invalid)
}
