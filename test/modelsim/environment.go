package modelsim

import "encoding/json"

// Key is what agents are given as their key. It is no secret: the server takes
// any, but agents insist on having one.
const Key = "sk-modelsim"

// Environment is how each agent is led to a server by variables of its own:
// NAME=value, for Claude Code, Codex, Gemini CLI and OpenCode. The keys need no
// secrecy.
func Environment(url string) []string {
	return []string{
		"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=" + Key,
		"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=" + Key,
		"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=" + Key,
		"OPENCODE_CONFIG_CONTENT=" + openCodeConfig(url),
	}
}

// openCodeConfig names the server as OpenCode's only provider.
func openCodeConfig(url string) string {
	type object = map[string]any
	const model = "modelsim/scripted"
	config, err := json.Marshal(object{
		"enabled_providers": []string{"modelsim"}, "model": model, "small_model": model,
		"provider": object{"modelsim": object{
			"npm":     "@ai-sdk/openai-compatible",
			"options": object{"baseURL": url + "/v1", "apiKey": Key},
			"models": object{"scripted": object{
				"tool_call": true, "reasoning": true, "attachment": true,
				"limit": object{"context": 200_000, "output": 8192},
			}},
		}},
	})
	if err != nil {
		panic(err) // plain data can always be encoded
	}
	return string(config)
}
