package gemini

import (
	"encoding/json"

	"github.com/sojourn-run/sojourn/adapters"
)

// Name is the agent's name in commands and registries.
const Name = "gemini"

// ProgramVariable names the environment variable that holds the path of the
// program, for machines where it is not in PATH.
const ProgramVariable = "SOJOURN_GEMINI"

// Adapter is Gemini CLI. It holds no state and is safe for concurrent use.
type Adapter struct{}

var (
	_ adapters.Adapter    = (*Adapter)(nil)
	_ adapters.Identifier = (*Adapter)(nil)
)

// New returns the adapter.
func New() *Adapter { return &Adapter{} }

// Info returns the agent's name and capabilities.
func (*Adapter) Info() adapters.Info {
	return adapters.Info{
		Name: Name, Product: "Gemini CLI", Architecture: "gemini-cli",
		Mode:  "one long-lived process, Agent Client Protocol on stdio (`gemini --acp`)",
		Files: "`.gemini/tmp/<workspace>/chats/session-<minute>-<id>.jsonl` and `chats/<id>/<subagent>.jsonl`, byte for byte",
		Capabilities: adapters.Capabilities{
			PartialText: true, Thinking: true, Subagents: true, Approve: true, SetModel: true, Interrupt: true, Images: true,
		},
		Variables: variables(), SilentUsage: true,
		Limits: []string{
			"The agent chooses its session's id.",
			"A subagent's blocks are not streamed; the transcript has them. Where the agent must ask, it refuses subagents.",
			"Where the agent must ask, rules of the workspace's settings allow nothing, and no server of theirs is started. A command that they name for the discovery of tools is run all the same, and variables of a .env apply, other than the model's address.",
			"A tool call is reported by its title: the command of a shell call and the arguments of an MCP call are known, of other tools the title alone.",
			"A command that fails is reported like one that succeeds, and what was read from a file is not reported.",
			"A denial reaches the agent without the words that go with it.",
			"Retries of the model's API are reported on standard error only, and no cost is reported.",
			"The agent writes its calls down again with every further call, so files of sessions with many calls are large.",
			"A profile's commands are for the agent's terminal: over the protocol it takes them for text.",
		},
	}
}

// Locate finds the program: the path in SOJOURN_GEMINI, else gemini in PATH. It
// is a script that needs node in PATH.
func (*Adapter) Locate(getenv func(string) string) (string, error) {
	return adapters.FindProgram(getenv, ProgramVariable, Name, "install Gemini CLI (npm install -g @google/gemini-cli)")
}

// variables returns what the agent's program reads of its environment.
func variables() []adapters.Variable {
	return []adapters.Variable{
		{Name: "GEMINI_API_KEY", About: "key for the Gemini API"},
		{Name: "GOOGLE_GEMINI_BASE_URL", About: "where that API is"},
		{Name: "GOOGLE_API_KEY", About: "key for Vertex AI, with GOOGLE_GENAI_USE_VERTEXAI"},
		{Name: "GOOGLE_GENAI_USE_VERTEXAI", About: "\"true\" takes Vertex AI where there is no GEMINI_API_KEY"},
	}
}

// NativeID returns "": the agent chooses.
func (*Adapter) NativeID(string, int) string { return "" }

// Translator starts the translation at a state; see the package comment.
func (*Adapter) Translator(l adapters.Launch, state json.RawMessage) (adapters.Translator, error) {
	return newTranslator(newDialect(), l, state)
}
