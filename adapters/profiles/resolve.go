package profiles

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
)

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Resolve is p with every ${NAME} in the environment and headers of its MCP
// servers filled in by lookup, which says whether it knows the name. A name
// that it does not know is an error that names the field. p itself stays as
// it is; the result holds secrets and must be kept nowhere.
func Resolve(p adapters.Profile, lookup func(name string) (string, bool)) (adapters.Profile, error) {
	p.MCPServers, p.BundledMCP = maps.Clone(p.MCPServers), maps.Clone(p.BundledMCP)
	r := resolver{id: p.ID, lookup: lookup}
	for _, name := range slices.Sorted(maps.Keys(p.MCPServers)) {
		s := p.MCPServers[name]
		s.Env = r.values(fmt.Sprintf("mcpServers[%q].env", name), s.Env)
		s.Headers = r.values(fmt.Sprintf("mcpServers[%q].headers", name), s.Headers)
		p.MCPServers[name] = s
	}
	for _, name := range slices.Sorted(maps.Keys(p.BundledMCP)) {
		b := p.BundledMCP[name]
		b.Env = r.values(fmt.Sprintf("bundledMcp[%q].env", name), b.Env)
		p.BundledMCP[name] = b
	}
	if r.err != nil {
		return adapters.Profile{}, r.err
	}
	return p, nil
}

// resolver keeps the first error.
type resolver struct {
	id     string
	lookup func(string) (string, bool)
	err    error
}

func (r *resolver) values(field string, given map[string]string) map[string]string {
	if given == nil {
		return nil
	}
	out := make(map[string]string, len(given))
	for _, key := range slices.Sorted(maps.Keys(given)) {
		out[key] = variable.ReplaceAllStringFunc(given[key], func(ref string) string {
			name := ref[2 : len(ref)-1]
			value, known := r.lookup(name)
			if !known && r.err == nil {
				r.err = fmt.Errorf("profile %q: field %s[%q]: variable %s is not set", r.id, field, key, name)
			}
			return value
		})
	}
	return out
}
