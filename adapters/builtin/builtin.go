// Package builtin lists the agents that are part of Sojourn. It is the one place
// that names them all: the worker and the command line use its registry, and an
// agent is added by one line.
package builtin

import (
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/acp"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/adapters/codex"
	"github.com/sojourn-run/sojourn/adapters/gemini"
	"github.com/sojourn-run/sojourn/adapters/opencode"
)

// Registry returns the agents that are part of Sojourn.
func Registry() adapters.Registry {
	return adapters.New(
		claude.New(),
		opencode.New(),
		codex.New(),
		gemini.New(),
		acp.New(),
	)
}
