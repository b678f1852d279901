package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// bare returns a plain Temporal client, without this repository's packages.
func bare(t *testing.T) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: shared.Env["TEMPORAL_ADDRESS"], Namespace: spaceOf(t).Namespace})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// heardUntil follows the stream from after and returns its events up to the one for
// which enough returns true.
func heardUntil(t *testing.T, h *session.Handle, after uint64, enough func(event.Event) bool) []event.Event {
	t.Helper()
	var heard []event.Event
	for ev, err := range h.Events(testContext(t), after, session.Follow) {
		require.NoError(t, err)
		if heard = append(heard, ev); enough(ev) {
			return heard
		}
	}
	require.Fail(t, "the stream ended before")
	return nil
}

// answers returns a predicate for the end of an execution with that response.
func answers(response string) func(event.Event) bool {
	return func(ev event.Event) bool {
		done, ok := ev.Payload.(event.QueryCompleted)
		return ok && done.Result != nil && done.Result.Response == response
	}
}

// nth returns a predicate that is true from the n-th event of type P on.
func nth[P event.Payload](n int) func(event.Event) bool {
	return func(ev event.Event) bool {
		if _, ok := ev.Payload.(P); ok {
			n--
		}
		return n <= 0
	}
}

// payload returns what a client in another language may send: bytes with the name of an
// encoding.
func payload(encoding, data string) converter.RawValue {
	return converter.NewRawValue(&commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)}, Data: []byte(data),
	})
}

// TestRawSignalIsAnswered sends messages with a plain Temporal client.
func TestRawSignalIsAnswered(t *testing.T) {
	onSharedHost(t)
	h, raw := open(t, session.Options{}), bare(t)
	for _, c := range []struct {
		name, want string
		arg        any
	}{
		{"object", "from an object", map[string]any{"text": "SAY from an object"}},
		{"string", "from a string", "SAY from a string"},
		{"bytes", "from bytes", []byte("SAY from bytes")},
		{"spaced JSON", "from spaced JSON", payload(converter.MetadataEncodingJSON, " {\"text\" :\n\"SAY from spaced JSON\"}\n")},
		{"parts", "from a part", map[string]any{"parts": []any{map[string]any{"type": "text", "text": "SAY from a part"}}}},
	} {
		require.NoError(t, raw.SignalWorkflow(testContext(t), h.ID(), "", "message", c.arg), c.name)
		heardUntil(t, h, 0, answers(c.want))
	}
	require.NoError(t, h.Close(testContext(t)))
	requireParity(t, h.ID())
}

// TestRawSignalWithAnIDIsAnsweredOnce repeats a signal, like a client that got no
// answer.
func TestRawSignalWithAnIDIsAnsweredOnce(t *testing.T) {
	onSharedHost(t)
	h, raw := open(t, session.Options{}), bare(t)
	once := map[string]any{"id": "only-once", "text": "SAY once"}
	for range 3 {
		require.NoError(t, raw.SignalWorkflow(testContext(t), h.ID(), "", "message", once))
	}
	require.NoError(t, say(t, h, "SAY after").Err())
	require.NoError(t, h.Close(testContext(t)))
	ids := answered(t, h)
	require.Len(t, ids, 2)
	require.Equal(t, "only-once", ids[0])
}

// TestASignalGoesBeforeALaterUpdate: both wait for a worker, which then gets them in
// one task. They run in the order of sending.
func TestASignalGoesBeforeALaterUpdate(t *testing.T) {
	h, raw := open(t, session.Options{}), bare(t)
	require.NoError(t, raw.SignalWorkflow(testContext(t), h.ID(), "", "message", map[string]any{"id": "first", "text": "SAY first"}))
	sent := make(chan error, 1)
	go func() {
		// Without the tests' patience: until a worker is there, other tests may run first.
		_, err := h.Send(t.Context(), session.Message{ID: "second", Text: "SAY second"})
		sent <- err
	}()
	onSharedHost(t)
	require.NoError(t, <-sent)
	require.NoError(t, h.Close(testContext(t)))
	require.Equal(t, []string{"first", "second"}, answered(t, h))
}

// noMessage returns signals that are no valid message, with the invalid field.
func noMessage() []struct {
	name, field string
	arg         any
} {
	return []struct {
		name, field string
		arg         any
	}{
		{"wrong type", "message.text", map[string]any{"text": 5}},
		{"empty object", "message.text", map[string]any{}},
		{"empty string", "message.text", ""},
		{"blank text", "message.text", map[string]any{"text": " \n\t"}},
		{"nothing", "message.text", nil},
		{"JSON null", "message.text", payload(converter.MetadataEncodingJSON, "null")},
		{"unknown field", "message.txt", map[string]any{"text": "SAY never", "txt": "hello"}},
		{"number", "message", 17},
		{"list", "message", []string{"SAY never"}},
		{"broken JSON", "message", payload(converter.MetadataEncodingJSON, `{"text": "SAY never`)},
		{"two values", "message", payload(converter.MetadataEncodingJSON, `{"text": "SAY never"} {}`)},
		{"bytes that are no text", "message.text", []byte{0xff, 0xfe, 0x00}},
		{"unknown encoding", "message", payload("json/from-mars", "%%%")},
		{"over the limit", "message", strings.Repeat("x", session.MaxMessageBytes+1)},
		{"bad id", "message.id", map[string]any{"text": "SAY never", "id": "a b"}},
		{"bad policy", "message.whenBusy", map[string]any{"text": "SAY never", "whenBusy": "shove"}},
	}
}

// TestRawUpdateThatIsNoRequest: an update that no Go client would send is refused before it
// is in the history, with the invalid field.
func TestRawUpdateThatIsNoRequest(t *testing.T) {
	onSharedHost(t)
	h, raw := open(t, session.Options{}), bare(t)
	for _, c := range []struct {
		update, field string
		arg           any
	}{
		{session.UpdateSend, "message.text", map[string]any{"text": 5}},
		{session.UpdateSend, "message.txt", map[string]any{"text": "SAY never", "txt": "hello"}},
		{session.UpdateSend, "message.parts[0].type", map[string]any{"parts": []any{map[string]any{"type": "video", "url": "x"}}}},
		{session.UpdateSend, "message", []int{1}},
		{session.UpdateSend, "message.text", nil},
		{session.UpdateInterrupt, "reason", map[string]any{"reason": 1}},
		{session.UpdateInterrupt, "reason", map[string]any{"reason": strings.Repeat("x", 5000)}},
		{session.UpdateRespond, "allow", map[string]any{"requestId": "r"}},
		{session.UpdateConfigure, "tags", map[string]any{"tags": "a"}},
		{session.UpdateRender, "options.title", map[string]any{"options": map[string]any{"title": true}}},
		{session.UpdateEditQueue, "place", map[string]any{"messageId": "m", "place": "first"}},
		{session.UpdateSpawn, "options.idleTimeoutMs", map[string]any{"options": map[string]any{"idleTimeoutMs": "1h"}}},
		{session.UpdateEvict, "reason", map[string]any{"reason": "a whim"}},
	} {
		update, err := raw.UpdateWorkflow(testContext(t), client.UpdateWorkflowOptions{
			WorkflowID: h.ID(), UpdateName: c.update, Args: []any{c.arg}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = update.Get(testContext(t), nil)
		}
		var invalid *session.InvalidError
		require.ErrorAs(t, session.FromTemporal(err), &invalid, "%s of %v: %v", c.update, c.arg, err)
		require.Equal(t, c.field, invalid.Field, "%s of %v: %v", c.update, c.arg, err)
		require.NotEmpty(t, invalid.Want)
	}
	require.NoError(t, say(t, h, "SAY after").Err())
	require.NoError(t, h.Close(testContext(t)))
}

// TestRawSignalThatIsNoMessage: no signal stops a session, and every invalid one is
// reported, with the invalid field.
func TestRawSignalThatIsNoMessage(t *testing.T) {
	onSharedHost(t)
	h, raw := open(t, session.Options{}), bare(t)
	require.NoError(t, say(t, h, "SAY before").Err())
	bad := noMessage()
	for _, c := range bad {
		require.NoError(t, raw.SignalWorkflow(testContext(t), h.ID(), "", "message", c.arg), c.name)
	}
	signalNothing(t, raw, h.ID())
	heardUntil(t, h, 0, nth[event.Error](len(bad)+1))
	require.NoError(t, raw.SignalWorkflow(testContext(t), h.ID(), "", "message", "SAY after"))
	heard := heardUntil(t, h, 0, answers("after"))

	errs, blocks := refusalsIn(heard)
	require.Len(t, errs, len(bad)+1)
	for i, c := range bad {
		require.Equal(t, c.field, errs[i].Field, c.name)
		require.Contains(t, errs[i].Message, c.field+": ", c.name)
		require.Contains(t, errs[i].Message, "; want ", "%s: what is allowed", c.name)
		require.Less(t, len(errs[i].Message), 1000, c.name)
		require.Equal(t, session.TypeInvalid, errs[i].Code, c.name)
	}
	requireToldInBlocks(t, errs, blocks)
	require.NoError(t, h.Close(testContext(t)))
	require.Len(t, answered(t, h), 2, "nothing was made of what was no message")
	requireParity(t, h.ID())
}

// signalNothing sends the signal without any argument, which the SDK can't.
func signalNothing(t *testing.T, c client.Client, id string) {
	t.Helper()
	_, err := c.WorkflowService().SignalWorkflowExecution(testContext(t), &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: spaceOf(t).Namespace, SignalName: "message",
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
	})
	require.NoError(t, err)
}

// refusalsIn returns the errors, and the blocks that show them.
func refusalsIn(heard []event.Event) (errs []event.Error, blocks []event.Block) {
	for _, ev := range heard {
		switch p := ev.Payload.(type) {
		case event.Error:
			errs = append(errs, p)
		case event.BlockUpsert:
			if p.Block.Type == event.BlockError {
				blocks = append(blocks, p.Block)
			}
		}
	}
	return errs, blocks
}

// requireToldInBlocks checks that every error is in the conversation, in order, as a
// server block.
func requireToldInBlocks(t *testing.T, errs []event.Error, blocks []event.Block) {
	t.Helper()
	require.Len(t, blocks, len(errs))
	for i, b := range blocks {
		require.Equal(t, event.SourceServer, b.Source)
		require.Equal(t, event.StatusComplete, b.Status)
		require.NotNil(t, b.Message)
		require.Equal(t, errs[i].Message, *b.Message)
		require.Equal(t, errs[i].Code, b.Code)
	}
}

// TestRawSignalWhileATurnRuns: invalid signals are reported during the turn, which they
// don't affect; valid ones are queued.
func TestRawSignalWhileATurnRuns(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h, raw := open(t, session.Options{}), bare(t)
	gate := "raw-" + h.ID()
	r, err := h.Send(ctx, session.Message{Text: "SAY begun THEN GATE " + gate + " THEN SAY ended"})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	bad := []any{map[string]any{"text": 5}, map[string]any{}, map[string]any{"text": "SAY never", "whenBusy": "reject"}}
	for _, arg := range bad {
		require.NoError(t, raw.SignalWorkflow(ctx, h.ID(), "", "message", arg))
	}
	require.NoError(t, raw.SignalWorkflow(ctx, h.ID(), "", "message", map[string]any{"text": "SAY queued"}))
	heard := heardUntil(t, h, r.AfterSeq, nth[event.Error](len(bad)))
	for _, ev := range heard {
		require.False(t, nth[event.QueryCompleted](1)(ev), "the turn still runs")
	}
	spaceOf(t).Model.Open(gate)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.NoError(t, res.Err())

	heard = heardUntil(t, h, r.AfterSeq, answers("queued"))
	errs, blocks := refusalsIn(heard)
	require.Len(t, errs, len(bad))
	require.Equal(t, []string{"message.text", "message.text", "message.whenBusy"}, []string{errs[0].Field, errs[1].Field, errs[2].Field})
	require.Equal(t, session.TypeBusy, errs[2].Code)
	requireToldInBlocks(t, errs, blocks)
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}
