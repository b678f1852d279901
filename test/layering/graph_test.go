package layering

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the path prefix of all packages of the repository.
const module = "github.com/sojourn-run/sojourn"

// graph maps each package of the root module to its direct imports, without those of
// tests: a test may use what its package must not.
type graph map[string][]string

// loadGraph merges the imports for several systems, so that those behind build tags are
// included.
func loadGraph(t *testing.T) graph {
	t.Helper()
	g := graph{}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		g.add(t, goos)
	}
	require.Contains(t, g, module+"/event", "go list found nothing")
	return g
}

func (g graph) add(t *testing.T, goos string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Imports,Standard", "./...")
	list.Dir = root(t)
	list.Env = append(list.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
			Standard   bool
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if p.Standard {
			continue
		}
		imports := append(g[p.ImportPath], p.Imports...)
		slices.Sort(imports)
		g[p.ImportPath] = slices.Compact(imports)
	}
}

// chain returns the shortest chain of imports from a package to one for which bad
// returns true, or nil. Unless deep, it checks direct imports only; otherwise it
// follows packages of the root module.
func (g graph) chain(from string, deep bool, bad func(string) bool) []string {
	seen := map[string]bool{from: true}
	for ways := [][]string{{from}}; len(ways) > 0; ways = ways[1:] {
		way := ways[0]
		for _, next := range g[way[len(way)-1]] {
			longer := append(slices.Clone(way), next)
			if bad(next) {
				return longer
			}
			if deep && !seen[next] {
				seen[next] = true
				ways = append(ways, longer)
			}
		}
	}
	return nil
}

// ours returns the packages of the root module, sorted.
func (g graph) ours() []string {
	var all []string
	for p := range g {
		if p == module || strings.HasPrefix(p, module+"/") {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// check returns a sentence for every broken rule and package.
func check(g graph, rules []rule) []string {
	var broken []string
	for _, r := range rules {
		for _, p := range g.ours() {
			short := strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
			if !r.about(short) {
				continue
			}
			bad := func(imported string) bool { return r.forbids(short, imported) }
			if way := g.chain(p, r.deep, bad); way != nil {
				broken = append(broken, fmt.Sprintf("%s must not import %s: %s (%s)",
					short, way[len(way)-1], r.why, strings.Join(way, " → ")))
			}
		}
	}
	return broken
}
