package claude

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// The stream has a pending block, deltas and the complete block; the transcript
// the complete block only; both fold to one state.
func TestR85TwoPathsOneReducer(t *testing.T) {
	t.Parallel()
	var of []string
	for _, e := range recorded.Told(t, "text") {
		switch p := e.Payload.(type) {
		case event.BlockUpsert:
			if p.Block.ID == "m1:0" {
				of = append(of, "upsert "+string(p.Block.Status))
			}
		case event.BlockDelta:
			of = append(of, "delta")
		}
	}
	require.Equal(t, []string{"upsert pending", "delta", "delta", "delta", "upsert complete"}, of)
	live, err := reducer.Fold(replay.Sequence(recorded.Told(t, "text")))
	require.NoError(t, err)
	restored := recorded.Parsed(t, recorded.StorySources(replay.ReadStory(t, "text"))...)
	replay.Same(t, live, restored, parity.Rules{})
	require.NotEmpty(t, live.Blocks)

	for _, tr := range transcripts(t) {
		for e, err := range New().Parse(tr.Sources) {
			require.NoError(t, err)
			require.IsNotType(t, event.BlockDelta{}, e.Payload, "a transcript has no deltas")
			if u, ok := e.Payload.(event.BlockUpsert); ok {
				require.NotEqual(t, event.StatusPending, u.Block.Status, "a transcript has whole blocks")
			}
		}
	}
}

// A text's start is an upsert, its deltas are deltas; the Agent tool is
// spawned; the result with the agent's id is completed; the end is an upsert.
func TestR86ClaudeMapping(t *testing.T) {
	t.Parallel()
	step := func(tr adapters.Translator, line string) []event.Event {
		return tr.Step(traffic.Record{Dir: event.DirOut, Line: line})
	}
	tr, err := New().Translator(adapters.Launch{}, nil)
	require.NoError(t, err)
	step(tr, `{"type":"stream_event","event":{"type":"message_start","message":{"id":"m","model":"x"}}}`)
	require.Equal(t, []event.Type{"block:upsert"}, replay.Kinds(step(tr,
		`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}`)))
	require.Equal(t, []event.Type{"block:delta"}, replay.Kinds(step(tr,
		`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}}`)))
	require.Equal(t, []event.Type{"block:upsert"}, replay.Kinds(step(tr,
		`{"type":"assistant","uuid":"a","message":{"id":"m","content":[{"type":"text","text":"x"}]}}`)))
	require.Contains(t, replay.Kinds(step(tr,
		`{"type":"assistant","uuid":"b","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Task","input":{"prompt":"p"}}]}}`)),
		event.TypeOf(event.SubagentSpawned{}))
	done := step(tr, `{"type":"user","uuid":"c","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"out"},{"type":"text","text":"agentId: a1 (…)"}]}]}}`)
	last := done[len(done)-1].Payload.(event.SubagentCompleted)
	require.Equal(t, "out", *last.Output)
	require.Equal(t, "a1", last.AgentID)
	require.Equal(t, event.SubagentCompletedOK, last.Status)
}

// TestR54HooksAndSignInAreNative: the agent's lines about its hooks and its
// sign-in are kept whole, and make no block.
func TestR54HooksAndSignInAreNative(t *testing.T) {
	t.Parallel()
	for kind, line := range map[string]string{
		"system/hook_response": `{"type":"system","subtype":"hook_response","hook_name":"SessionStart","stdout":"hi"}`,
		"auth_status":          `{"type":"auth_status","isAuthenticating":false}`,
	} {
		tr, err := New().Translator(adapters.Launch{}, nil)
		require.NoError(t, err)
		events := tr.Step(traffic.Record{Dir: event.DirOut, Line: line})
		require.Len(t, events, 1, kind)
		p, is := events[0].Payload.(event.Native)
		require.True(t, is, "%s: %T", kind, events[0].Payload)
		require.Equal(t, kind, p.Kind)
		require.JSONEq(t, line, string(p.Raw))
	}
}

// One record makes zero or more events, and the same record at the same state the
// same events.
func TestR88ConverterShape(t *testing.T) {
	t.Parallel()
	for _, r := range recorded.Runs(t) {
		recorded.SameAtEveryState(t, r.Records, r.Name)
	}
	events, _ := recorded.Step(t, nil, []traffic.Record{{Dir: event.DirOut, Line: `{"type":"system","subtype":"thinking_tokens"}`}})
	require.Empty(t, events)
}

// The adapter knows paths, transcripts, profile files, execution and parsing.
func TestR89AdapterInterface(t *testing.T) {
	t.Parallel()
	var a adapters.Adapter = New()
	l := launch()
	c, err := a.Command(l)
	require.NoError(t, err)
	require.Equal(t, l.Program, c.Argv[0])
	files, err := a.ProfileFiles(adapters.Profile{Instructions: "x"}, l)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	own := ".claude/projects/-w/" + l.NativeID + ".jsonl"
	found, err := a.Transcripts(writeHome(t, map[string]string{own: "{}\n", ".claude/projects/-w/00000000.jsonl": "{}\n"}), l)
	require.NoError(t, err)
	require.Equal(t, []adapters.Transcript{{ID: event.Main, Path: own, Kind: adapters.Append}}, found, "the session's own")
	none, err := a.Transcripts(writeHome(t, nil), l)
	require.NoError(t, err)
	require.Empty(t, none, "a home without transcripts is no error")
}

func writeHome(t *testing.T, files map[string]string) adapters.DirHome {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	return home
}

// Transcripts are at (home)/.claude/projects/<workspace>, one file for the
// session and one for each subagent.
func TestR90ClaudePaths(t *testing.T) {
	t.Parallel()
	l := launch()
	dir := ".claude/projects/" + slug(l.Workspace) + "/" + l.NativeID
	found, err := New().Transcripts(writeHome(t, map[string]string{
		dir + ".jsonl":                                    "",
		dir + "/subagents/agent-a1.jsonl":                 "",
		dir + "/subagents/agent-a1.meta.json":             "{}",
		dir + "/subagents/notes.txt":                      "",
		".claude/projects/-else/other.jsonl":              "",
		".claude/projects/-else/" + l.NativeID + ".jsonl": "",
	}), l)
	require.NoError(t, err)
	require.Equal(t, []adapters.Transcript{
		{ID: event.Main, Path: dir + ".jsonl", Kind: adapters.Append},
		{ID: "a1", Path: dir + "/subagents/agent-a1.jsonl", Kind: adapters.Append},
		{ID: "a1.meta", Path: dir + "/subagents/agent-a1.meta.json", Kind: adapters.Snapshot},
	}, found)
}

// Transcripts are parsed without any sandbox: from memory, by the adapter with
// that name.
func TestR94StaticParsing(t *testing.T) {
	t.Parallel()
	a, err := adapters.New(New()).Get("claude")
	require.NoError(t, err)
	state, err := reducer.Fold(a.Parse([]adapters.Source{memory(event.Main,
		`{"type":"user","uuid":"u","message":{"content":"hi"}}`+"\n"+
			`{"type":"assistant","uuid":"a","message":{"id":"m","model":"x","content":[{"type":"text","text":"yo"}]}}`)}))
	require.NoError(t, err)
	require.Len(t, state.Blocks, 2)
	require.Equal(t, "yo", *state.Blocks[1].Content)
}

// A profile becomes CLAUDE.md, rules, skills, agents, commands and MCP
// servers in the agent's own folder.
func TestR96ProfileFiles(t *testing.T) {
	t.Parallel()
	l := launch()
	l.Permission = adapters.PermissionAllow
	files, err := New().ProfileFiles(adapters.Profile{
		Instructions: "be kind", Rules: map[string]string{"go/style": "short"},
		Skills:    map[string]map[string]string{"s": {"SKILL.md": "skill", "lib/x.py": "pass"}},
		Subagents: map[string]string{"reviewer": "review"}, Commands: map[string]string{"fix": "fix it"},
		MCPServers: map[string]adapters.MCPServer{"web": {URL: "https://example.com", Headers: map[string]string{"A": "b"}}},
		BundledMCP: map[string]adapters.BundledMCP{"kit": {Files: map[string]string{"main.js": "js"}, Start: []string{"node", "main.js"}}},
		Workspace:  map[string]string{"doc/a.md": "a"},
	}, l)
	require.NoError(t, err)
	got := map[string]string{}
	for _, f := range files {
		got[string(f.Base)+":"+f.Path] = string(f.Data)
	}
	for path, text := range map[string]string{
		"home:.claude/CLAUDE.md": "be kind", "home:.claude/rules/go/style.md": "short",
		"home:.claude/skills/s/SKILL.md": "skill", "home:.claude/skills/s/lib/x.py": "pass",
		"home:.claude/agents/reviewer.md": "review", "home:.claude/commands/fix.md": "fix it",
		"home:.sojourn/mcp/kit/main.js": "js", "workspace:doc/a.md": "a",
	} {
		require.Equal(t, text, got[path], path)
	}
	var global struct {
		MCPServers map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(got["home:.claude/.claude.json"]), &global))
	require.Equal(t, "http", global.MCPServers["web"]["type"])
	require.Equal(t, []any{"-c", `cd "$0" && exec "$@"`, "/home/agent/.sojourn/mcp/kit", "node", "main.js"}, global.MCPServers["kit"]["args"])
	require.Contains(t, got["home:.claude/settings.json"], "cleanupPeriodDays")
}

// No workspace is trusted, also not while the agent runs everything: it may have to ask later.
func TestUntrustedWorkspace(t *testing.T) {
	t.Parallel()
	for _, p := range []adapters.Permission{adapters.PermissionAllow, adapters.PermissionAsk} {
		l := launch()
		l.Permission = p
		files, err := New().ProfileFiles(adapters.Profile{}, l)
		require.NoError(t, err)
		for _, f := range files {
			require.NotContains(t, string(f.Data), "hasTrustDialogAccepted", p)
		}
	}
}

// Unsafe paths of a profile are refused, with the field.
func TestR97ProfilePathsAreSafe(t *testing.T) {
	t.Parallel()
	for field, p := range map[string]adapters.Profile{
		"field rules":       {Rules: map[string]string{"../../x": ""}},
		"field subagents":   {Subagents: map[string]string{"/etc/x": ""}},
		"field commands":    {Commands: map[string]string{`a\b`: ""}},
		"field workspace":   {Workspace: map[string]string{"a/./b": ""}},
		`skills[".."]`:      {Skills: map[string]map[string]string{"..": {"SKILL.md": ""}}},
		"SKILL.md":          {Skills: map[string]map[string]string{"s": {}}},
		`bundledMcp["a/b"]`: {BundledMCP: map[string]adapters.BundledMCP{"a/b": {Start: []string{"x"}}}},
		"start is empty":    {BundledMCP: map[string]adapters.BundledMCP{"a": {}}},
		"command or url":    {MCPServers: map[string]adapters.MCPServer{"m": {}}},
		"permission":        {Permission: "maybe"},
	} {
		_, err := New().ProfileFiles(p, launch())
		require.ErrorContains(t, err, field)
	}
}

// A broken line costs that line: the error names file and line, and the lines
// before and after it are parsed, also in the other files.
func TestParseSurvivesBrokenLines(t *testing.T) {
	t.Parallel()
	good := `{"type":"user","uuid":"u1","message":{"content":"one"}}`
	sources := []adapters.Source{memory(event.Main, good+"\n{broken\n\n"+strings.Replace(good, "u1", "u2", 1)+"\n"+`{"type":"user","uuid":"u3","message":{"cont`)}
	sources = append(sources, adapters.Source{
		Transcript: adapters.Transcript{ID: "gone", Path: "agent-gone.jsonl"},
		Open:       func() (io.ReadCloser, error) { return nil, os.ErrNotExist },
	})
	var faults []string
	b := reducer.NewBuilder(reducer.State{})
	for e, err := range New().Parse(sources) {
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		b.Add(e)
	}
	require.Len(t, faults, 3)
	require.Contains(t, faults[0], "main.jsonl: line 2")
	require.Contains(t, faults[1], "main.jsonl: line 5")
	require.Contains(t, faults[2], "agent-gone.jsonl")
	require.Len(t, b.State().Blocks, 2)
}

func TestParseStopsWhenAsked(t *testing.T) {
	recorded.StopsWhenAsked(t, memory(event.Main, "x\ny\n"+`{"type":"user","uuid":"u","message":{"content":"a"}}`))
}

func TestParseReadError(t *testing.T) { recorded.ReadError(t) }

// A line of 32 MiB is cut, and keeps its form: the same live and restored.
func TestLongLines(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("long ", 32<<20/5)
	line := `{"type":"assistant","uuid":"a","message":{"id":"m","model":"x","content":[{"type":"text","text":"` + text + `"}]}}`
	parsed, err := reducer.Fold(New().Parse([]adapters.Source{memory(event.Main, line)}))
	require.NoError(t, err)
	tr, err := New().Translator(adapters.Launch{}, nil)
	require.NoError(t, err)
	kept, cut := jsonl.CutLine([]byte(line))
	events := tr.Step(traffic.Record{Dir: event.DirOut, Line: string(kept), Cut: cut})
	live := events[0].Payload.(event.BlockUpsert).Block
	require.Equal(t, *parsed.Blocks[0].Content, *live.Content)
	require.Contains(t, *live.Content, fmt.Sprintf("… [cut: %d bytes, sha256 ", len(text)))
	last := events[len(events)-1].Payload.(event.Error)
	require.Equal(t, "cut", last.Code)
	require.Contains(t, last.Message, cut.String())
}

// A subagent's file alone is a conversation under the call that started it.
func TestParseSubagentAlone(t *testing.T) {
	t.Parallel()
	main := `{"type":"user","uuid":"u","message":{"content":"dig"}}`
	meta := memory("a1.meta", `{"toolUseId":"t1"}`)
	state, err := reducer.Fold(New().Parse([]adapters.Source{memory("a1", main), meta}))
	require.NoError(t, err)
	require.Equal(t, "t1", state.Subagents[0].ToolUseID)
	require.Equal(t, "t1:prompt", state.Subagents[0].Blocks[0].ID)
	state, err = reducer.Fold(New().Parse([]adapters.Source{memory("a1", main)}))
	require.NoError(t, err)
	require.Equal(t, "agent-a1", state.Subagents[0].ToolUseID)
	require.Len(t, state.Subagents[0].Blocks, 1)
	require.Equal(t, event.ExecutionSuccess, state.Subagents[0].Status)
}

// A subagent whose call is missing in the session's file died with the program
// before the call was written; its companion file has what it was.
func TestParseSubagentWithoutItsCall(t *testing.T) {
	t.Parallel()
	state, err := reducer.Fold(New().Parse([]adapters.Source{
		memory(event.Main, `{"type":"user","uuid":"u","promptSource":"sdk","message":{"content":"go"}}`),
		memory("a1", `{"type":"user","uuid":"v","message":{"content":"dig"}}`),
		memory("a1.meta", `{"toolUseId":"t1","agentType":"mini","description":"a hole"}`),
	}))
	require.NoError(t, err)
	require.Equal(t, event.ExecutionError, state.Subagents[0].Status)
	require.Equal(t, "dig", state.Subagents[0].Prompt)
	last := state.Blocks[len(state.Blocks)-1]
	require.Equal(t, []string{"mini", "a hole", "t1"}, []string{last.Name, last.Description, last.ToolUseID})
}
