package opencode

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/replay"
)

func say(tr adapters.Translator, line string) []event.Event {
	return tr.Step(traffic.Record{Dir: event.DirOut, Line: line})
}

func partOf(session, fields string) string {
	return `{"type":"message.part.updated","properties":{"sessionID":"` + session + `","part":{"sessionID":"` + session + `",` + fields + `}}}`
}

func messageOf(session, id, role string) string {
	return `{"type":"message.updated","properties":{"sessionID":"` + session + `","info":{"id":"` + id + `","role":"` + role + `"}}}`
}

// The stream has a pending block, deltas and the complete block; the database the
// complete block only; both fold to one state.
func TestR85TwoPathsOneReducer(t *testing.T) {
	t.Parallel()
	for e, err := range New().Parse([]adapters.Source{memory("x", replay.ReadFile(t, killedExport))}) {
		require.NoError(t, err)
		require.IsNotType(t, event.BlockDelta{}, e.Payload, "a database has no deltas")
	}
	live := recorded.Live(t, replay.ReadRecords(t, killedRecords))
	require.Equal(t, replay.JSON(t, strip(live)), replay.JSON(t, strip(recorded.Parsed(t, memory("x", replay.ReadFile(t, killedExport))))))
}

// strip removes times.
func strip(s reducer.State) any {
	data, _ := json.Marshal(s)
	var v any
	_ = json.Unmarshal(data, &v)
	var walk func(any) any
	walk = func(v any) any {
		switch x := v.(type) {
		case map[string]any:
			delete(x, "timestamp")
			delete(x, "durationMs")
			for k := range x {
				x[k] = walk(x[k])
			}
		case []any:
			for i := range x {
				x[i] = walk(x[i])
			}
		}
		return v
	}
	return walk(v)
}

// A user's message makes an upsert; a text an upsert and its deltas; a tool an
// upsert; the task tool a subagent; session.idle is idle.
func TestR87OpenCodeMapping(t *testing.T) {
	t.Parallel()
	tr, err := New().Translator(adapters.Launch{}, nil)
	require.NoError(t, err)
	say(tr, messageOf("s", "u", "user"))
	events := say(tr, partOf("s", `"id":"p0","messageID":"u","type":"text","text":"hi"`))
	require.Equal(t, []event.Type{"block:upsert"}, replay.Kinds(events))
	require.Equal(t, event.BlockUserMessage, events[0].Payload.(event.BlockUpsert).Block.Type)

	say(tr, messageOf("s", "a", "assistant"))
	require.Equal(t, []event.Type{"block:upsert"}, replay.Kinds(say(tr, partOf("s", `"id":"p1","messageID":"a","type":"text","text":""`))))
	require.Equal(t, []event.Type{"block:delta"}, replay.Kinds(say(tr,
		`{"type":"message.part.delta","properties":{"sessionID":"s","messageID":"a","partID":"p1","field":"text","delta":"x"}}`)))
	events = say(tr, partOf("s", `"id":"p1","messageID":"a","type":"text","text":"x","time":{"start":1,"end":2}`))
	require.Equal(t, event.StatusComplete, events[0].Payload.(event.BlockUpsert).Block.Status)

	tool := func(state string) string {
		return partOf("s", `"id":"p2","messageID":"a","type":"tool","tool":"task","callID":"c","state":{`+state+`}`)
	}
	require.Equal(t, []event.Type{"block:upsert"}, replay.Kinds(say(tr, tool(`"status":"pending","input":{}`))))
	require.Contains(t, replay.Kinds(say(tr, tool(`"status":"running","input":{"prompt":"p"}`))), event.TypeOf(event.SubagentSpawned{}))
	events = say(tr, tool(`"status":"running","input":{"prompt":"p"},"metadata":{"sessionId":"k"}`))
	require.Equal(t, event.SubagentSpawned{ToolUseID: "c", AgentID: "k", Prompt: "p"}, events[0].Payload)
	say(tr, messageOf("k", "b", "assistant"))
	events = say(tr, partOf("k", `"id":"p3","messageID":"b","type":"text","text":"in","time":{"start":1,"end":2}`))
	require.Equal(t, "c", events[0].Context.ConversationID)
	for _, e := range say(tr, `{"type":"session.idle","properties":{"sessionID":"k"}}`) {
		require.Equal(t, "c", e.Context.ConversationID, "a subagent's idle is not the turn's end")
	}
	events = say(tr, tool(`"status":"completed","input":{"prompt":"p"},"output":"<task id=\"k\">\n<task_result>\nout\n</task_result>\n</task>","metadata":{"sessionId":"k"}`))
	done := events[len(events)-1].Payload.(event.SubagentCompleted)
	require.Equal(t, "out", *done.Output)
	require.Equal(t, event.SubagentCompletedOK, done.Status)

	say(tr, `{"type":"message.updated","properties":{"sessionID":"s","info":{"id":"a","role":"assistant","finish":"stop","time":{"completed":1}}}}`)
	events = say(tr, `{"type":"session.idle","properties":{"sessionID":"s"}}`)
	require.Equal(t, []event.Type{"session:idle"}, replay.Kinds(events))
	require.Equal(t, event.Main, events[0].Context.Conversation())
	require.Empty(t, say(tr, `{"type":"session.idle","properties":{"sessionID":"s"}}`), "idle is told once")
}

// One record makes zero or more events, and the same record at the same state the
// same events.
func TestR88ConverterShape(t *testing.T) {
	t.Parallel()
	recorded.SameAtEveryState(t, replay.ReadRecords(t, killedRecords), killedRecords)
	events, _ := recorded.Step(t, nil, []traffic.Record{{Dir: event.DirOut, Line: `{"type":"server.heartbeat","properties":{}}`}})
	require.Empty(t, events)
}

// Server-sent events are read, and the export has the sessions of subagents.
func TestR92OpenCodeAdapter(t *testing.T) {
	t.Parallel()
	live := recorded.Live(t, replay.ReadRecords(t, killedRecords))
	require.Len(t, live.Subagents, 1)
	require.NotEmpty(t, live.Subagents[0].Blocks)
	lines, _ := export(t, homeOf(t, replay.ReadFile(t, killedExport), "/mnt/other"), nil)
	restored := recorded.Parsed(t, memory("x", lines))
	require.Len(t, restored.Subagents, 1)
	require.Len(t, restored.Subagents[0].Blocks, len(live.Subagents[0].Blocks))
}

// The home determines whether a session is new or resumed.
func TestR93NewOrResume(t *testing.T) {
	t.Parallel()
	l := launch()
	empty, err := adapters.OpenHome(t.TempDir())
	require.NoError(t, err)
	found, err := New().Prepare(empty, l)
	require.NoError(t, err)
	require.Empty(t, found.NativeID)
	found, err = New().Prepare(homeOf(t, replay.ReadFile(t, killedExport), l.Workspace), l)
	require.NoError(t, err)
	require.Equal(t, "ses_00ab00ab00abChosen00000001", found.NativeID, "a session that came from another is gone on with")
	require.Equal(t, New().NativeID("s1", 1), New().NativeID("s1", 1))
	require.NotEqual(t, New().NativeID("s1", 1), New().NativeID("s1", 2))
	require.Regexp(t, `^ses_[0-9a-f]{26}$`, New().NativeID("s1", 1))
}

// Transcripts are read without any sandbox: a home, a file, an export.
func TestR94StaticParsing(t *testing.T) {
	t.Parallel()
	home := homeOf(t, replay.ReadFile(t, killedExport), killedDir)
	in, err := home.Open(database)
	require.NoError(t, err)
	defer in.Close()
	file := in.(interface{ Name() string }).Name()
	dir := strings.TrimSuffix(file, filepath.FromSlash(database))
	export, err := filepath.Abs(killedExport)
	require.NoError(t, err)
	for _, path := range []string{dir, file, export} {
		sources, err := adapters.SourcesFrom(New(), path)
		require.NoError(t, err)
		require.Len(t, recorded.Parsed(t, sources...).Subagents, 1, path)
	}
}

// Everything of a profile is where the agent looks for it.
func TestR96ProfileFiles(t *testing.T) {
	t.Parallel()
	p := adapters.Profile{
		Instructions: "be kind", Rules: map[string]string{"style": "short"},
		Skills:     map[string]map[string]string{"sum": {"SKILL.md": "---\nname: sum\n---\n", "a/b.txt": "x"}},
		Subagents:  map[string]string{"rev": "---\nname: rev\ndescription: d\ntools: Bash, Read\nmodel: opus\n---\nReview.\n"},
		Commands:   map[string]string{"fix": "---\ndescription: d\nallowed-tools: Bash\n---\nFix $ARGUMENTS\n"},
		MCPServers: map[string]adapters.MCPServer{"in": {Command: "srv", Args: []string{"-x"}}, "out": {URL: "http://h", Headers: map[string]string{"A": "b"}}},
		BundledMCP: map[string]adapters.BundledMCP{"kit": {Files: map[string]string{"s.sh": "x"}, Start: []string{"sh", "s.sh"}}},
		Workspace:  map[string]string{"docs/a.txt": "a"}, Permission: adapters.PermissionAsk,
	}
	l := launch()
	l.Permission, l.Model = "", "anthropic/claude"
	l.Env = map[string]string{"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_API_KEY": "sk-secret"}
	files, err := New().ProfileFiles(p, l)
	require.NoError(t, err)
	byPath := map[string]string{}
	for _, f := range files {
		byPath[string(f.Base)+" "+f.Path] = string(f.Data)
		require.NotContains(t, string(f.Data), "sk-secret", "keys are named and never written")
	}
	require.Equal(t, "be kind", byPath["home .config/opencode/AGENTS.md"])
	require.Equal(t, "x", byPath["home .config/opencode/skills/sum/a/b.txt"])
	require.Equal(t, "---\ndescription: d\nmode: subagent\n---\nReview.\n", byPath["home .config/opencode/agents/rev.md"])
	require.Equal(t, "---\ndescription: d\n---\nFix $ARGUMENTS\n", byPath["home .config/opencode/commands/fix.md"])
	require.Equal(t, "a", byPath["workspace docs/a.txt"])
	require.Equal(t, "x", byPath["home .sojourn/mcp/kit/s.sh"])
	var c config
	require.NoError(t, json.Unmarshal([]byte(byPath["home .config/opencode/opencode.json"]), &c))
	require.Equal(t, []string{"/home/box/work/AGENTS.md", "/home/box/.config/opencode/rules/style.md"}, c.Instructions)
	require.NotContains(t, byPath["home .config/opencode/opencode.json"], "permission", "each process gets the rules of its start")
	require.Equal(t, []string{"srv", "-x"}, c.MCP["in"].Command)
	require.Equal(t, "http://h", c.MCP["out"].URL)
	require.Equal(t, "/home/box/.sojourn/mcp/kit", c.MCP["kit"].Command[3])
	require.Equal(t, "http://127.0.0.1:1/v1", c.Provider["anthropic"].Options["baseURL"])
	require.Equal(t, "{env:ANTHROPIC_API_KEY}", c.Provider["anthropic"].Options["apiKey"])
	require.False(t, c.Autoupdate)
}

// No name of a profile leads out of its folder.
func TestR97ProfilePathsAreSafe(t *testing.T) {
	t.Parallel()
	for _, p := range []adapters.Profile{
		{Rules: map[string]string{"../x": ""}}, {Subagents: map[string]string{"/x": ""}}, {Commands: map[string]string{"a/../../b": ""}},
		{Skills: map[string]map[string]string{"s": {"SKILL.md": "", "../x": ""}}}, {Workspace: map[string]string{`..\x`: ""}},
	} {
		_, err := New().ProfileFiles(p, launch())
		require.ErrorContains(t, err, "opencode: profile: field")
	}
}

// The adapter knows paths, transcripts, profile files, execution and parsing.
func TestR89AdapterInterface(t *testing.T) {
	t.Parallel()
	var a adapters.Adapter = New()
	c, err := a.Command(launch())
	require.NoError(t, err)
	require.Equal(t, "serve", c.Argv[1])
	require.Equal(t, launch().Workspace, c.Dir)
	require.Equal(t, passwordVariable, c.HTTP.PasswordEnv)
	require.Equal(t, "/home/box/.local/share", c.Env["XDG_DATA_HOME"])
	_, err = a.Command(adapters.Launch{})
	require.ErrorContains(t, err, "must be given")
	l := launch()
	l.Model = "sonnet"
	_, err = a.Command(l)
	require.ErrorIs(t, err, adapters.ErrUnsupported)
	_, err = a.Locate(func(string) string { return "" })
	require.ErrorIs(t, err, adapters.ErrNotInstalled)
	require.True(t, slices.ContainsFunc(a.Info().Limits, func(s string) bool { return strings.Contains(s, "ripgrep") }))
	require.NotEmpty(t, New().Info().Variables)
}

// A key of a subagent's file that another agent writes in a form that keeps this one from
// starting is left out; in its own form it is kept.
func TestToolsInTheFormOfOthers(t *testing.T) {
	t.Parallel()
	for tools, kept := range map[string]bool{
		"tools: Read, Bash": false, "tools: [Read]": false, "tools:\n  - Read\n  - Bash": false, "tools:\n- Read\n- Bash": false,
		"tools:\n\n  # two\n  - Read": false, "tools:\n  bash: allow": false,
		"tools:\n  bash: false\n  # no\n  \"my_*\": true # yes": true,
	} {
		files, err := New().ProfileFiles(adapters.Profile{Subagents: map[string]string{
			"rev": "---\ndescription: d\n" + tools + "\nhidden: true\n---\nReview.\n",
		}}, launch())
		require.NoError(t, err)
		at := slices.IndexFunc(files, func(f adapters.File) bool { return strings.HasSuffix(f.Path, "rev.md") })
		want := "---\ndescription: d\nhidden: true\nmode: subagent\n---\nReview.\n"
		if kept {
			want = strings.Replace(want, "\nhidden", "\n"+tools+"\nhidden", 1)
		}
		require.Equal(t, want, string(files[at].Data), tools)
	}
}
