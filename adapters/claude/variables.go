package claude

import "github.com/sojourn-run/sojourn/adapters"

// variables returns what the program reads of its environment.
func variables() []adapters.Variable {
	return []adapters.Variable{
		{Name: "ANTHROPIC_API_KEY", About: "key for the Anthropic API"},
		{Name: "ANTHROPIC_BASE_URL", About: "where that API is"},
		{Name: "ANTHROPIC_AUTH_TOKEN", About: "bearer token in place of a key"},
	}
}
