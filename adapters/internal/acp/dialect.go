package acp

import (
	"encoding/json"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Dialect is what one agent has of its own. Only Agent is required. The
// functions are pure and safe for concurrent use.
type Dialect struct {
	// Agent names the agent in native events and errors.
	Agent string
	// Settle: history may be replayed behind the answer to session/load. Without
	// Modes it is waited for where the agent reports its mode. Default: the answer
	// comes last.
	Settle bool
	// Kept: the host writes down all that is said, so that only the
	// end of its process loses anything. What a turn had said before it was
	// cancelled or failed stands, and prompts are named by their requests.
	// Default: the agent's own files are all there is.
	Kept bool
	// AskModel: the launch's model is asked for once the session is open.
	// Default: it is on the command line.
	AskModel bool
	// Modes are the agent's names for the standing permissions. Default: none,
	// the host alone decides, and the agent does not know it.
	Modes map[adapters.Permission]string
	// Tool is what a call is, from what was reported of it so far. Default:
	// title and raw input.
	Tool func(ToolCall) Tool
	// Failed reports whether what was reported of a call at its start still holds
	// when it ends with this error: an agent may keep it only for the calls
	// that it has carried out. Default: it stands.
	Failed func(t Tool, message string) bool
	// Rejected is the result of a call that the user refused. Default: a
	// sentence that says so.
	Rejected func(t Tool) string
	// Remark takes a chunk of text that is no text. Default: all are.
	Remark func(text string) (event.Payload, bool)
	// Tidy is how the agent cleans a text before it keeps it: given whether
	// any of the text is out and what was held back of it, it returns what can go
	// out of held+chunk and what must wait. At the end nothing waits. Default:
	// text is kept as it is said.
	Tidy func(begun bool, held, chunk string, end bool) (out, rest string)
	// Thought returns a thought as the agent keeps it, and its heading, "" for
	// none. Default: it is kept as it is said, and chunks are pieces of one
	// thought; with Thought each chunk is a whole one.
	Thought func(chunk string) (text, heading string)
	// Command reports whether the agent answers a prompt by itself and keeps
	// nothing of it. commands are those that it has named, nil before that.
	// Default: it never does.
	Command func(prompt string, commands []string) bool
	// Spent reads usage and cost from the answer to a prompt. Default: none.
	Spent func(result json.RawMessage) *event.MetadataUpdate
	// BareThoughts: thoughts that no text follows are kept when a turn ends well.
	// Default: they are not.
	BareThoughts bool
	// Filler is a text that is in the history where an answer was cut off.
	// Default: none does.
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

func (d *Dialect) stands(t Tool, message string) bool {
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

// mode is the agent's name for a standing permission.
func (d *Dialect) mode(p adapters.Permission) string {
	if p == "" {
		p = adapters.PermissionAllow
	}
	return d.Modes[p]
}
