package acp

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/recordings"
	recorded "github.com/sojourn-run/sojourn/test/replay"
)

// plainDialect returns the dialect of an agent that follows the protocol.
func plainDialect() *Dialect {
	return &Dialect{Agent: "agent", Modes: map[adapters.Permission]string{adapters.PermissionAllow: "free", adapters.PermissionAsk: "careful"}}
}

func launched(t *testing.T, d *Dialect, l adapters.Launch) *Translator {
	t.Helper()
	tr, err := New(d, l, nil)
	require.NoError(t, err)
	return tr
}

func in(line string) traffic.Record  { return traffic.Record{Dir: event.DirIn, Line: line} }
func out(line string) traffic.Record { return traffic.Record{Dir: event.DirOut, Line: line} }

// send steps the messages that the translator writes, as a runner that spools
// both directions does, and returns the ids and lines.
func send(tr *Translator, messages []adapters.Message) (lines []string) {
	for _, m := range messages {
		lines = append(lines, m.ID+" "+string(m.Data))
		tr.Step(in(string(m.Data)))
	}
	return lines
}

func say(t *testing.T, tr *Translator, id string, input adapters.Input) string {
	t.Helper()
	messages, err := tr.Encode(id, input)
	require.NoError(t, err)
	return strings.Join(send(tr, messages), "\n")
}

// opened returns a translator whose session is open.
func opened(t *testing.T) *Translator {
	t.Helper()
	tr := launched(t, plainDialect(), adapters.Launch{Workspace: "/w"})
	say(t, tr, "i0", adapters.Initialize{})
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0","result":{"agentCapabilities":{"promptCapabilities":{"image":true}}}}`))
	send(tr, tr.Due())
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0/session","result":{"sessionId":"S"}}`))
	return tr
}

// The opening depends on records: what is due is returned once, and again by
// another translator that has read the same records.
func TestOpening(t *testing.T) {
	t.Parallel()
	l := adapters.Launch{Workspace: "/w", MCPServers: map[string]adapters.MCPServer{
		"web": {URL: "http://x", Headers: map[string]string{"A": "b"}}, "cmd": {Command: "c", Env: map[string]string{"K": "v"}}}}
	tr := launched(t, plainDialect(), l)
	_, err := tr.Encode("p1", adapters.Prompt{Text: "hi"})
	require.ErrorIs(t, err, adapters.ErrNotYet)
	require.Empty(t, tr.Due())
	require.Contains(t, say(t, tr, "i0", adapters.Initialize{}), `"method":"initialize"`)
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0","result":{}}`))

	state, err := tr.State()
	require.NoError(t, err)
	other, err := New(plainDialect(), l, state)
	require.NoError(t, err)
	due := tr.Due()
	require.Equal(t, due, other.Due(), "a second worker writes the same under the same id")
	require.Empty(t, tr.Due(), "each message is given once")
	require.Equal(t, "i0/session", due[0].ID)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":"i0/session","method":"session/new","params":{"cwd":"/w","mcpServers":[
		{"name":"cmd","command":"c","args":[],"env":[{"name":"K","value":"v"}]},
		{"type":"http","name":"web","url":"http://x","headers":[{"name":"A","value":"b"}]}]}}`, string(due[0].Data))
	send(tr, due)
	_, err = tr.Encode("p1", adapters.Prompt{Text: "hi"})
	require.ErrorIs(t, err, adapters.ErrNotYet)
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0/session","result":{"sessionId":"S"}}`))
	require.Equal(t, "S", tr.Session())
	require.Contains(t, say(t, tr, "p1", adapters.Prompt{Text: "hi"}), `"sessionId":"S"`)
}

// If the agent refuses the session, every prompt is refused with the agent's
// error.
func TestOpeningRefused(t *testing.T) {
	t.Parallel()
	tr := launched(t, plainDialect(), adapters.Launch{})
	say(t, tr, "i0", adapters.Initialize{})
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0","error":{"code":-32000,"message":"no key"}}`))
	_, err := tr.Encode("p1", adapters.Prompt{Text: "hi"})
	require.ErrorIs(t, err, adapters.ErrRefused)
	require.ErrorContains(t, err, "no key")
	say(t, tr, "i1", adapters.Initialize{})
	_, err = tr.Encode("p1", adapters.Prompt{Text: "hi"})
	require.ErrorIs(t, err, adapters.ErrNotYet, "another process begins again")
}

// A session that can't be loaded is replaced by a new one, and a block says so.
func TestOpeningFallsBack(t *testing.T) {
	t.Parallel()
	tr := launched(t, plainDialect(), adapters.Launch{Resume: true, NativeID: "old"})
	say(t, tr, "i0", adapters.Initialize{})
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0","result":{}}`))
	require.Contains(t, send(tr, tr.Due())[0], `"sessionId":"old"`)
	reported := tr.Step(out(`{"jsonrpc":"2.0","id":"i0/session","error":{"code":-32603,"message":"gone"}}`))
	require.Equal(t, "session_lost", reported[0].Payload.(event.Error).Code)
	require.Contains(t, send(tr, tr.Due())[0], `i0/session-2 {"id":"i0/session-2","jsonrpc":"2.0","method":"session/new"`)
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0/session-2","result":{"sessionId":"new"}}`))
	require.Equal(t, "new", tr.Session())
	require.Contains(t, say(t, tr, "p1", adapters.Prompt{Text: "hi"}), `"sessionId":"new"`)
}

// A new session that its agent can't use is left, and another is opened; it makes no block.
func TestOpeningAgain(t *testing.T) {
	t.Parallel()
	d := plainDialect()
	d.Parted = func(asked, opened time.Time) bool { return opened.Sub(asked) > time.Minute }
	tr := launched(t, d, adapters.Launch{Workspace: "/w"})
	at := func(minutes int, r traffic.Record) traffic.Record {
		r.TS = time.Unix(1000, 0).Add(time.Duration(minutes) * time.Minute)
		return r
	}
	say(t, tr, "i0", adapters.Initialize{})
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0","result":{}}`))
	tr.Step(at(0, in(string(tr.Due()[0].Data))))
	require.Empty(t, tr.Step(at(2, out(`{"jsonrpc":"2.0","id":"i0/session","result":{"sessionId":"left"}}`))))
	require.Empty(t, tr.Session())
	_, err := tr.Encode("p1", adapters.Prompt{Text: "hi"})
	require.ErrorIs(t, err, adapters.ErrNotYet)

	state, err := tr.State()
	require.NoError(t, err)
	other, err := New(d, adapters.Launch{Workspace: "/w"}, state)
	require.NoError(t, err)
	due := other.Due()
	require.Len(t, due, 1)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":"i0/session-again","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`, string(due[0].Data))
	other.Step(at(2, in(string(due[0].Data))))
	require.Empty(t, other.Due())
	other.Step(at(3, out(`{"jsonrpc":"2.0","id":"i0/session-again","result":{"sessionId":"S"}}`)))
	require.Equal(t, "S", other.Session())
	require.Contains(t, say(t, other, "p1", adapters.Prompt{Text: "hi"}), `"sessionId":"S"`)
}

// History that follows the answer to the load is waited for: a request is
// repeated until nothing was replayed before its answer.
func TestSettle(t *testing.T) {
	t.Parallel()
	d := plainDialect()
	d.Settle = true
	tr := launched(t, d, adapters.Launch{Resume: true, NativeID: "old"})
	say(t, tr, "i0", adapters.Initialize{})
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0","result":{}}`))
	tr.Step(in(`{"jsonrpc":"2.0","id":"i0/session","method":"session/load","params":{"sessionId":"old"}}`)) // of an older build
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0/session","result":{}}`))
	replayed := func(kind, text string) {
		require.Empty(t, tr.Step(out(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"old","update":{"sessionUpdate":"`+kind+`","content":{"type":"text","text":"`+text+`"}}}}`)))
	}
	replayed("user_message_chunk", "one")
	require.Contains(t, send(tr, tr.Due())[0], "i0/settle-0")
	replayed("agent_message_chunk", "first answer")
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0/settle-0","result":{}}`))
	_, err := tr.Encode("p1", adapters.Prompt{Text: "hi"})
	require.ErrorIs(t, err, adapters.ErrNotYet)
	require.Contains(t, send(tr, tr.Due())[0], "i0/settle-1")
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0/settle-1","error":{"code":-32601,"message":"no modes here"}}`))
	say(t, tr, "p1", adapters.Prompt{Text: "hi"})
	require.Equal(t, TurnID("old", 2), tr.Turns[0].ID, "prompts that were replayed count")
}

// A running turn takes no other prompt, and none is folded into it.
func TestOnePromptAtATime(t *testing.T) {
	t.Parallel()
	tr := opened(t)
	say(t, tr, "p1", adapters.Prompt{Text: "hi"})
	_, err := tr.Encode("p2", adapters.Prompt{Text: "ho"})
	require.ErrorIs(t, err, adapters.ErrNotYet)
	_, err = tr.Encode("p2", adapters.Prompt{Text: "ho", Steer: true})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
	tr.Step(out(`{"jsonrpc":"2.0","id":"p1","result":{"stopReason":"end_turn"}}`))
	say(t, tr, "p2", adapters.Prompt{Text: "ho"})
}

func TestEncodeParts(t *testing.T) {
	t.Parallel()
	tr := opened(t)
	line := say(t, tr, "p1", adapters.Prompt{Text: "look", Parts: []event.Part{
		{Type: "text", Text: "here"}, {Type: "image", MediaType: "image/png", Data: "aGk="}}})
	require.Contains(t, line, `{"type":"image","mimeType":"image/png","data":"aGk="}`)
	tr = opened(t)
	_, err := tr.Encode("p1", adapters.Prompt{Parts: []event.Part{{Type: "image", URL: "http://x"}}})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
}

const asks = `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"S","options":[
	{"optionId":"always","kind":"allow_always"},{"optionId":"once","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}],
	"toolCall":{"toolCallId":"c1","title":"rm x","kind":"execute","rawInput":{"command":"rm x"},"status":"pending"}}}`

func asked(t *testing.T, tr *Translator) event.PermissionRequested {
	t.Helper()
	for _, e := range tr.Step(out(strings.ReplaceAll(asks, "\n", ""))) {
		if p, ok := e.Payload.(event.PermissionRequested); ok {
			return p
		}
	}
	t.Fatal("nobody was asked")
	return event.PermissionRequested{}
}

// Requests are answered by the options that they offer; a repeated answer is not
// written again.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for allow, want := range map[bool]string{true: `"optionId":"once"`, false: `"optionId":"no"`} {
		tr := opened(t)
		say(t, tr, "p1", adapters.Prompt{Text: "hi"})
		p := asked(t, tr)
		require.JSONEq(t, `{"command":"rm x"}`, string(p.Input))
		line := say(t, tr, "a1", adapters.Answer{RequestID: p.RequestID, Allow: allow})
		require.Contains(t, line, want)
		require.Contains(t, line, `"id":7`)
		require.Empty(t, say(t, tr, "a2", adapters.Answer{RequestID: p.RequestID, Allow: true}))
	}
}

// What is answered is never more than what was: a call that can't be allowed once
// is refused, and what can't be refused once is refused for good.
func TestAnswersWithoutAFittingOption(t *testing.T) {
	t.Parallel()
	const always, never, no = `{"optionId":"always","kind":"allow_always"}`, `{"optionId":"never","kind":"reject_always"}`, `{"optionId":"no","kind":"reject_once"}`
	for _, c := range []struct {
		options  string
		allow    bool
		want     string
		decision string
	}{
		{always + "," + no + "," + never, true, `{"optionId":"no","outcome":"selected"}`, "deny"},
		{always + "," + never, true, `{"optionId":"never","outcome":"selected"}`, "deny"},
		{always + "," + never, false, `{"optionId":"never","outcome":"selected"}`, "deny"},
		{always, true, `{"outcome":"cancelled"}`, "cancelled"},
		{`{"optionId":"once","kind":"allow_once"}`, false, `{"outcome":"cancelled"}`, "cancelled"},
	} {
		tr := opened(t)
		say(t, tr, "p1", adapters.Prompt{Text: "hi"})
		var request string
		warned := 0
		for _, e := range tr.Step(out(`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"S","options":[` + c.options +
			`],"toolCall":{"toolCallId":"c1","title":"rm x","kind":"execute","rawInput":{"command":"rm x"},"status":"pending"}}}`)) {
			switch p := e.Payload.(type) {
			case event.PermissionRequested:
				request = p.RequestID
			case event.Log:
				warned++
				require.Contains(t, p.Message, "once")
			}
		}
		messages, err := tr.Encode("a1", adapters.Answer{RequestID: request, Allow: c.allow})
		require.NoError(t, err, c.options)
		require.Contains(t, string(messages[0].Data), c.want)
		require.Equal(t, strings.Contains(c.options, "always"), warned == 1, "that an answer can't be what a person wants is said with the request")
		var decision string
		for _, e := range tr.Step(in(string(messages[0].Data))) {
			if p, is := e.Payload.(event.PermissionResolved); is {
				decision = p.Decision
			}
		}
		require.Equal(t, c.decision, decision, c.options)
	}
}

// An interrupt cancels, and answers waiting requests, also those made afterwards.
func TestInterruptAnswersRequests(t *testing.T) {
	t.Parallel()
	tr := opened(t)
	require.Empty(t, say(t, tr, "x0", adapters.Interrupt{}), "nothing runs")
	say(t, tr, "p1", adapters.Prompt{Text: "hi"})
	p := asked(t, tr)
	require.Contains(t, say(t, tr, "x1", adapters.Interrupt{}), "session/cancel")
	due := send(tr, tr.Due())
	require.Len(t, due, 1)
	require.Contains(t, due[0], p.RequestID+"/cancelled")
	require.Contains(t, due[0], `{"outcome":{"outcome":"cancelled"}}`)
	require.Empty(t, tr.Due())
	tr.Step(out(strings.ReplaceAll(strings.Replace(strings.Replace(asks, `"id":7`, `"id":"eight"`, 1), "c1", "c2", 1), "\n", "")))
	require.Contains(t, send(tr, tr.Due())[0], `"id":"eight"`)
	events := tr.Step(out(`{"jsonrpc":"2.0","id":"p1","result":{"stopReason":"cancelled"}}`))
	require.True(t, events[len(events)-1].Payload.(event.SessionIdle).Interrupted)
}

// A request that the client does not support is refused, once.
func TestUnserved(t *testing.T) {
	t.Parallel()
	tr := opened(t)
	require.IsType(t, event.Native{}, tr.Step(out(`{"jsonrpc":"2.0","id":3,"method":"fs/read_text_file","params":{"path":"/x"}}`))[0].Payload)
	due := send(tr, tr.Due())
	require.Contains(t, due[0], `"code":-32601`)
	require.Empty(t, tr.Due())
}

func TestSettings(t *testing.T) {
	t.Parallel()
	tr := opened(t)
	require.Contains(t, say(t, tr, "m1", adapters.SetModel{Model: "big"}), `"modelId":"big"`)
	reported := tr.Step(out(`{"jsonrpc":"2.0","id":"m1","result":{}}`))
	require.Equal(t, "big", *reported[0].Payload.(event.OptionsUpdate).Model)
	require.Contains(t, say(t, tr, "s1", adapters.SetPermission{Permission: adapters.PermissionAsk}), `"modeId":"careful"`)
	_, err := tr.Encode("s2", adapters.SetPermission{Permission: adapters.PermissionDeny})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
}

func TestBadState(t *testing.T) {
	t.Parallel()
	_, err := New(plainDialect(), adapters.Launch{}, json.RawMessage(`{"v":9}`))
	require.ErrorContains(t, err, "version 9")
	_, err = New(plainDialect(), adapters.Launch{}, json.RawMessage(`7`))
	require.Error(t, err)
}

// The fast path reads a piece of text as the decoder does.
func FuzzFastChunk(f *testing.F) {
	f.Add(chunkHead + "S" + chunkKind + saidKind + chunkText + `a\u00e9\n"` + chunkTail)
	f.Add(chunkHead + "S" + chunkKind + thoughtKind + chunkText + `plain` + chunkTail)
	f.Add(chunkHead + "S" + chunkKind + saidKind + chunkMessage + "m1" + chunkText + `named` + chunkTail)
	f.Add(chunkHead + `S\"` + chunkKind + saidKind + chunkText + "\xff" + chunkTail)
	f.Add(chunkHead + "S" + chunkKind + saidKind + chunkText + `x"},"_meta":{"a":"b` + chunkTail)
	f.Add(chunkHead + "S\x13" + chunkKind + saidKind + chunkText + "a" + chunkTail)
	f.Fuzz(func(t *testing.T, line string) {
		kind, message, text, ok := fastChunk(line)
		if !ok {
			return
		}
		m, known, err := decode(line)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, "session/update", m.Method)
		require.Equal(t, kind, m.Params.Update.Kind)
		require.Equal(t, message, m.Params.Update.MessageID)
		c, ok := chunk(m.Params.Update.Content)
		require.True(t, ok)
		require.Equal(t, Content{Type: "text", Text: text}, c)
	})
}

// An agent that follows the protocol needs no dialect: a recording of an agent
// for which this was not written becomes a whole conversation.
func TestAnotherAgent(t *testing.T) {
	t.Parallel()
	file := recorded.File{Dir: filepath.Join(recordings.Dir(t, "opencode"), "acp-basic")}
	tr := launched(t, &Dialect{Agent: "acp"}, adapters.Launch{})
	b := reducer.NewBuilder(reducer.State{})
	prompts, idle := 0, 0
	for _, r := range file.Records(t) {
		if r.Dir == event.DirIn {
			prompts += strings.Count(r.Line, `"session/prompt"`)
		}
		for _, e := range tr.Step(r) {
			b.Add(e)
			if p, ok := e.Payload.(event.Error); ok {
				require.NotEqual(t, "malformed", p.Code, r.Line)
			}
			if _, ok := e.Payload.(event.SessionIdle); ok {
				idle++
			}
		}
	}
	require.Equal(t, prompts, idle)
	kinds := map[event.BlockType]int{}
	for _, block := range b.State().Blocks {
		kinds[block.Type]++
		require.NotEqual(t, event.StatusPending, block.Status)
	}
	require.Equal(t, prompts, kinds[event.BlockUserMessage])
	require.NotZero(t, kinds[event.BlockThinking])
	require.NotZero(t, kinds[event.BlockToolResult])
}

// A session that is continued has as many prompts as its files: what is replayed of
// it is less where the agent has forgotten some, and is not in the form in which it
// was asked.
func TestPromptsOfALoadedSession(t *testing.T) {
	t.Parallel()
	tr := launched(t, plainDialect(), adapters.Launch{Resume: true, NativeID: "old", Prompts: 4})
	say(t, tr, "i0", adapters.Initialize{})
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0","result":{}}`))
	require.Contains(t, send(tr, tr.Due())[0], `"_meta":{"sojourn.prompts":4}`)
	tr.Step(out(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"old","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"one"}}}}`))
	tr.Step(out(`{"jsonrpc":"2.0","id":"i0/session","result":{}}`))
	say(t, tr, "p1", adapters.Prompt{Text: "five"})
	require.Equal(t, TurnID("old", 5), tr.Turns[0].ID)

	tr.Step(traffic.Record{Dir: event.DirSig, Line: "signal killed"})
	tr.launch.Prompts = 5
	say(t, tr, "i1", adapters.Initialize{})
	tr.Step(out(`{"jsonrpc":"2.0","id":"i1","result":{}}`))
	send(tr, tr.Due())
	tr.Step(out(`{"jsonrpc":"2.0","id":"i1/session","result":{}}`))
	say(t, tr, "p2", adapters.Prompt{Text: "six"})
	require.Equal(t, TurnID("old", 6), tr.Turns[0].ID, "the one without an answer is in the files")
}

// What the agent itself answers is in none of its files, so that nothing in them can
// count it: it is named by its request.
func TestCommandsInTheNextSandbox(t *testing.T) {
	t.Parallel()
	d := plainDialect()
	d.Command = func(string, []string) bool { return true }
	var ids []string
	for _, request := range []string{"prompt-a", "prompt-b"} {
		tr := launched(t, d, adapters.Launch{Resume: true, NativeID: "old", Prompts: 1})
		say(t, tr, "i0", adapters.Initialize{})
		tr.Step(out(`{"jsonrpc":"2.0","id":"i0","result":{}}`))
		send(tr, tr.Due())
		tr.Step(out(`{"jsonrpc":"2.0","id":"i0/session","result":{}}`))
		say(t, tr, request, adapters.Prompt{Text: "/memory show"})
		ids = append(ids, tr.Turns[0].ID)
	}
	require.NotEqual(t, ids[0], ids[1])
}
