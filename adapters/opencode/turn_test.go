package opencode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/test/replay"
)

// talk is a conversation with a translator whose session is open.
type talk struct {
	*translator
	t *testing.T
	// main is the native session.
	main string
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	tr, err := newTranslator(launch(), nil)
	require.NoError(t, err)
	k := &talk{tr, t, launch().NativeID}
	k.send("initialize-1", adapters.Initialize{})
	k.receive(`{"type":"sojourn.response","id":"initialize-1","status":200,"body":{"data":{"id":"x"}}}`)
	k.answerDue(`{"id":"x"}`)
	return k
}

// answerDue sends the one request that is due, and answers it.
func (k *talk) answerDue(body string) (request map[string]any) {
	k.t.Helper()
	due := k.Due()
	require.Len(k.t, due, 1)
	k.Step(traffic.Record{Dir: event.DirIn, Line: string(due[0].Data)})
	require.NoError(k.t, json.Unmarshal(due[0].Data, &request))
	k.receive(`{"type":"sojourn.response","id":"%s","status":200,"body":%s}`, due[0].ID, body)
	return request
}

// send writes an input, as the runner would record it, and returns the request.
func (k *talk) send(id string, in adapters.Input) map[string]any {
	k.t.Helper()
	messages, err := k.Encode(id, in)
	require.NoError(k.t, err)
	require.Len(k.t, messages, 1)
	require.Equal(k.t, id, messages[0].ID)
	k.Step(traffic.Record{Dir: event.DirIn, Line: string(messages[0].Data)})
	var request map[string]any
	require.NoError(k.t, json.Unmarshal(messages[0].Data, &request))
	return request
}

func (k *talk) receive(format string, args ...any) []event.Event {
	return k.Step(traffic.Record{Dir: event.DirOut, Line: fmt.Sprintf(format, args...)})
}

// takes has the server store the last prompt.
func (k *talk) takes(message, part string) []event.Event {
	events := k.receive(`%s`, messageOf(k.main, message, "user"))
	return append(events, k.receive(`%s`, partOf(k.main, `"id":"`+part+`","messageID":"`+message+`","type":"text","text":"x"`))...)
}

func (k *talk) idle() []event.Event {
	return k.receive(`{"type":"session.idle","properties":{"sessionID":"%s"}}`, k.main)
}

// assistant updates an answer's state.
func (k *talk) assistant(id, more string) []event.Event {
	return k.receive(`{"type":"message.updated","properties":{"sessionID":"%s","info":{"id":"%s","role":"assistant"%s}}}`, k.main, id, more)
}

func idles(events []event.Event) []event.SessionIdle {
	var out []event.SessionIdle
	for _, e := range events {
		if p, ok := e.Payload.(event.SessionIdle); ok && e.Context.Conversation() == event.Main {
			out = append(out, p)
		}
	}
	return out
}

// Only the opening is written before the session is open, and nothing ever if it
// is refused.
func TestOpening(t *testing.T) {
	t.Parallel()
	tr, err := newTranslator(launch(), nil)
	require.NoError(t, err)
	_, err = tr.Encode("prompt-1", adapters.Prompt{Text: "x"})
	require.ErrorIs(t, err, adapters.ErrNotYet)
	k := &talk{tr, t, launch().NativeID}
	request := k.send("initialize-1", adapters.Initialize{})
	require.Equal(t, "/api/session", request["path"])
	require.Equal(t, map[string]any{"id": k.main, "location": map[string]any{"directory": launch().Workspace}}, request["body"])
	_, err = tr.Encode("prompt-1", adapters.Prompt{Text: "x"})
	require.ErrorIs(t, err, adapters.ErrNotYet)
	k.receive(`{"type":"sojourn.response","id":"initialize-1","status":500,"body":{"name":"X","data":{"message":"no disk"}}}`)
	_, err = tr.Encode("prompt-1", adapters.Prompt{Text: "x"})
	require.ErrorIs(t, err, adapters.ErrRefused)
	require.ErrorContains(t, err, "no disk")
	tr.Step(traffic.Record{Dir: event.DirSig, Line: "exit 1"})
	_, err = tr.Encode("prompt-1", adapters.Prompt{Text: "x"})
	require.ErrorIs(t, err, adapters.ErrNotYet, "the next process is opened anew")
}

// A prompt has the requested ids, model and parts.
func TestPromptRequest(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	request := k.send("prompt-m1", adapters.Prompt{MessageID: "m1", Text: "hi", Model: "p/m/x", Parts: []event.Part{
		{Type: "image", MediaType: "image/png", Data: "AAAA"}}})
	require.Equal(t, "/session/"+k.main+"/prompt_async", request["path"])
	require.JSONEq(t, `{"parts":[{"type":"text","text":"hi","id":"prt_000sojourn_m1"},
		{"type":"file","mime":"image/png","url":"data:image/png;base64,AAAA","id":"prt_000sojourn_m1_0001"}],
		"model":{"providerID":"p","modelID":"m/x"}}`, replay.JSON(t, request["body"]))
	events := k.takes("msg_1", "prt_000sojourn_m1")
	require.Equal(t, "m1", events[0].Payload.(event.BlockUpsert).Block.ID, "the block has the message's id")
	require.NotContains(t, BlockID("a b/c"), " ")
	require.Equal(t, "m1", BlockID("m1"))
	_, err := k.Encode("x", adapters.Prompt{Parts: []event.Part{{Type: "video"}}})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
	_, err = k.Encode("x", adapters.SetModel{Model: "sonnet"})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
}

// A prompt that the server refuses ends its turn with the server's error.
func TestPromptRefused(t *testing.T) {
	t.Parallel()
	for _, response := range []string{`"status":400,"body":{"name":"BadRequest","data":{"message":"too odd"}}`, `"error":"too odd"`} {
		k := newTalk(t)
		k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
		ends := idles(k.receive(`{"type":"sojourn.response","id":"prompt-1",%s}`, response))
		require.Len(t, ends, 1)
		require.Contains(t, ends[0].Error.Message, "too odd")
	}
}

// A steered message that the server refuses is named, and no failure of the turn, whenever
// its refusal arrives.
func TestSteeredAndRefused(t *testing.T) {
	t.Parallel()
	steered := adapters.Prompt{MessageID: "m 2", Text: "more", Steer: true}
	answered := func(k *talk) []event.Event {
		k.assistant("msg_2", `,"finish":"stop","time":{"completed":2}`)
		return k.idle()
	}
	refused := func(k *talk) []event.Event {
		return k.receive(`{"type":"sojourn.response","id":"steer-1","status":503,"body":{"name":"X","data":{"message":"overloaded"}}}`)
	}
	for name, c := range map[string]struct {
		play func(k *talk) []event.Event
		// idle is how often the agent is idle: it is again when what it was sent last is
		// refused.
		idle int
	}{
		"while the turn runs": {func(k *talk) []event.Event {
			k.send("steer-1", steered)
			return append(refused(k), answered(k)...)
		}, 1},
		"between two steps": {func(k *talk) []event.Event {
			k.send("steer-1", steered)
			k.assistant("msg_2", `,"finish":"tool-calls","time":{"completed":2}`)
			said := refused(k)
			require.Empty(k.t, idles(said))
			k.assistant("msg_3", "")
			k.assistant("msg_3", `,"finish":"stop","time":{"completed":3}`)
			return append(said, k.idle()...)
		}, 1},
		"when the turn has ended": {func(k *talk) []event.Event {
			k.send("steer-1", steered)
			require.Empty(k.t, idles(answered(k)), "it may begin with what it was sent")
			return refused(k)
		}, 1},
		"written behind the turn's end": {func(k *talk) []event.Event {
			said := answered(k)
			k.send("steer-1", steered)
			return append(said, refused(k)...)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t)
			k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
			k.takes("msg_1", "prt_000sojourn_m1")
			k.assistant("msg_2", "")
			var named []string
			said := c.play(k)
			for _, e := range said {
				if p, ok := e.Payload.(event.Error); ok {
					named = append(named, p.MessageID)
				}
			}
			require.Equal(t, []string{BlockID("m 2")}, named)
			require.Len(t, idles(said), c.idle)
			for _, idle := range idles(said) {
				require.Nil(t, idle.Error)
				require.False(t, idle.Interrupted)
			}
		})
	}
}

// A prompt that has no response because the server died was not refused: the turn
// ends with the process.
func TestPromptUnansweredByTheDead(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
	require.Empty(t, idles(k.receive(`{"type":"sojourn.response","id":"prompt-1","error":"no response before the agent's end: reset","ended":true}`)))
	said := k.Step(traffic.Record{Dir: event.DirSig, Line: "signal killed"})
	require.Equal(t, []event.Type{"error"}, replay.Kinds(said))
	require.Equal(t, "agent_died", said[0].Payload.(event.Error).Code)
}

// After an abort or a failure the server reports twice that it is idle, and still
// finishes its answer after the first time: the turn ends once, and last.
func TestIdleOnce(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]string{
		"abort":   `{"name":"MessageAbortedError","data":{"message":"Aborted"}}`,
		"failure": `{"name":"APIError","data":{"message":"no","statusCode":400}}`,
	} {
		k := newTalk(t)
		k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
		require.Empty(t, idles(k.idle()), "the prompt has not been taken")
		k.takes("msg_1", "prt_000sojourn_m1")
		k.assistant("msg_2", "")
		if name == "abort" {
			require.Equal(t, "/session/"+k.main+"/abort", k.send("interrupt-1", adapters.Interrupt{})["path"])
		}
		k.receive(`{"type":"session.error","properties":{"sessionID":"%s","error":%s}}`, k.main, failure)
		require.Empty(t, idles(k.idle()), "an answer is being written")
		blocks := k.assistant("msg_2", `,"error":`+failure+`,"time":{"completed":2}`)
		require.Equal(t, "msg_2:error", blocks[0].Payload.(event.BlockUpsert).Block.ID)
		ends := idles(k.idle())
		require.Len(t, ends, 1, name)
		require.Equal(t, name == "abort", ends[0].Interrupted)
		require.Equal(t, name == "failure", ends[0].Error != nil && ends[0].Error.Code == "api_error_400")
		require.Empty(t, idles(k.idle()))
	}
}

// Every retry is emitted; after the last allowed one the turn is aborted, and
// fails with the API's error.
func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
	k.takes("msg_1", "prt_000sojourn_m1")
	k.assistant("msg_2", "")
	for n := 1; n <= maxRetries+1; n++ {
		require.Empty(t, k.Due())
		events := k.receive(`{"type":"session.status","properties":{"sessionID":"%s","status":{"type":"retry","attempt":%d,"message":"overloaded"}}}`, k.main, n)
		require.Contains(t, events[0].Payload.(event.Log).Message, "overloaded")
	}
	due := k.Due()
	require.Len(t, due, 1)
	require.Empty(t, k.Due(), "each is given once")
	require.Contains(t, string(due[0].Data), "/abort")
	k.Step(traffic.Record{Dir: event.DirIn, Line: string(due[0].Data)})
	k.assistant("msg_2", `,"time":{"completed":2}`)
	events := k.idle()
	ends := idles(events)
	require.Len(t, ends, 1)
	require.False(t, ends[0].Interrupted)
	require.Equal(t, "overloaded", ends[0].Error.Message)
	block := events[0].Payload.(event.BlockUpsert).Block
	require.Equal(t, event.BlockError, block.Type)
	require.Equal(t, event.SourceServer, block.Source, "no disk of the agent's has it")
}

// An interrupt that arrives before the agent is working is repeated then: the
// server would have ignored it.
func TestEarlyInterrupt(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
	k.send("interrupt-1", adapters.Interrupt{})
	k.takes("msg_1", "prt_000sojourn_m1")
	require.Empty(t, k.Due())
	k.assistant("msg_2", "")
	require.Contains(t, k.answerDue("true")["path"], "/abort")
	k.assistant("msg_2", `,"error":{"name":"MessageAbortedError","data":{"message":"Aborted"}},"time":{"completed":2}`)
	ended := idles(k.idle())
	require.Len(t, ended, 1)
	require.True(t, ended[0].Unheard)
}

// A turn whose answer ended by itself when an interrupt came was not interrupted. An answer
// that was aborted has an error or no finish, and one with calls is not the turn's last.
func TestInterruptOfAnEndedTurn(t *testing.T) {
	t.Parallel()
	const aborted = `{"name":"MessageAbortedError","data":{"message":"Aborted"}}`
	call := func(k *talk) {
		k.receive(`%s`, partOf(k.main, `"id":"prt_1","messageID":"msg_2","type":"tool","tool":"bash","callID":"c","state":{"status":"completed","input":{},"output":"","time":{"start":1,"end":2}}`))
	}
	for name, c := range map[string]struct {
		// first is how the answer begins; it is updated before and after the interrupt.
		first, before, after string
		with                 func(*talk)
		ended, unheard       bool
	}{
		"in its last answer":       {after: `,"finish":"stop","time":{"completed":2}`, ended: true},
		"behind its last answer":   {before: `,"finish":"length","time":{"completed":2}`, ended: true},
		"aborted":                  {after: `,"finish":"stop","error":` + aborted + `,"time":{"completed":2}`},
		"aborted between attempts": {after: `,"time":{"completed":2}`},
		"behind a call":            {before: `,"finish":"tool-calls","time":{"completed":2}`, unheard: true},
		"behind a call of a model that stops with one": {before: `,"finish":"stop","time":{"completed":2}`, with: call, unheard: true},
		"behind a summary": {first: `,"summary":true`, before: `,"summary":true,"finish":"stop","time":{"completed":2}`, unheard: true},
	} {
		k := newTalk(t)
		k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
		k.takes("msg_1", ofPrompt+"m1")
		k.assistant("msg_2", c.first)
		if c.with != nil {
			c.with(k)
		}
		if c.before != "" {
			k.assistant("msg_2", c.before)
		}
		k.send("interrupt-1", adapters.Interrupt{})
		if c.after != "" {
			k.assistant("msg_2", c.after)
		}
		ends := idles(k.idle())
		require.Len(t, ends, 1, name)
		require.Equal(t, !c.ended, ends[0].Interrupted, name)
		require.Equal(t, !c.ended, ends[0].StopReason == "interrupted", name)
		require.Equal(t, c.unheard, ends[0].Unheard, name)
	}
}

// A message that is sent while a turn runs is folded into it, or gets a separate
// turn.
func TestSteering(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
	k.takes("msg_1", "prt_000sojourn_m1")
	k.assistant("msg_2", "")
	k.send("prompt-2", adapters.Prompt{MessageID: "m2", Text: "y", Steer: true})
	require.Contains(t, k.takes("msg_3", "prt_001sojourn_m2"), event.Event{
		Payload: event.MessageFolded{MessageRef: event.MessageRef{MessageID: "m2"}},
		Context: event.Context{ConversationID: event.Main, Source: event.SourceRunner}})
	k.assistant("msg_2", `,"time":{"completed":2}`)
	require.Len(t, idles(k.idle()), 1)
}

// A call whose server dies is closed behind a message that was folded in while it ran.
// If that message was not seen, it may be stored all the same: then the database, which
// knows their order, closes the call.
func TestSteeredAndKilled(t *testing.T) {
	t.Parallel()
	for _, seen := range []bool{true, false} {
		k := newTalk(t)
		k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
		k.takes("msg_1", ofPrompt+"m1")
		k.assistant("msg_2", "")
		k.receive(`%s`, partOf(k.main, `"id":"prt_1","messageID":"msg_2","type":"tool","tool":"bash","callID":"c","state":{"status":"running","input":{"command":"ls"},"time":{"start":1}}`))
		k.send("steer-m2", adapters.Prompt{MessageID: "m2", Text: "y", Steer: true})
		if seen {
			k.takes("msg_3", ofSteered+"m2")
		}
		closed := false
		for _, ev := range k.Step(traffic.Record{Dir: event.DirSig, Line: "9"}) {
			p, ok := ev.Payload.(event.BlockUpsert)
			closed = closed || ok && p.Block.ID == resultID("prt_1")
		}
		require.Equal(t, seen, closed)
	}
}

// Answers are sent to the request's own route, in its form.
func TestAnswers(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	asked := k.receive(`{"type":"permission.asked","properties":{"id":"per_1","sessionID":"%s","permission":"bash","patterns":["ls"],"metadata":{"command":"ls"},"tool":{"callID":"c"}}}`, k.main)
	require.Equal(t, event.PermissionRequested{
		RequestID: "per_1", ToolName: "bash", ToolUseID: "c", Title: "bash: ls", Input: json.RawMessage(`{"command":"ls"}`)}, asked[0].Payload)
	allow := k.send("a1", adapters.Answer{RequestID: "per_1", Allow: true})
	require.Equal(t, "/permission/per_1/reply", allow["path"])
	require.Equal(t, map[string]any{"reply": "once"}, allow["body"])
	deny := k.send("a2", adapters.Answer{RequestID: "per_1", Message: "no"})
	require.Equal(t, map[string]any{"reply": "reject", "message": "no"}, deny["body"])
	events := k.receive(`{"type":"permission.replied","properties":{"sessionID":"%s","requestID":"per_1","reply":"reject"}}`, k.main)
	require.Equal(t, event.PermissionResolved{RequestID: "per_1", Decision: "deny", Message: "no"}, events[0].Payload)

	k.receive(`{"type":"question.asked","properties":{"id":"que_1","sessionID":"%s","questions":[{"question":"A?"},{"question":"B?"}]}}`, k.main)
	for input, want := range map[string]string{
		`{"answers":[["x"],["y"]]}`: `[["x"],["y"]]`, `[["x"]]`: `[["x"],[]]`, `{"answers":["x","y"]}`: `[["x"],["y"]]`,
		`{"questions":[{"question":"A?"},{"question":"B?"}],"answers":{"B?":"y"}}`: `[[],["y"]]`,
		`{"questions":[]}`: `[[],[]]`,
	} {
		request := k.send("q", adapters.Answer{RequestID: "que_1", Allow: true, Input: json.RawMessage(input)})
		require.Equal(t, "/question/que_1/reply", request["path"])
		require.JSONEq(t, want, replay.JSON(t, request["body"].(map[string]any)["answers"]), input)
	}
	request := k.send("q", adapters.Answer{RequestID: "que_1", Message: "not now"})
	require.Equal(t, "/question/que_1/reply#refusal", request["path"])
	require.JSONEq(t, `{"answers":[["not now"],["not now"]]}`, replay.JSON(t, request["body"]))
	events = k.receive(`{"type":"question.replied","properties":{"sessionID":"%s","requestID":"que_1"}}`, k.main)
	require.Equal(t, "deny", events[0].Payload.(event.PermissionResolved).Decision)
}

// After the stream of events broke, the missed state is requested.
func TestResync(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
	k.takes("msg_1", "prt_000sojourn_m1")
	k.assistant("msg_2", "")
	k.Step(traffic.Record{Dir: event.DirSig, Line: "events lost"})
	require.Empty(t, k.Due())
	k.Step(traffic.Record{Dir: event.DirSig, Line: "events again"})
	due := k.Due()
	require.Len(t, due, 4)
	for _, m := range due {
		require.Empty(t, k.Step(traffic.Record{Dir: event.DirIn, Line: string(m.Data)}))
	}
	events := k.receive(`{"type":"sojourn.response","id":"%s","status":200,"body":[{"info":{"id":"msg_2","sessionID":"%s","role":"assistant","time":{"completed":3}},
		"parts":[{"id":"prt_9","messageID":"msg_2","sessionID":"%s","type":"text","text":"missed","time":{"start":1,"end":2}}]}]}`, due[0].ID, k.main, k.main)
	require.Equal(t, "missed", *events[0].Payload.(event.BlockUpsert).Block.Content)
	require.Len(t, idles(k.receive(`{"type":"sojourn.response","id":"%s","status":200,"body":{}}`, due[3].ID)), 1)
}

// resync has the stream of events break and open again, and answers what is asked then: with
// the messages, the open permission requests and the open questions.
func (k *talk) resync(messages, permissions, questions string) (events []event.Event) {
	k.t.Helper()
	k.Step(traffic.Record{Dir: event.DirSig, Line: "events lost"})
	k.Step(traffic.Record{Dir: event.DirSig, Line: "events again"})
	bodies := map[string]string{
		"/session/" + k.main + "/message?limit=30": messages, "/permission": permissions, "/question": questions,
		"/session/status": `{"` + k.main + `":{"type":"busy"}}`,
	}
	for _, m := range k.Due() {
		k.Step(traffic.Record{Dir: event.DirIn, Line: string(m.Data)})
		var request struct{ Path string }
		require.NoError(k.t, json.Unmarshal(m.Data, &request))
		require.Contains(k.t, bodies, request.Path)
		events = append(events, k.receive(`{"type":"sojourn.response","id":"%s","status":200,"body":%s}`, m.ID, bodies[request.Path])...)
	}
	return events
}

// What a long turn has used is counted once, also where the list of messages that is
// requested after a gap is longer than what is remembered. What was missed is counted.
func TestResyncCountsUsageOnce(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
	k.takes("msg_000", "prt_000sojourn_m1")
	parts := func(n int) (start, finish string) {
		at := fmt.Sprintf(`"messageID":"msg_%03d","sessionID":"%s"`, n, k.main)
		return fmt.Sprintf(`{"id":"prt_%03da",%s,"type":"step-start"}`, n, at),
			fmt.Sprintf(`{"id":"prt_%03db",%s,"type":"step-finish","reason":"tool-calls","cost":1,"tokens":{"input":10,"output":1}}`, n, at)
	}
	costs, calls := 0.0, 0
	count := func(events []event.Event) {
		for _, e := range events {
			if p, ok := e.Payload.(event.MetadataUpdate); ok {
				calls += p.Calls
				if p.CostUSD != nil {
					costs += *p.CostUSD
				}
			}
		}
	}
	const seen, last = 28, 29
	var list []string
	for n := 1; n <= last; n++ {
		start, finish := parts(n)
		if n <= seen {
			k.assistant(fmt.Sprintf("msg_%03d", n), "")
			count(k.receive(`{"type":"message.part.updated","properties":{"sessionID":"%s","part":%s}}`, k.main, start))
			if n < seen { // the stream breaks while that one is written
				count(k.receive(`{"type":"message.part.updated","properties":{"sessionID":"%s","part":%s}}`, k.main, finish))
				k.assistant(fmt.Sprintf("msg_%03d", n), `,"time":{"completed":2}`)
			}
		}
		list = append(list, fmt.Sprintf(`{"info":{"id":"msg_%03d","sessionID":"%s","role":"assistant","time":{"completed":2}},"parts":[%s,%s]}`, n, k.main, start, finish))
	}
	count(k.resync("["+strings.Join(list, ",")+"]", "[]", "[]"))
	require.Equal(t, last, calls)
	require.InDelta(t, float64(last), costs, 0.01)
}

// What the agent asked while the stream of events was broken is shown, and what was asked
// before is not shown again.
func TestResyncShowsWhatWasAsked(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
	k.takes("msg_1", "prt_000sojourn_m1")
	k.assistant("msg_2", "")
	request := func(id string) string {
		return `{"id":"` + id + `","sessionID":"` + k.main + `","permission":"bash","patterns":["ls"],"metadata":{"command":"ls"},"always":["ls *"],"tool":{"messageID":"msg_2","callID":"c1"}}`
	}
	k.receive(`{"type":"permission.asked","properties":%s}`, request("per_1"))
	question := `[{"id":"que_1","sessionID":"` + k.main + `","questions":[{"question":"A?"}]}]`
	events := k.resync("[]", "["+request("per_1")+","+request("per_2")+"]", question)
	var asked []string
	for _, e := range events {
		if p, ok := e.Payload.(event.PermissionRequested); ok {
			asked = append(asked, p.RequestID+" "+p.ToolName)
		}
	}
	require.Equal(t, []string{"per_2 bash", "que_1 question"}, asked)
	require.Equal(t, "/question/que_1/reply", k.send("a1", adapters.Answer{RequestID: "que_1", Allow: true})["path"])

	// What became of those that were answered is shown too, once they are open no more.
	k.send("a2", adapters.Answer{RequestID: "per_1", Message: "no"})
	k.send("a3", adapters.Answer{RequestID: "per_2", Allow: true})
	resolved := func(events []event.Event) (all []string) {
		for _, e := range events {
			if p, ok := e.Payload.(event.PermissionResolved); ok {
				all = append(all, p.RequestID+" "+p.Decision+" "+p.Message)
			}
		}
		return all
	}
	require.Equal(t, []string{"per_1 deny no"}, resolved(k.resync("[]", "["+request("per_2")+"]", question)))
	require.Equal(t, []string{"per_2 allow ", "que_1 allow "}, resolved(k.resync("[]", "[]", "[]")))
}

// A request that was too long for the model is reported as an error; the server makes a summary
// and continues. The turn has not failed, unless the summary fails too.
func TestTurnSavedByCompaction(t *testing.T) {
	t.Parallel()
	for _, saved := range []bool{true, false} {
		k := newTalk(t)
		overflow := func() {
			k.receive(`{"type":"session.error","properties":{"sessionID":"%s","error":{"name":"ContextOverflowError","data":{"message":"prompt is too long"}}}}`, k.main)
		}
		k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
		k.takes("msg_1", ofPrompt+"m1")
		k.assistant("msg_2", "")
		overflow()
		k.assistant("msg_2", `,"time":{"completed":2}`)
		k.receive(`%s`, messageOf(k.main, "msg_3", "user"))
		k.receive(`%s`, partOf(k.main, `"id":"prt_3","messageID":"msg_3","type":"compaction","auto":true,"overflow":true`))
		k.assistant("msg_4", `,"summary":true`)
		if saved {
			k.assistant("msg_4", `,"summary":true,"finish":"stop","time":{"completed":3}`)
			k.assistant("msg_5", `,"finish":"stop","time":{"completed":4}`)
		} else {
			overflow()
			k.assistant("msg_4", `,"summary":true,"time":{"completed":3},"error":{"name":"ContextOverflowError","data":{"message":"too large to compact"}}`)
		}
		ends := idles(k.idle())
		require.Len(t, ends, 1)
		require.Equal(t, saved, ends[0].Error == nil)
	}
}

// A failed answer fails its turn, also when a message that was folded into it is answered.
func TestFailureStaysWithAFoldedMessage(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
	k.takes("msg_1", ofPrompt+"m1")
	k.assistant("msg_2", "")
	k.receive(`{"type":"session.error","properties":{"sessionID":"%s","error":{"name":"APIError","data":{"message":"no","statusCode":400}}}}`, k.main)
	k.assistant("msg_2", `,"error":{"name":"APIError","data":{"message":"no","statusCode":400}},"time":{"completed":2}`)
	k.assistant("msg_3", "")
	k.assistant("msg_3", `,"time":{"completed":3}`)
	ends := idles(k.idle())
	require.Len(t, ends, 1)
	require.NotNil(t, ends[0].Error)
}

// A prompt that the server accepts and fails to store is reported as an error, and nothing
// else follows: its turn fails, and the next one ends.
func TestPromptThatIsNotStored(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
	k.receive(`{"type":"sojourn.response","id":"prompt-1","status":204}`)
	ends := idles(k.receive(`{"type":"session.error","properties":{"sessionID":"%s","error":{"name":"UnknownError","data":{"message":"ENOENT"}}}}`, k.main))
	require.Len(t, ends, 1)
	require.Equal(t, "ENOENT", ends[0].Error.Message)
	k.completes("m2")
}

// completes plays a whole turn.
func (k *talk) completes(message string) {
	k.t.Helper()
	k.send("prompt-"+message, adapters.Prompt{MessageID: message, Text: "x"})
	require.Empty(k.t, idles(k.idle()), "the prompt has not been taken")
	k.takes("msg_"+message, ofPrompt+message)
	k.assistant("msg_to_"+message, "")
	k.assistant("msg_to_"+message, `,"time":{"completed":2}`)
	ends := idles(k.idle())
	require.Len(k.t, ends, 1)
	require.Nil(k.t, ends[0].Error)
}

// A steered message that the server fails to store fails no turn, neither the one that runs nor
// the next.
func TestSteeredMessageThatIsNotStored(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("prompt-1", adapters.Prompt{MessageID: "m1", Text: "x"})
	k.takes("msg_1", ofPrompt+"m1")
	k.assistant("msg_2", "")
	k.send("steer-m2", adapters.Prompt{MessageID: "m2", Text: "y", Steer: true})
	require.Empty(t, idles(k.receive(`{"type":"session.error","properties":{"sessionID":"%s","error":{"name":"UnknownError","data":{"message":"ENOENT"}}}}`, k.main)))
	k.assistant("msg_2", `,"time":{"completed":2}`)
	k.assistant("msg_3", "")
	k.assistant("msg_3", `,"time":{"completed":3}`)
	ends := idles(k.idle())
	require.Len(t, ends, 1)
	require.Nil(t, ends[0].Error)
	k.completes("m3")
}

// What the program prints beside its log before it exits is a warning: a turn
// that fails with it has the reason.
func TestLastWordsAreAWarning(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	for line, level := range map[string]string{
		"database is locked": "warn",
		"opencode server listening on http://127.0.0.1:4096": "info",
		"Warning: OPENCODE_SERVER_PASSWORD is not set":       "info",
		"timestamp=2026-11-23 level=ERROR message=failed":    "warn",
		"timestamp=2026-11-23 level=INFO message=started":    "info",
		"\x1b[91m\x1b[1mError: \x1b[0mUnexpected error":      "warn",
	} {
		events := k.Step(traffic.Record{Dir: event.DirErr, Line: line})
		require.Len(t, events, 1, line)
		require.Equal(t, event.Log{Level: level, Message: line}, events[0].Payload, line)
	}
}

// TestTurnEndsOnAFullDisk: the server can't store the end of an answer, and reports an error
// and twice that it is idle, as it did with "database or disk is full" on 2026-11-25
// (1.18.33). The turn fails, and the next one is answered.
func TestTurnEndsOnAFullDisk(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.send("p1", adapters.Prompt{Text: "x"})
	k.takes("msg_1", "prt_1")
	k.assistant("msg_2", `,"time":{"created":1}`)
	k.receive(`%s`, partOf(k.main, `"id":"prt_2","messageID":"msg_2","type":"tool","tool":"bash","callID":"call_1","state":{"status":"running","input":{"command":"cat /dev/zero > all"},"time":{"start":2}}`))
	broke := func() []event.Event {
		return k.receive(`{"type":"session.error","properties":{"sessionID":"%s","error":{"name":"UnknownError","data":{"message":"Failed to execute statement"}}}}`, k.main)
	}
	broke()
	require.Empty(t, idles(k.idle()), "an answer may still end")
	events := k.idle()
	over := idles(events)
	require.Len(t, over, 1)
	require.Equal(t, "Failed to execute statement", over[0].Error.Message)
	require.True(t, slices.ContainsFunc(events, func(e event.Event) bool {
		p, ok := e.Payload.(event.BlockUpsert)
		return ok && p.Block.Type == event.BlockToolUse && p.Block.Execution == event.ExecutionError
	}), "the call is over")
	broke()

	k.send("p2", adapters.Prompt{Text: "x"})
	k.takes("msg_3", "prt_3")
	k.assistant("msg_4", `,"time":{"created":3}`)
	require.Empty(t, idles(k.idle()), "an answer is being written")
	k.assistant("msg_4", `,"time":{"created":3,"completed":4}`)
	over = idles(k.idle())
	require.Len(t, over, 1)
	require.Nil(t, over[0].Error)
}
