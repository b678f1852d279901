package profiles_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/profiles"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func open(t *testing.T, files map[string]string, o profiles.Options) *profiles.Store {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	s, err := profiles.Open(dir, o)
	require.NoError(t, err)
	return s
}

// Profiles are listed and loaded by id; an unknown id is ErrNotFound.
func TestR98ProfileStore(t *testing.T) {
	t.Parallel()
	s := open(t, map[string]string{
		"reviewer/profile.json":            `{"name":"Reviewer","model":"opus","permission":"ask"}`,
		"reviewer/instructions.md":         "be kind",
		"reviewer/rules/style.md":          "short",
		"reviewer/skills/s/SKILL.md":       "skill",
		"reviewer/skills/s/lib/x.py":       "pass",
		"reviewer/agents/helper.md":        "help",
		"reviewer/commands/fix.md":         "fix it",
		"reviewer/mcp.json":                `{"mcpServers":{"web":{"url":"https://example.com","headers":{"Authorization":"Bearer ${TOKEN}"}}}}`,
		"reviewer/mcp/kit/server.json":     `{"start":["node","main.js"],"install":["npm","ci"]}`,
		"reviewer/mcp/kit/main.js":         "js",
		"reviewer/workspace/doc/readme.md": "read me",
		"plain/instructions.md":            "hi",
		"not an id/instructions.md":        "skipped",
		"README.md":                        "skipped",
	}, profiles.Options{})
	p, err := s.Load(t.Context(), "reviewer")
	require.NoError(t, err)
	require.Equal(t, adapters.Profile{
		ID: "reviewer", Name: "Reviewer", Model: "opus", Permission: adapters.PermissionAsk, Instructions: "be kind",
		Rules:     map[string]string{"style": "short"},
		Skills:    map[string]map[string]string{"s": {"SKILL.md": "skill", "lib/x.py": "pass"}},
		Subagents: map[string]string{"helper": "help"}, Commands: map[string]string{"fix": "fix it"},
		MCPServers: map[string]adapters.MCPServer{"web": {URL: "https://example.com", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}}},
		BundledMCP: map[string]adapters.BundledMCP{"kit": {Files: map[string]string{"main.js": "js"}, Start: []string{"node", "main.js"}, Install: []string{"npm", "ci"}}},
		Workspace:  map[string]string{"doc/readme.md": "read me"},
	}, p)
	all, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "plain", all[0].ID)
	for _, id := range []string{"nobody", "../reviewer", "", "README.md", "a/b"} {
		_, err := s.Load(t.Context(), id)
		require.ErrorIs(t, err, profiles.ErrNotFound, id)
	}
}

func TestBrokenProfiles(t *testing.T) {
	t.Parallel()
	for want, files := range map[string]map[string]string{
		`file profile.json: json: unknown field "colour"`: {"profile.json": `{"colour":"red"}`},
		"file profile.json: more than one JSON value":     {"profile.json": `{} {}`},
		"file profile.json: invalid":                      {"profile.json": `nope`},
		"field permission":                                {"profile.json": `{"permission":"maybe"}`},
		"file mcp.json":                                   {"mcp.json": `{"mcpServers":{"x":7}}`},
		"file rules/a.txt: not a .md file":                {"rules/a.txt": ""},
		"file workspace/a.bin: not UTF-8":                 {"workspace/a.bin": "\xff"},
		"SKILL.md is missing":                             {"skills/s/other.md": ""},
		"file skills/x: want a folder":                    {"skills/x": ""},
		`bundledMcp["kit"].start is empty`:                {"mcp/kit/main.js": ""},
	} {
		in := map[string]string{}
		for name, text := range files {
			in["p/"+name] = text
		}
		_, err := open(t, in, profiles.Options{}).Load(t.Context(), "p")
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `profile "p"`)
	}
}

// TestR97Plugins: a plugin's parts are the profile's, for every agent.
func TestR97Plugins(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"p/skills/own/SKILL.md":                           "own",
		"p/plugins/harbor/.claude-plugin/plugin.json":     `{"name":"harbor"}`,
		"p/plugins/harbor/README.md":                      "for people",
		"p/plugins/harbor/rules/tide.md":                  "wait for the tide",
		"p/plugins/harbor/skills/knots/SKILL.md":          "knots",
		"p/plugins/harbor/agents/pilot.md":                "you pilot",
		"p/plugins/harbor/commands/dock.md":               "dock it",
		"p/plugins/harbor/mcp.json":                       `{"mcpServers":{"charts":{"url":"https://example.com"}}}`,
		"p/plugins/harbor/mcp/sonar/server.json":          `{"start":["node","main.js"]}`,
		"p/plugins/harbor/mcp/sonar/main.js":              "js",
		"p/plugins/lighthouse/skills/lamps/SKILL.md":      "lamps",
		"p/plugins/lighthouse/skills/lamps/lib/lenses.py": "pass",
	}
	p, err := open(t, files, profiles.Options{}).Load(t.Context(), "p")
	require.NoError(t, err)
	require.Equal(t, adapters.Profile{
		ID:    "p",
		Rules: map[string]string{"tide": "wait for the tide"},
		Skills: map[string]map[string]string{
			"own": {"SKILL.md": "own"}, "knots": {"SKILL.md": "knots"}, "lamps": {"SKILL.md": "lamps", "lib/lenses.py": "pass"},
		},
		Subagents: map[string]string{"pilot": "you pilot"}, Commands: map[string]string{"dock": "dock it"},
		MCPServers: map[string]adapters.MCPServer{"charts": {URL: "https://example.com"}},
		BundledMCP: map[string]adapters.BundledMCP{"sonar": {Files: map[string]string{"main.js": "js"}, Start: []string{"node", "main.js"}}},
	}, p)
	for name, want := range map[string]string{
		"p/plugins/lighthouse/skills/own/SKILL.md": `folder plugins/lighthouse: skill "own" is there already`,
		"p/plugins/lighthouse/commands/dock.md":    `folder plugins/lighthouse: command "dock" is there already`,
		"p/plugins/lighthouse/hooks/hooks.json":    "file plugins/lighthouse/hooks: no part of a plugin that all agents have",
		"p/plugins/lighthouse/rules/a.txt":         "file plugins/lighthouse/rules/a.txt: not a .md file",
		"p/plugins/loose.md":                       "file plugins/loose.md: want a folder",
	} {
		broken := maps.Clone(files)
		broken[name] = "x"
		_, err := open(t, broken, profiles.Options{}).Load(t.Context(), "p")
		require.ErrorContains(t, err, want)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	files := map[string]string{"p/workspace/a": "12345", "p/workspace/b": "12345"}
	_, err := open(t, files, profiles.Options{MaxBytes: 9}).Load(t.Context(), "p")
	require.ErrorContains(t, err, "file workspace/b: all files together are larger than 9 bytes")
	_, err = open(t, files, profiles.Options{MaxFiles: 1}).Load(t.Context(), "p")
	require.ErrorContains(t, err, "more than 1 files")
	_, err = open(t, files, profiles.Options{MaxBytes: 10, MaxFiles: 2}).Load(t.Context(), "p")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = open(t, files, profiles.Options{}).Load(ctx, "p")
	require.ErrorIs(t, err, context.Canceled)
}

// No link leads out of a profile.
func TestLinksStayInside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"secret": "x", "store/p/workspace/ok": "y", "store/q/instructions.md": "z"})
	require.NoError(t, os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "store", "p", "workspace", "link")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "store", "q"), filepath.Join(dir, "store", "p", "rules")))
	s, err := profiles.Open(filepath.Join(dir, "store"), profiles.Options{})
	require.NoError(t, err)
	_, err = s.Load(t.Context(), "p")
	require.ErrorContains(t, err, "escapes")
	_, err = profiles.Open(filepath.Join(dir, "secret"), profiles.Options{})
	require.ErrorContains(t, err, "not a folder")
}

func TestResolve(t *testing.T) {
	t.Parallel()
	lookup := func(name string) (string, bool) { return "s3cret-" + name, name != "MISSING" }
	p := adapters.Profile{
		ID:           "p",
		Instructions: "${TOKEN} stays",
		MCPServers:   map[string]adapters.MCPServer{"m": {Command: "x", Args: []string{"${TOKEN}"}, Env: map[string]string{"A": "a ${TOKEN} b ${OTHER}", "B": "$TOKEN ${} $"}}},
		BundledMCP:   map[string]adapters.BundledMCP{"k": {Start: []string{"x"}, Env: map[string]string{"C": "${TOKEN}"}}},
	}
	got, err := profiles.Resolve(p, lookup)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"A": "a s3cret-TOKEN b s3cret-OTHER", "B": "$TOKEN ${} $"}, got.MCPServers["m"].Env)
	require.Equal(t, "s3cret-TOKEN", got.BundledMCP["k"].Env["C"])
	require.Equal(t, []string{"${TOKEN}"}, got.MCPServers["m"].Args)
	require.Equal(t, "${TOKEN} stays", got.Instructions)
	require.Equal(t, "${TOKEN}", p.BundledMCP["k"].Env["C"], "the profile itself keeps no secret")

	p.MCPServers["m"].Env["A"] = "${MISSING}"
	_, err = profiles.Resolve(p, lookup)
	require.EqualError(t, err, `profile "p": field mcpServers["m"].env["A"]: variable MISSING is not set`)

	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "NATS_URL", "NATS_ANY", "TEMPORAL_API_KEY", "SOJOURN_BUCKET"} {
		p.MCPServers["m"].Env["A"] = "x ${" + name + "}"
		_, err = profiles.Resolve(p, func(asked string) (string, bool) {
			require.NotEqual(t, name, asked, "it is not even looked up")
			return "", true
		})
		require.ErrorContains(t, err, `profile "p": field mcpServers["m"].env["A"]: variable `+name+` is never given to agents`)
	}
}

// A profile that names one of the operator's variables is refused when it is
// read, before any session is made with it.
func TestLoadRefusesVariablesOfTheHouse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"p/mcp.json": `{"mcpServers": {"m": {"url": "https://mcp.example", "headers": {"Authorization": "Bearer ${AWS_SESSION_TOKEN}"}}}}`})
	s, err := profiles.Open(dir, profiles.Options{})
	require.NoError(t, err)
	_, err = s.Load(t.Context(), "p")
	require.ErrorContains(t, err, `profile "p": field mcpServers["m"].headers["Authorization"]: variable AWS_SESSION_TOKEN is never given to agents`)
}
