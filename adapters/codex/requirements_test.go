package codex

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/test/replay"
)

// The stream has a pending block, deltas and the complete block; the transcript
// the complete block only; both fold to one state.
func TestR85TwoPathsOneReducer(t *testing.T) {
	t.Parallel()
	of := map[string][]string{}
	for _, e := range recorded.Told(t, "thinking") {
		switch p := e.Payload.(type) {
		case event.BlockUpsert:
			if p.Block.Type == event.BlockAssistantText && p.Block.Status != "" { // one without tells the usage
				of[p.Block.ID] = append(of[p.Block.ID], "upsert "+string(p.Block.Status))
			}
		case event.BlockDelta:
			of[p.BlockID] = append(of[p.BlockID], "delta")
		}
	}
	emitted := 0
	for _, steps := range of {
		if steps[0] != "delta" {
			emitted++
			require.Equal(t, "upsert pending", steps[0])
			require.Equal(t, "upsert complete", steps[len(steps)-1])
			require.Contains(t, steps, "delta")
		}
	}
	require.NotZero(t, emitted)
	for _, file := range replay.ReadStories(t) {
		for e, err := range New().Parse(recorded.StorySources(file)) {
			require.NoError(t, err)
			require.IsNotType(t, event.BlockDelta{}, e.Payload, "a transcript has no deltas")
			if u, ok := e.Payload.(event.BlockUpsert); ok {
				require.Contains(t, []event.BlockStatus{event.StatusComplete, event.StatusError, ""}, u.Block.Status)
			}
		}
	}
}

// One native event makes zero or more events, by a translator whose state is JSON
// and made of records alone.
func TestR88ConverterShape(t *testing.T) {
	t.Parallel()
	tr, err := New().Translator(adapters.Launch{}, nil)
	require.NoError(t, err)
	require.Empty(t, tr.Step(traffic.Record{Dir: event.DirOut, Line: `{"method":"thread/readState/changed","params":{}}`}))
	require.Len(t, tr.Step(traffic.Record{Dir: event.DirOut, Line: `{"method":"warning","params":{"message":"w"}}`}), 1)
	state, err := tr.State()
	require.NoError(t, err)
	again, err := New().Translator(adapters.Launch{}, state)
	require.NoError(t, err)
	same, err := again.State()
	require.NoError(t, err)
	require.JSONEq(t, string(state), string(same))
}

// This adapter has what every adapter must have: paths, distinct transcripts,
// profile files, parsed transcripts.
func TestR89AdapterInterface(t *testing.T) {
	t.Parallel()
	var a adapters.Adapter = New()
	require.Equal(t, Name, a.Info().Name)
	dir := t.TempDir()
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	main, sub := "11111111-1111-5111-8111-111111111111", "22222222-2222-5222-8222-222222222222"
	for id, parent := range map[string]string{main: "", sub: main} {
		line := object(map[string]any{"type": lineMeta, "payload": map[string]any{"id": id, "parent_thread_id": parent}})
		write(t, dir, ".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-"+id+".jsonl", string(line)+"\n")
	}
	found, err := a.Transcripts(home, adapters.Launch{NativeID: main})
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, event.Main, found[0].ID)
	require.Equal(t, sub, found[1].ID)
	require.Equal(t, found[0].Path, a.Place(found[0], adapters.Launch{Workspace: "/elsewhere"}))
	other, err := a.Transcripts(home, adapters.Launch{NativeID: "33333333-3333-5333-8333-333333333333"})
	require.NoError(t, err)
	require.Empty(t, other)
	alone, err := adapters.SourcesFrom(a, filepath.Join(dir, filepath.FromSlash(found[1].Path)))
	require.NoError(t, err)
	require.Len(t, alone, 1)
	require.Equal(t, sub, alone[0].ID, "a subagent's file is recognised by its first line")
}

// A session is started and resumed with the chosen id; the home determines which
// of the two.
func TestR93NewVsResume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	l := adapters.Launch{Program: "/codex", Home: dir, Workspace: "/srv/project", NativeID: New().NativeID("s", 1)}
	require.Equal(t, l.NativeID, New().NativeID("s", 1))
	require.NotEqual(t, l.NativeID, New().NativeID("s", 2))
	fresh, err := New().Prepare(home, l)
	require.NoError(t, err)
	require.Len(t, fresh.Write, 1, "a new session has a rollout of one line")
	require.Contains(t, fresh.Write[0].Path, l.NativeID)
	write(t, dir, fresh.Write[0].Path, replay.Repaired(t, home, fresh.Write[0]))
	again, err := New().Prepare(home, l)
	require.NoError(t, err)
	require.Empty(t, again.Write)
	require.Equal(t, l.NativeID, again.NativeID)

	tr, err := New().Translator(l, nil)
	require.NoError(t, err)
	line := openThread(t, tr)
	require.Contains(t, line, `"method":"thread/resume"`)
	require.Contains(t, line, l.NativeID)
}

// openThread steps a translator through initialize, and returns the request for
// the thread.
func openThread(t testing.TB, tr adapters.Translator) string {
	t.Helper()
	hello, err := tr.Encode("initialize-0", adapters.Initialize{})
	require.NoError(t, err)
	tr.Step(traffic.Record{Dir: event.DirIn, Line: string(hello[0].Data)})
	require.Empty(t, tr.Due())
	tr.Step(traffic.Record{Dir: event.DirOut, Line: `{"id":"initialize-0","result":{"userAgent":"x"}}`})
	due := tr.Due()
	require.Len(t, due, 2)
	require.Empty(t, tr.Due(), "a message is due once")
	require.JSONEq(t, `{"method":"initialized"}`, string(due[0].Data))
	return string(due[1].Data)
}

// Transcripts are parsed without any sandbox or program.
func TestR94StaticParsing(t *testing.T) {
	t.Parallel()
	sources := recorded.StorySources(replay.ReadStory(t, "approvals"))
	require.NotEmpty(t, sources)
	require.NotEmpty(t, recorded.Parsed(t, sources...).Blocks)
}

// The profile's files are where the agent looks for them.
func TestR96ProfileFiles(t *testing.T) {
	t.Parallel()
	files := profileFiles(t)
	for _, path := range []string{
		".codex/AGENTS.md", ".codex/config.toml", ".codex/skills/sk/SKILL.md", ".codex/skills/sk/more/x.md",
		".codex/skills/deploy/SKILL.md", ".codex/agents/reviewer.toml", ".sojourn/mcp/bun/s.py", "README.md",
	} {
		require.Contains(t, files, path)
	}
	require.Equal(t, "Be brief.\n\n# style\n\nNo tabs.\n", files[".codex/AGENTS.md"])
}

// Every content of a profile is in one of them.
func TestR97ProfileContents(t *testing.T) {
	t.Parallel()
	files := profileFiles(t)
	require.Equal(t, "name = \"reviewer\"\ndescription = \"Looks twice\"\ndeveloper_instructions = \"You review.\\n\"\n", files[".codex/agents/reviewer.toml"])
	require.Contains(t, files[".codex/skills/deploy/SKILL.md"], "Push it.")
	require.Contains(t, files[".codex/skills/deploy/SKILL.md"], `description: "What to do when the user writes /deploy."`)
	conf := files[".codex/config.toml"]
	for _, want := range []string{
		`model = "m1"`, `approval_policy = "never"`, `check_for_update_on_startup = false`,
		"[mcp_servers.local]\n", `env = { A = "b\"c" }`, "[mcp_servers.remote]\n", `http_headers = { X-Key = "v" }`, `url = "https://mcp.test"`,
		"[mcp_servers.bun]\n", `"/srv/home/.sojourn/mcp/bun", "python3", "s.py"`, "[analytics]\nenabled = false",
		`base_url = "http://model.test/v1"`, `env_key = "OPENAI_API_KEY"`,
	} {
		require.Contains(t, conf, want)
	}
	require.NotContains(t, conf, "sk-secret", "a key stays in the environment")
	_, err := New().ProfileFiles(adapters.Profile{Rules: map[string]string{"../x": ""}}, adapters.Launch{})
	require.ErrorContains(t, err, "rules")
}

func profileFiles(t *testing.T) map[string]string {
	t.Helper()
	files, err := New().ProfileFiles(adapters.Profile{
		Instructions: "Be brief.\n", Rules: map[string]string{"style": "No tabs.\n"},
		Skills:    map[string]map[string]string{"sk": {"SKILL.md": "s", "more/x.md": "x"}},
		Commands:  map[string]string{"deploy": "Push it.\n", "sk": "taken"},
		Subagents: map[string]string{"reviewer": "---\nname: reviewer\ndescription: 'Looks twice'\n---\n\nYou review.\n"},
		MCPServers: map[string]adapters.MCPServer{
			"local":  {Command: "mcp", Args: []string{"-x"}, Env: map[string]string{"A": `b"c`}},
			"remote": {URL: "https://mcp.test", Headers: map[string]string{"X-Key": "v"}},
		},
		BundledMCP: map[string]adapters.BundledMCP{"bun": {Files: map[string]string{"s.py": "py"}, Start: []string{"python3", "s.py"}}},
		Workspace:  map[string]string{"README.md": "hi"},
		Model:      "m1",
	}, adapters.Launch{
		Home: "/srv/home", Workspace: "/srv/project", Permission: adapters.PermissionAllow,
		Env: map[string]string{envBaseURL: "http://model.test/v1", envKey: "sk-secret"},
	})
	require.NoError(t, err)
	out := map[string]string{}
	for _, f := range files {
		require.NotContains(t, out, f.Path)
		out[f.Path] = string(f.Data)
	}
	return out
}

// npm puts a script into PATH; the program beside it is used.
func TestLocateNative(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	native := "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
	for _, path := range []string{"node_modules/@openai/codex/bin/codex.js", native} {
		full := filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o700))
		require.NoError(t, os.WriteFile(full, []byte("#!/bin/sh\n"), 0o700))
	}
	bin := filepath.Join(dir, "node_modules", ".bin")
	require.NoError(t, os.MkdirAll(bin, 0o700))
	require.NoError(t, os.Symlink("../@openai/codex/bin/codex.js", filepath.Join(bin, "codex")))
	env := map[string]string{"PATH": bin}
	found, err := New().Locate(func(name string) string { return env[name] })
	require.NoError(t, err)
	want, err := filepath.EvalSymlinks(filepath.Join(dir, native))
	require.NoError(t, err)
	require.Equal(t, want, found)

	_, err = New().Locate(func(string) string { return "" })
	require.ErrorIs(t, err, adapters.ErrNotInstalled)
	require.ErrorContains(t, err, ProgramVariable)
}
