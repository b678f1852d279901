package opencode

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/adapters"
)

// Name is the agent's name in commands and registries.
const Name = "opencode"

// ProgramVariable names the environment variable with the path of the program,
// for machines where it is not in PATH.
const ProgramVariable = "SOJOURN_OPENCODE"

// Adapter is OpenCode. It holds no state and is safe for concurrent use.
type Adapter struct{}

var (
	_ adapters.Adapter    = (*Adapter)(nil)
	_ adapters.Identifier = (*Adapter)(nil)
	_ adapters.Exporter   = (*Adapter)(nil)
)

// New returns the adapter.
func New() *Adapter { return &Adapter{} }

// Info returns the agent's name and capabilities.
func (*Adapter) Info() adapters.Info {
	return adapters.Info{
		Name: Name, Product: "OpenCode", Architecture: "opencode",
		Mode:  "one long-lived server on a loopback port, HTTP and server-sent events (`opencode serve`)",
		Files: "`" + database + "` (SQLite, with its write-ahead log), archived as the rows that changed",
		Capabilities: adapters.Capabilities{
			ChosenID: true, PartialText: true, Thinking: true, Subagents: true, LiveSubagents: true, Steer: true,
			Approve: true, Questions: true, SetModel: true, Interrupt: true, Images: true, Cost: true, Ticks: true,
		},
		Variables: variables(),
		Limits: []string{
			"The program rg (ripgrep) must be in PATH: without it, and without a way to download it, the tools glob, grep and skill fail.",
			"The agent's tools are given the password of its server, so that a tool that sets out to can answer the agent's own permission requests.",
			"A stricter permission holds from the next turn on: a server that was started to allow everything is started anew to ask.",
			"Where the agent must ask, it loads nothing of the workspace but AGENTS.md: no settings, servers, subagents, skills and commands. Plugins of the workspace it runs all the same: nothing prevents that.",
			"In a workspace with plugins the agent installs a package into .opencode before it answers. So that it gives up soon where there is no registry, npm waits two seconds at most between its tries, also in the agent's tools: npm_config_fetch_retry_mintimeout and npm_config_fetch_retry_maxtimeout of the sandbox's environment go before that.",
			"A refused permission request refuses all others that are open in the same native session.",
			"Models are named PROVIDER/MODEL.",
			"Slash commands are the model's to read: the agent expands them only in its own terminal.",
			"A question is refused by an answer that says so: the agent's own refusal would end the turn.",
			"An answer of the model's API that the agent takes for passing is tried again four times and then fails the turn; by itself the agent would try for ever.",
			"A shell command that is killed from outside is noticed only at its own timeout, two minutes as a rule.",
			"Each server takes some 650 MB of memory.",
		},
	}
}

// Locate finds the program: the path in SOJOURN_OPENCODE, else opencode in PATH.
func (*Adapter) Locate(getenv func(string) string) (string, error) {
	return adapters.FindProgram(getenv, ProgramVariable, Name, "install OpenCode (npm install -g opencode-ai)")
}

// namespace is the root of the ids that are made here. Its value does not matter,
// but must never change.
var namespace = uuid.MustParse("0c7c1c9e-4b0c-5a38-9d2f-6a0a6c1f0e52")

// NativeID returns an id derived from the session's id and n. It has the form of
// the agent's own ids: twelve hexadecimal digits and fourteen letters and digits.
func (*Adapter) NativeID(sessionID string, n int) string {
	h := sha256.Sum256([]byte("session/" + sessionID + "/" + strconv.Itoa(n)))
	return "ses_" + hex.EncodeToString(h[:13])
}

// BlockID implements [adapters.Naming].
func (*Adapter) BlockID(messageID string) string { return BlockID(messageID) }

// Translator starts the translation at a state; see the package comment.
func (*Adapter) Translator(l adapters.Launch, state json.RawMessage) (adapters.Translator, error) {
	return newTranslator(l, state)
}
