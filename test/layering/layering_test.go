package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root returns the repository's root.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	_, err = os.Stat(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	return dir
}

func TestImportsFollowTheArrows(t *testing.T) {
	t.Parallel()
	g := loadGraph(t)
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			require.True(t, slices.ContainsFunc(g.ours(), func(p string) bool {
				return r.about(strings.TrimPrefix(p, module+"/"))
			}), "the rule binds no package: was one renamed?")
			for _, sentence := range check(g, []rule{r}) {
				t.Error(sentence)
			}
		})
	}
}

// Each fake graph breaks the rule that it is named after; the first breaks none.
func TestTheRulesCatch(t *testing.T) {
	t.Parallel()
	cases := []struct {
		breaks, from string
		to           []string
	}{
		{"", "workflows", []string{"/session", "/contract", "/event", "time", "go.temporal.io/sdk/workflow"}},
		{"", "adapters/claude", []string{"/adapters", "/event", "/adapters/claude/internal/wire", "encoding/json"}},
		{"", "adapters/builtin", []string{"/adapters/claude", "/adapters/codex"}},
		{"event stands on the standard library alone", "event", []string{"github.com/google/uuid"}},
		{"event stands on the standard library alone", "event", []string{"/session"}},
		{"reducer knows events only", "reducer", []string{"/stream"}},
		{"reducer knows events only", "reducer/loss", []string{"/turn"}},
		{"no Temporal below the activities", "stream", []string{"go.temporal.io/sdk/client"}},
		{"no Temporal below the activities", "archive", []string{"example.com/way"}},
		{"no Temporal below the activities", "workspace", []string{"example.com/way"}},
		{"a store knows objects only", "archive/store/folder", []string{"/archive"}},
		{"the archive knows no store", "archive", []string{"github.com/aws/aws-sdk-go-v2/service/s3"}},
		{"workspace knows files", "workspace", []string{"/archive", "/runner"}},
		{"adapters translate", "adapters/claude", []string{"/runner"}},
		{"permission knows events only", "permission", []string{"/adapters"}},
		{"steering knows the conversation only", "steering", []string{"/session"}},
		{"adapters do not know each other", "adapters/claude", []string{"/adapters/codex"}},
		{"what is common to agents names none of them", "adapters/profiles", []string{"/adapters/claude"}},
		{"activities do not know workflows", "activities", []string{"/workflows"}},
		{"", "host", []string{"/contract", "/turn", "/runner", "/sandbox", "/adapters", "/archive", "/session", "go.temporal.io/sdk/activity"}},
		{"a host does not know its activities", "host", []string{"/activities"}},
		{"a host is a machine's agents, not their turns", "host", []string{"/stream"}},
		{"workflows decide only", "workflows", []string{"/archive"}},
		{"workflows decide only", "workflows", []string{"/activities"}},
		{"the contract is names and payloads", "contract", []string{"/archive"}},
		{"the contract is names and payloads", "contract", []string{"go.temporal.io/sdk/workflow"}},
		{"workflows decide only", "workflows", []string{"/sandbox/local"}},
		{"the library leaves the server out", "worker", []string{"go.temporal.io/server/common/config"}},
		{"the library leaves the server out", "session", []string{"/devstack"}},
		{"proof is no part of the product", "starter", []string{"/test/modelsim"}},
	}
	for _, c := range cases {
		t.Run(c.from+" "+strings.Join(c.to, " "), func(t *testing.T) {
			t.Parallel()
			g := graph{"example.com/way": {"go.temporal.io/api/common/v1"}}
			for _, to := range c.to {
				if strings.HasPrefix(to, "/") {
					to = module + to
				}
				g[module+"/"+c.from] = append(g[module+"/"+c.from], to)
			}
			require.Equal(t, c.breaks, strings.Join(brokenRules(g), ", "))
		})
	}
}

func brokenRules(g graph) []string {
	var names []string
	for _, r := range rules() {
		if len(check(g, []rule{r})) > 0 {
			names = append(names, r.name)
		}
	}
	return names
}

func TestAFailureSaysWhyAndHow(t *testing.T) {
	t.Parallel()
	g := graph{
		module + "/archive": {"example.com/way"},
		"example.com/way":   {"go.temporal.io/sdk/client"},
	}
	require.Equal(t, []string{"archive must not import go.temporal.io/sdk/client: these parts serve without an orchestrator, " +
		"and are tested without one (" + module + "/archive → example.com/way → go.temporal.io/sdk/client)"}, check(g, rules()))
}

// dumpingGrounds are names that don't describe a package's purpose.
var dumpingGrounds = []string{"types", "util", "utils", "common", "helper", "helpers", "misc", "shared", "base"}

func TestPackagesAreNamedByTheirDuty(t *testing.T) {
	t.Parallel()
	for _, p := range loadGraph(t).ours() {
		require.NotContains(t, dumpingGrounds, path.Base(p), p)
		require.NotContains(t, path.Base(p), "_", p)
	}
}

func TestNobodyElseAsksWhichAgentItIs(t *testing.T) {
	t.Parallel()
	dir := root(t)
	agents := agentNames(t, dir)
	require.Contains(t, agents, "claude")
	eachSource(t, dir, func(name string, data []byte) {
		if under("adapters/builtin", "internal", "test")(name) || agentOf(path.Dir(name)) != "" {
			return
		}
		for _, place := range agentConditions(t, name, data, agents) {
			t.Errorf("%s: a condition on an agent's name; what differs between agents must be in its adapter", place)
		}
	})
}

func TestAConditionOnAnAgentIsSeen(t *testing.T) {
	t.Parallel()
	const source = `package p
func f(agent string) int {
	if agent == "claude" { return 1 }
	if "codex" != agent { return 2 }
	switch agent { case "claude", "other": return 3 }
	_ = map[string]int{"claude": 1}
	println("claude")
	return 0
}`
	places := agentConditions(t, "p.go", []byte(source), []string{"claude", "codex"})
	require.Equal(t, []string{"p.go:3:14", "p.go:4:5", "p.go:5:22", "p.go:6:21"}, places)
}

// agentNames returns the names of all agents that Sojourn supports or will support, and
// of every adapter.
func agentNames(t *testing.T, dir string) []string {
	t.Helper()
	names := []string{"claude", "opencode", "gemini", "codex"}
	entries, err := os.ReadDir(filepath.Join(dir, "adapters"))
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(notAgents, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// agentConditions returns the comparisons with an agent's name, switch cases on one,
// and tables by one, in a Go source.
func agentConditions(t *testing.T, name string, data []byte, agents []string) []string {
	t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, data, parser.SkipObjectResolution)
	require.NoError(t, err)
	var places []string
	look := func(all ...ast.Expr) {
		for _, e := range all {
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			if s, err := strconv.Unquote(lit.Value); err == nil && slices.Contains(agents, s) {
				places = append(places, files.Position(lit.Pos()).String())
			}
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				look(n.X, n.Y)
			}
		case *ast.CaseClause:
			look(n.List...)
		case *ast.KeyValueExpr:
			look(n.Key)
		}
		return true
	})
	return places
}

// eachSource calls visit for the Go sources of the root module that are no tests, with
// their paths from the root.
func eachSource(t *testing.T, dir string, visit func(name string, data []byte)) {
	t.Helper()
	eachGoFile(t, dir, func(name string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		visit(name, data)
	})
}

func eachGoFile(t *testing.T, dir string, visit func(name string)) {
	t.Helper()
	found := 0
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "bin", "node_modules"}, d.Name())) {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, ".go") {
			found++
			visit(name)
		}
		return nil
	})
	require.NoError(t, err)
	require.Positive(t, found)
}
