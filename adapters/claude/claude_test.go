package claude

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

func launch() adapters.Launch {
	return adapters.Launch{
		Program: "/bin/claude", Home: "/home/agent", Workspace: "/work space",
		SessionID: "s1", NativeID: New().NativeID("s1", 1),
	}
}

// Claude's sessions have an architecture's name, and their records a profile.
func TestR13ArchitectureTyped(t *testing.T) {
	t.Parallel()
	info := New().Info()
	require.Equal(t, "claude", info.Name)
	require.Equal(t, "claude-agent-sdk", info.Architecture)
	require.True(t, info.Capabilities.LiveSubagents)
}

// The native session id is a UUID, chosen by us, one per native session.
func TestR14NativeSessionID(t *testing.T) {
	t.Parallel()
	a := New()
	first := a.NativeID("any-id_1", 1)
	parsed, err := uuid.Parse(first)
	require.NoError(t, err)
	require.Equal(t, uuid.Version(5), parsed.Version())
	require.Equal(t, first, a.NativeID("any-id_1", 1))
	require.NotEqual(t, first, a.NativeID("any-id_1", 2))
	require.NotEqual(t, first, a.NativeID("any-id_2", 1))
}

// A new session is begun with --session-id, else resumed with --resume.
func TestR93NewOrResume(t *testing.T) {
	t.Parallel()
	l := launch()
	fresh, err := New().Command(l)
	require.NoError(t, err)
	require.Equal(t, l.NativeID, following(fresh.Argv, "--session-id"))
	require.NotContains(t, fresh.Argv, "--resume")
	l.Resume = true
	again, err := New().Command(l)
	require.NoError(t, err)
	require.Equal(t, l.NativeID, following(again.Argv, "--resume"))
	require.NotContains(t, again.Argv, "--session-id")
}

func following(argv []string, flag string) string {
	at := slices.Index(argv, flag)
	if at < 0 || at+1 == len(argv) {
		return ""
	}
	return argv[at+1]
}

func TestCommandIsolates(t *testing.T) {
	t.Parallel()
	l := launch()
	l.Model = "opus"
	c, err := New().Command(l)
	require.NoError(t, err)
	require.Equal(t, "/work space", c.Dir)
	require.Equal(t, "opus", following(c.Argv, "--model"))
	require.Contains(t, c.Argv, "--dangerously-skip-permissions")
	require.Equal(t, "stdio", following(c.Argv, "--permission-prompt-tool"), "it may be told to ask later")
	require.Equal(t, "/home/agent", c.Env["HOME"])
	require.Equal(t, "/home/agent/.claude", c.Env["CLAUDE_CONFIG_DIR"])
	for _, name := range []string{"IS_SANDBOX", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"} {
		require.Equal(t, "1", c.Env[name], name)
	}
}

func TestCommandPermissions(t *testing.T) {
	t.Parallel()
	for _, p := range []adapters.Permission{adapters.PermissionAsk, adapters.PermissionDeny} {
		l := launch()
		l.Permission = p
		c, err := New().Command(l)
		require.NoError(t, err)
		require.Equal(t, "stdio", following(c.Argv, "--permission-prompt-tool"))
		require.NotContains(t, c.Argv, "--dangerously-skip-permissions")
		require.Equal(t, "user", following(c.Argv, "--setting-sources"), "not the workspace's")
	}
	l := launch()
	l.Permission = "sometimes"
	_, err := New().Command(l)
	require.ErrorContains(t, err, `"sometimes", want allow, ask or deny`)
	_, err = New().Command(adapters.Launch{})
	require.ErrorContains(t, err, "must be given")
}

func TestLocate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "claude")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	env := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

	found, err := New().Locate(env(map[string]string{"PATH": "relative" + string(os.PathListSeparator) + dir}))
	require.NoError(t, err)
	require.Equal(t, program, found)
	found, err = New().Locate(env(map[string]string{ProgramVariable: program}))
	require.NoError(t, err)
	require.Equal(t, program, found)
	_, err = New().Locate(env(map[string]string{"PATH": t.TempDir()}))
	require.ErrorIs(t, err, adapters.ErrNotInstalled)
	require.ErrorContains(t, err, "npm install")
	_, err = New().Locate(env(map[string]string{ProgramVariable: dir + "/nothing", "PATH": dir}))
	require.ErrorIs(t, err, adapters.ErrNotInstalled)
}

func TestMessageUUID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0190163d-8694-739b-aea5-966c26f8ad91", MessageUUID("0190163D-8694-739b-aea5-966c26f8ad91"))
	made := MessageUUID("msg-1")
	require.NoError(t, uuid.Validate(made))
	require.Equal(t, made, MessageUUID("msg-1"))
	require.NotEqual(t, made, MessageUUID("msg-2"))
}

func TestEncode(t *testing.T) {
	t.Parallel()
	plain := adapters.Launch{}
	for _, c := range []struct {
		want   string
		launch adapters.Launch
		id     string
		in     adapters.Input
	}{
		{`{"request":{"forwardSubagentText":true,"subtype":"initialize"},"request_id":"r1","type":"control_request"}`, plain, "r1", adapters.Initialize{}},
		{`{"request":{"appendSystemPrompt":"be kind","forwardSubagentText":true,"subtype":"initialize"},"request_id":"r","type":"control_request"}`, adapters.Launch{SystemPrompt: "be kind"}, "r", adapters.Initialize{}},
		{`{"request":{"subtype":"interrupt"},"request_id":"r2","type":"control_request"}`, plain, "r2", adapters.Interrupt{}},
		{`{"request":{"model":"haiku","subtype":"set_model"},"request_id":"r3","type":"control_request"}`, plain, "r3", adapters.SetModel{Model: "haiku"}},
		{`{"request":{"mode":"bypassPermissions","subtype":"set_permission_mode"},"request_id":"r4","type":"control_request"}`, plain, "r4", adapters.SetPermission{Permission: adapters.PermissionAllow}},
		{`{"request":{"mode":"default","subtype":"set_permission_mode"},"request_id":"r4","type":"control_request"}`, plain, "r4", adapters.SetPermission{Permission: adapters.PermissionDeny}},
		{`{"response":{"request_id":"q","response":{"behavior":"deny","message":"no"},"subtype":"success"},"type":"control_response"}`, plain, "a", adapters.Answer{RequestID: "q", Message: "no"}},
		{`{"response":{"request_id":"q","response":{"behavior":"allow","updatedInput":{"a":1}},"subtype":"success"},"type":"control_response"}`, plain, "a", adapters.Answer{RequestID: "q", Allow: true, Input: json.RawMessage(`{"a":1}`)}},
		{`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"hi"}]},"parent_tool_use_id":null}`, plain, "p", adapters.Prompt{Text: "hi"}},
		{
			`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"data":"QQ==","media_type":"image/png","type":"base64"}}]},"parent_tool_use_id":null,"session_id":"n","uuid":"11111111-1111-4111-8111-111111111111"}`,
			adapters.Launch{NativeID: "n"}, "p",
			adapters.Prompt{
				MessageID: "11111111-1111-4111-8111-111111111111", Text: "see",
				Parts: []event.Part{{Type: "image", MediaType: "image/png", Data: "QQ=="}},
			},
		},
	} {
		got, err := encode(c.launch, c.id, c.in)
		require.NoError(t, err)
		require.Equal(t, c.want, string(got))
		require.NotContains(t, string(got), "\n")
	}
}

func TestEncodeRefusals(t *testing.T) {
	t.Parallel()
	_, err := encode(adapters.Launch{}, "i", adapters.Answer{RequestID: "q", Allow: true})
	require.ErrorContains(t, err, `"Input" is missing`)
	_, err = encode(adapters.Launch{}, "i", adapters.Prompt{Parts: []event.Part{{Type: "smell"}}})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
	_, err = encode(adapters.Launch{}, "i", adapters.SetPermission{Permission: "plan"})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
}

// The translator reads what is written as the prompt.
func TestPromptRoundTrip(t *testing.T) {
	t.Parallel()
	in := adapters.Prompt{MessageID: "m1", Text: "two\nlines", Parts: []event.Part{{Type: "image", URL: "https://example.com/a.png"}}}
	line, err := encode(adapters.Launch{}, "p", in)
	require.NoError(t, err)
	tr, err := New().Translator(adapters.Launch{}, nil)
	require.NoError(t, err)
	events := tr.Step(traffic.Record{Dir: event.DirIn, Line: string(line)})
	require.Len(t, events, 1)
	b := events[0].Payload.(event.BlockUpsert).Block
	require.Equal(t, MessageUUID("m1"), b.ID)
	require.Equal(t, "two\nlines", *b.Content)
	require.Equal(t, "https://example.com/a.png", b.Parts[1].URL)
}

func TestTranslatorStateRefusals(t *testing.T) {
	t.Parallel()
	_, err := New().Translator(adapters.Launch{}, json.RawMessage(`{`))
	require.ErrorContains(t, err, "translator state")
	_, err = New().Translator(adapters.Launch{}, json.RawMessage(`{"v":99}`))
	require.ErrorContains(t, err, "version 99, want 1")
}

func TestSlug(t *testing.T) {
	t.Parallel()
	require.Equal(t, "-srv-a-b-c--", slug("/srv/a.b_c/ü"))
	require.False(t, strings.ContainsAny(slug("/x/y z"), "/ "))
}
