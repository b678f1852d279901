package adapters

import (
	"fmt"
	"slices"
	"strings"
)

// Registry finds adapters by name. The program that uses them makes it; the zero
// value has no agent. Safe for concurrent use.
type Registry struct {
	byName map[string]Adapter
	names  []string
}

// New returns a registry of the given adapters. It panics if two have the same
// name, which is a programmer's error.
func New(adapters ...Adapter) Registry {
	r := Registry{byName: make(map[string]Adapter, len(adapters))}
	for _, a := range adapters {
		name := a.Info().Name
		if _, twice := r.byName[name]; twice || name == "" {
			panic(fmt.Sprintf("adapters: bad or repeated name %q", name))
		}
		r.byName[name] = a
		r.names = append(r.names, name)
	}
	slices.Sort(r.names)
	return r
}

// Get returns the adapter with that name, or an error that wraps ErrUnknownAgent
// and lists the known names.
func (r Registry) Get(name string) (Adapter, error) {
	if a, ok := r.byName[name]; ok {
		return a, nil
	}
	return nil, fmt.Errorf("%w %q: known agents are %s", ErrUnknownAgent, name, r.known())
}

// Names returns the known names, sorted.
func (r Registry) Names() []string { return slices.Clone(r.names) }

func (r Registry) known() string {
	if len(r.names) == 0 {
		return "none"
	}
	return strings.Join(r.names, ", ")
}
