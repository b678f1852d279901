package acp

import (
	"encoding/json"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Dialect is what is specific to one agent. Only Agent is required. The functions
// are pure and safe for concurrent use.
type Dialect struct {
	// Agent names the agent in native events and errors.
	Agent string
	// Settle: history may be replayed after the answer to session/load. Without Modes
	// the translator waits for it until the agent reports its mode. Default: the
	// answer comes last.
	Settle bool
	// Kept: the host stores everything that was exchanged, so that only the end of
	// its process loses anything. What a turn had emitted before it was cancelled or
	// failed is kept, and prompts are named by their requests. Default: only the
	// agent's own files are kept.
	Kept bool
	// Parted reports whether a new session that was asked for and opened at these times
	// can't be used. Then another is opened. Default: each can. Not with Kept.
	Parted func(asked, opened time.Time) bool
	// AskModel: the launch's model is set once the session is open. Default: it is on
	// the command line.
	AskModel bool
	// Modes are the agent's names for the permission modes. Default: none; the host
	// alone decides, and the agent does not know the mode.
	Modes map[adapters.Permission]string
	// Tool returns a call's form in blocks, from what was reported of it so far.
	// Default: title and raw input.
	Tool func(ToolCall) Tool
	// Failed reports whether what was reported of a call at its start still applies
	// when it ends with this error: an agent may store it only for the calls that it
	// has carried out. Default: it applies.
	Failed func(t Tool, message string) bool
	// Rejected returns the result of a call that the user refused. Default: a
	// sentence that says so.
	Rejected func(t Tool) string
	// Remark returns the event of a chunk that is not text. Default: all are text.
	Remark func(text string) (event.Payload, bool)
	// Tidy cleans a text as the agent does before it stores it. begun reports whether
	// any of the text was emitted, held is what was held back of it. It returns what
	// can be emitted of held+chunk and what must wait; at the end nothing waits.
	// Default: text is stored as it is streamed.
	Tidy func(begun bool, held, chunk string, end bool) (out, rest string)
	// Thought returns a thought as the agent stores it, and its heading, "" for none.
	// Default: it is stored as it is streamed, and chunks are pieces of one thought;
	// with Thought each chunk is a whole one.
	Thought func(chunk string) (text, heading string)
	// Command reports whether the agent itself answers a prompt and stores nothing of
	// it. commands are those that it has named, nil before that. Default: it never
	// does.
	Command func(prompt string, commands []string) bool
	// Spent reads usage and cost from the answer to a prompt. Default: none.
	Spent func(result json.RawMessage) *event.MetadataUpdate
	// BareThoughts: thoughts that no text follows are stored when a turn completes.
	// Default: they are not.
	BareThoughts bool
	// Filler is a text in the history for an answer that was cut off. Default: none.
	Filler string
}

// Tool is a call as the blocks of a conversation show it.
type Tool struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input,omitempty"`
	// Agent is the subagent's name, and Prompt and Description are its task, for
	// a call that starts one.
	Agent       string `json:"agent,omitempty"`
	Prompt      string `json:"prompt,omitempty"`
	Description string `json:"description,omitempty"`
	// Skill is set for a call that loads one; its output is the skill's text.
	Skill string `json:"skill,omitempty"`
}

func (d *Dialect) tool(c ToolCall) Tool {
	if d.Tool != nil {
		return d.Tool(c)
	}
	t := Tool{Name: c.Title, Input: c.RawInput}
	if t.Name == "" {
		t.Name = c.Kind
	}
	return t
}

func (d *Dialect) applies(t Tool, message string) bool {
	return d.Failed == nil || d.Failed(t, message)
}

func (d *Dialect) rejected(t Tool) string {
	if d.Rejected != nil {
		return d.Rejected(t)
	}
	return "The user refused."
}

func (d *Dialect) tidy(begun bool, held, chunk string, end bool) (out, rest string) {
	if d.Tidy != nil {
		return d.Tidy(begun, held, chunk, end)
	}
	return held + chunk, ""
}

// mode returns the agent's name for a permission mode.
func (d *Dialect) mode(p adapters.Permission) string {
	if p == "" {
		p = adapters.PermissionAllow
	}
	return d.Modes[p]
}
