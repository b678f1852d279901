package codex

import (
	"encoding/json"
	"strconv"

	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/adapters"
)

// Name is the agent's name in commands and registries.
const Name = "codex"

// ProgramVariable names the environment variable that holds the path of the
// program, for machines where it is not in PATH.
const ProgramVariable = "SOJOURN_CODEX"

// Adapter is Codex. It holds no state and is safe for concurrent use.
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
		Name: Name, Product: "Codex", Architecture: "codex-sdk",
		Mode:  "one long-lived process, JSON-RPC lines both ways (`codex app-server`)",
		Files: "`.codex/sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl`, one per thread, byte for byte",
		Capabilities: adapters.Capabilities{
			ChosenID: true, PartialText: true, Thinking: true, Subagents: true, LiveSubagents: true, Steer: true,
			Approve: true, Questions: true, SetModel: true, Interrupt: true, Images: true, Ticks: true,
		},
		Variables: variables(),
		Limits: []string{
			"A denial reaches the model without the words given with it: the protocol has no place for them.",
			"A shell command that continues in the background has no result: what it prints after the end of its turn is not reported, nor is what a script does then.",
			"Calls that the program refuses before they begin (unknown tools, bad arguments) are in no conversation.",
			"Where the agent must ask, the workspace's own settings (.codex) don't apply.",
			"A message may have 1048576 characters and no more.",
			"Models that are not the program's own get no subagents in their subagents.",
			"The prompt with which the program's own models start a subagent is sealed: it can't be shown.",
			"The scripts by which the program's own models call tools are not streamed, the calls that they make are.",
			"A profile's commands become skills: the program expands commands in its terminal interface only.",
			"The program reports tokens and no cost.",
			"An interrupt leaves the shell command of the turn running; the host ends it.",
		},
	}
}

// namespace is the root of the ids that are made here. Its value does not matter,
// but must never change.
var namespace = uuid.MustParse("0b5f2f7e-3c61-5d0a-9d5e-8a3f1c7b6e42")

// NativeID returns the UUID of the session's n-th native session.
func (*Adapter) NativeID(sessionID string, n int) string {
	return uuid.NewSHA1(namespace, []byte(sessionID+"/"+strconv.Itoa(n))).String()
}

// Translator starts the translation at a state; see the package comment.
func (*Adapter) Translator(l adapters.Launch, state json.RawMessage) (adapters.Translator, error) {
	return newTranslator(l, state)
}
