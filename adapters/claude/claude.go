package claude

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/adapters"
)

// Name is the agent's name in commands and registries.
const Name = "claude"

// ProgramVariable names the environment variable that holds the path of the
// program, for machines where it is not in PATH.
const ProgramVariable = "SOJOURN_CLAUDE"

// Adapter is Claude Code. It holds no state and is safe for concurrent use.
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
		Name: Name, Product: "Claude Code", Architecture: "claude-agent-sdk",
		Mode:  "one long-lived process, JSON lines both ways (`claude -p --input-format stream-json`)",
		Files: "`.claude/projects/<workspace>/<id>.jsonl` and `<id>/subagents/`, byte for byte",
		Capabilities: adapters.Capabilities{
			ChosenID: true, PartialText: true, Thinking: true, Subagents: true, LiveSubagents: true, Steer: true,
			Approve: true, Questions: true, SetModel: true, Interrupt: true, Images: true, Cost: true, Ticks: true,
		},
		Variables: variables(),
		Limits: []string{
			"The output of a subagent's own subagent is not streamed; the transcript has it.",
			"A process that was started with `allow` asks its user nothing of its own accord (AskUserQuestion, plan mode), until it is started anew with another answer.",
			"Where the agent must ask, it loads nothing of the workspace but CLAUDE.md, .claude/CLAUDE.md and CLAUDE.local.md: no settings, hooks, servers, rules, subagents, skills and commands.",
			"/clear, /reset and /new are refused: they start another conversation under an id that the program does not report.",
		},
	}
}

// Locate finds the program: the path in SOJOURN_CLAUDE, else claude in PATH.
func (*Adapter) Locate(getenv func(string) string) (string, error) {
	return adapters.FindProgram(getenv, ProgramVariable, Name, "install Claude Code (npm install -g @anthropic-ai/claude-code)")
}

// namespace is the root of the ids that are made here. Its value does not matter,
// but must never change.
var namespace = uuid.MustParse("5d0f8d3a-6f0c-5c1e-9a57-0d5f6c3e7b11")

// NativeID returns the UUID of the session's n-th native session.
func (*Adapter) NativeID(sessionID string, n int) string {
	return uuid.NewSHA1(namespace, []byte(sessionID+"/"+strconv.Itoa(n))).String()
}

// MessageUUID returns the agent's id for a message, which is also the id of the
// message's block: the message's own id if it is a UUID, else one derived from
// it.
func MessageUUID(messageID string) string {
	if id, err := uuid.Parse(messageID); err == nil && strings.EqualFold(id.String(), messageID) {
		return id.String()
	}
	return uuid.NewSHA1(namespace, []byte("message/"+messageID)).String()
}

// BlockID implements [adapters.Naming].
func (*Adapter) BlockID(messageID string) string { return MessageUUID(messageID) }

// Translator starts the translation at a state; see the package comment.
func (*Adapter) Translator(l adapters.Launch, state json.RawMessage) (adapters.Translator, error) {
	return newTranslator(l, state)
}
