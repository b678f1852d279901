package codex

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// spoken returns a translator whose program is ready for prompts.
func spoken(t testing.TB) adapters.Translator {
	t.Helper()
	tr, err := New().Translator(adapters.Launch{NativeID: "main", Workspace: "/srv/project"}, nil)
	require.NoError(t, err)
	_, err = tr.Encode("p", adapters.Prompt{Text: "too early"})
	require.ErrorIs(t, err, adapters.ErrNotYet)
	request := openThread(t, tr)
	tr.Step(traffic.Record{Dir: event.DirIn, Line: request})
	_, err = tr.Encode("p", adapters.Prompt{Text: "too early"})
	require.ErrorIs(t, err, adapters.ErrNotYet)
	tr.Step(traffic.Record{Dir: event.DirOut, Line: `{"id":"initialize-0-thread","result":{"thread":{"id":"main"},"model":"m"}}`})
	return tr
}

func encode(t testing.TB, tr adapters.Translator, id string, in adapters.Input) []adapters.Message {
	t.Helper()
	messages, err := tr.Encode(id, in)
	require.NoError(t, err)
	for _, m := range messages {
		require.True(t, json.Valid(m.Data))
		require.NotContains(t, string(m.Data), "\n")
	}
	return messages
}

func step(tr adapters.Translator, dir event.Dir, line string) []event.Event {
	return tr.Step(traffic.Record{Dir: dir, Line: line})
}

func TestEncodePrompt(t *testing.T) {
	t.Parallel()
	tr := spoken(t)
	got := encode(t, tr, "p1", adapters.Prompt{
		MessageID: "msg", Text: "look", Parts: []event.Part{{Type: "image", MediaType: "image/png", Data: "QQ=="}},
		Model: "m2", Permission: adapters.PermissionAsk,
	})
	require.Len(t, got, 1)
	require.Equal(t, "p1", got[0].ID)
	require.JSONEq(t, `{"id":"p1","method":"turn/start","params":{"threadId":"main","clientUserMessageId":"msg","model":"m2",
		"approvalPolicy":"untrusted","sandboxPolicy":{"type":"dangerFullAccess"},
		"input":[{"type":"text","text":"look"},{"type":"image","url":"data:image/png;base64,QQ=="}]}}`, string(got[0].Data))
	_, err := tr.Encode("p2", adapters.Prompt{Parts: []event.Part{{Type: "sound"}}})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
	_, err = tr.Encode("p2", adapters.Prompt{Text: strings.Repeat("x", maxPrompt+1)})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
}

// An interrupt waits until the turn has begun, reaches subagents first, and writes
// nothing if nothing runs.
func TestEncodeInterrupt(t *testing.T) {
	t.Parallel()
	tr := spoken(t)
	require.Empty(t, encode(t, tr, "i", adapters.Interrupt{}))
	step(tr, event.DirIn, `{"id":"p","method":"turn/start","params":{"threadId":"main","clientUserMessageId":"m","input":[]}}`)
	_, err := tr.Encode("i", adapters.Interrupt{})
	require.ErrorIs(t, err, adapters.ErrNotYet)
	step(tr, event.DirOut, `{"id":"p","result":{"turn":{"id":"t1"}}}`)
	_, err = tr.Encode("i", adapters.Interrupt{})
	require.ErrorIs(t, err, adapters.ErrNotYet, "the program would refuse it")
	step(tr, event.DirOut, `{"method":"turn/started","params":{"threadId":"main","turn":{"id":"t1"}}}`)
	step(tr, event.DirOut, `{"method":"turn/started","params":{"threadId":"child","turn":{"id":"t2"}}}`)
	got := encode(t, tr, "i", adapters.Interrupt{})
	require.Len(t, got, 2)
	require.JSONEq(t, `{"id":"i","method":"turn/interrupt","params":{"threadId":"child","turnId":"t2"}}`, string(got[0].Data))
	require.JSONEq(t, `{"id":"i-2","method":"turn/interrupt","params":{"threadId":"main","turnId":"t1"}}`, string(got[1].Data))
	require.NotEqual(t, got[0].ID, got[1].ID)
}

func TestEncodeAnswers(t *testing.T) {
	t.Parallel()
	for method, c := range map[string]struct {
		params, input, allow, deny string
	}{
		"item/commandExecution/requestApproval": {`{"threadId":"main","command":"/bin/sh -c ls"}`, "{}", `{"decision":"accept"}`, `{"decision":"decline"}`},
		"item/fileChange/requestApproval":       {`{"threadId":"main"}`, "{}", `{"decision":"accept"}`, `{"decision":"decline"}`},
		"item/permissions/requestApproval": {`{"threadId":"main"}`, `{"permissions":{"network":true}}`,
			`{"permissions":{"network":true},"scope":"turn"}`, `{"permissions":{},"scope":"turn"}`},
		"item/tool/requestUserInput": {`{"threadId":"main","questions":[]}`, `{"answers":{"a":"x","b":["y","z"],"c":{"answers":["w"]}}}`,
			`{"answers":{"a":{"answers":["x"]},"b":{"answers":["y","z"]},"c":{"answers":["w"]}}}`, `{"answers":{}}`},
		"mcpServer/elicitation/request": {`{"threadId":"main","message":"?"}`, `{"content":{"k":1}}`,
			`{"action":"accept","content":{"k":1}}`, `{"action":"decline","content":null}`},
	} {
		tr := spoken(t)
		asked := step(tr, event.DirOut, `{"id":3,"method":"`+method+`","params":`+c.params+`}`)
		require.Len(t, asked, 1, method)
		id := asked[0].Payload.(event.PermissionRequested).RequestID
		for allow, want := range map[bool]string{true: c.allow, false: c.deny} {
			got := encode(t, tr, "a", adapters.Answer{RequestID: id, Allow: allow, Message: "no", Input: json.RawMessage(c.input)})
			require.JSONEq(t, `{"id":3,"result":`+want+`}`, string(got[0].Data), method)
			read := spoken(t)
			step(read, event.DirOut, `{"id":3,"method":"`+method+`","params":`+c.params+`}`)
			resolved := step(read, event.DirIn, string(got[0].Data))
			require.Equal(t, map[bool]string{true: "allow", false: "deny"}[allow], resolved[0].Payload.(event.PermissionResolved).Decision, method)
		}
		require.Empty(t, encode(t, tr, "a", adapters.Answer{RequestID: "9-9"}), "a request that was withdrawn")
	}
}

// A request of an unknown kind is kept and refused, so that the program does not
// wait for ever.
func TestUnknownRequestIsRefused(t *testing.T) {
	t.Parallel()
	tr := spoken(t)
	kept := step(tr, event.DirOut, `{"id":8,"method":"never/heard","params":{}}`)
	require.Len(t, kept, 1)
	require.IsType(t, event.Native{}, kept[0].Payload)
	due := tr.Due()
	require.Len(t, due, 1)
	require.Contains(t, string(due[0].Data), `"error"`)
}

func TestEncodeSettings(t *testing.T) {
	t.Parallel()
	tr := spoken(t)
	got := encode(t, tr, "s", adapters.SetModel{Model: "m9"})
	require.JSONEq(t, `{"id":"s","method":"thread/settings/update","params":{"threadId":"main","model":"m9"}}`, string(got[0].Data))
	step(tr, event.DirIn, string(got[0].Data))
	events := step(tr, event.DirOut, `{"id":"s","result":{}}`)
	require.IsType(t, event.OptionsUpdate{}, events[len(events)-1].Payload)
	got = encode(t, tr, "q", adapters.SetPermission{Permission: adapters.PermissionDeny})
	require.Contains(t, string(got[0].Data), `"approvalPolicy":"untrusted"`)
	_, err := tr.Encode("q", adapters.SetPermission{Permission: "maybe"})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
}

// A session that the program can't open takes no prompt, and the error has the
// reason.
func TestRefusedSession(t *testing.T) {
	t.Parallel()
	tr, err := New().Translator(adapters.Launch{NativeID: "gone"}, nil)
	require.NoError(t, err)
	step(tr, event.DirIn, openThread(t, tr))
	events := step(tr, event.DirOut, `{"id":"initialize-0-thread","error":{"code":-32603,"message":"no rollout found"}}`)
	require.IsType(t, event.Error{}, events[0].Payload)
	_, err = tr.Encode("p", adapters.Prompt{Text: "hi"})
	require.ErrorIs(t, err, adapters.ErrRefused)
	require.ErrorContains(t, err, "no rollout found")
	step(tr, event.DirSig, "exit 0")
	_, err = tr.Encode("p", adapters.Prompt{Text: "hi"})
	require.ErrorIs(t, err, adapters.ErrNotYet, "the next process has its own opening")
}

// A prompt that the program refuses ends its turn with the reason.
func TestRefusedPrompt(t *testing.T) {
	t.Parallel()
	tr := spoken(t)
	step(tr, event.DirIn, string(encode(t, tr, "p", adapters.Prompt{MessageID: "m", Text: "hi"})[0].Data))
	events := step(tr, event.DirOut, `{"id":"p","error":{"code":-32602,"message":"too long"}}`)
	idle := events[len(events)-1].Payload.(event.SessionIdle)
	require.Equal(t, "too long", idle.Error.Message)
}

func TestCommand(t *testing.T) {
	t.Parallel()
	cmd, err := New().Command(adapters.Launch{Program: "/codex", Home: "/srv/home", Workspace: "/srv/project"})
	require.NoError(t, err)
	require.Equal(t, []string{"/codex", "app-server", "-c", `projects={"/srv/project"={trust_level="trusted"}}`}, cmd.Argv)
	require.Equal(t, map[string]string{"HOME": "/srv/home", "CODEX_HOME": "/srv/home/.codex"}, cmd.Env)
	require.Equal(t, "/srv/project", cmd.Dir)
	cmd, err = New().Command(adapters.Launch{Program: "/codex", Home: "/srv/home", Workspace: "/srv/project", Permission: adapters.PermissionAsk})
	require.NoError(t, err)
	require.Equal(t, `projects={"/srv/project"={trust_level="untrusted"}}`, cmd.Argv[3])
	_, err = New().Command(adapters.Launch{Home: "/srv/home"})
	require.Error(t, err)
	_, err = New().Command(adapters.Launch{Program: "/codex", Home: "/srv/home", Permission: "maybe"})
	require.ErrorContains(t, err, "permission")
}

func TestScript(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		`"/bin/bash -lc 'echo hi; pwd'"`:                 "echo hi; pwd",
		`"/bin/bash -lc \"printf '%s\\\\n' 'a b' > x\""`: `printf '%s\n' 'a b' > x`,
		`"/bin/bash -lc 'it'\"'\"'s'"`:                   "it's",
		`"/bin/bash -lc ls"`:                             "ls",
		`["/bin/bash","-lc","a && b"]`:                   "a && b",
		`["/work/bash","-lc","git status"]`:              "/work/bash -lc git status",
		`"/work/bash -lc 'git status'"`:                  "/work/bash -lc git status",
		`["bash","-c","git status"]`:                     "git status",
		`["gcc","-c","x.c"]`:                             "gcc -c x.c",
		`["git","status"]`:                               "git status",
		`"git status"`:                                   "git status",
		`"echo 'open"`:                                   "echo 'open",
		`null`:                                           "",
	} {
		require.Equal(t, want, script([]byte(command)), command)
	}
}
