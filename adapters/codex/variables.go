package codex

import "github.com/sojourn-run/sojourn/adapters"

// variables returns what the program reads of its environment.
func variables() []adapters.Variable {
	return []adapters.Variable{
		{Name: "OPENAI_API_KEY", About: "key for the OpenAI API"},
		{Name: "OPENAI_BASE_URL", About: "where that API is, up to and with its version"},
	}
}
