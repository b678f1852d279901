package profiles

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/sandbox"
)

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Resolve returns p with every ${NAME} in the environment and headers of its MCP
// servers filled in by lookup, which reports whether it has the name. A name that
// it does not have is an error that names the field, and so is one that
// [sandbox.CheckVariable] refuses: lookup is not called for it. p itself is not
// changed; the result holds secrets and must not be stored.
func Resolve(p adapters.Profile, lookup func(name string) (string, bool)) (adapters.Profile, error) {
	resolved, err := resolve(p, lookup)
	if err != nil {
		return adapters.Profile{}, fmt.Errorf("profile %q: %w", p.ID, err)
	}
	return resolved, nil
}

// Check refuses a profile that is not valid, or that no lookup could complete.
func Check(p adapters.Profile) error {
	if _, err := resolve(p, func(string) (string, bool) { return "", true }); err != nil {
		return err
	}
	return p.Validate()
}

func resolve(p adapters.Profile, lookup func(name string) (string, bool)) (adapters.Profile, error) {
	p.MCPServers, p.BundledMCP = maps.Clone(p.MCPServers), maps.Clone(p.BundledMCP)
	r := resolver{lookup: lookup}
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
	return p, r.err
}

// resolver keeps the first error.
type resolver struct {
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
			value, err := r.value(ref[2 : len(ref)-1])
			if err != nil && r.err == nil {
				r.err = fmt.Errorf("field %s[%q]: %w", field, key, err)
			}
			return value
		})
	}
	return out
}

func (r *resolver) value(name string) (string, error) {
	if err := sandbox.CheckVariable(name); err != nil {
		return "", err
	}
	value, known := r.lookup(name)
	if !known {
		return "", fmt.Errorf("variable %s is not set", name)
	}
	return value, nil
}
