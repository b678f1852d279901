package gemini

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/acp"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// newDialect returns the agent's dialect of the protocol.
func newDialect() *acp.Dialect {
	return &acp.Dialect{
		Agent:  Name,
		Settle: true,
		Parted: overAMinute,
		Modes: map[adapters.Permission]string{
			adapters.PermissionAllow: "yolo", adapters.PermissionAsk: "default", adapters.PermissionDeny: "default",
		},
		Tool:     liveTool,
		Failed:   carriedOut,
		Rejected: func(t acp.Tool) string { return fmt.Sprintf(rejection, t.Name) },
		Remark:   modeRemark,
		Tidy:     tidy,
		Thought:  liveThought,
		Command:  isCommand,
		Spent:    spent,
		Filler:   filler,
	}
}

// overAMinute reports whether a minute ended while a session was opened. The agent makes two
// recordings of a session, of its messages and of its calls, each in the file of its
// minute: then the calls may be in a file of their own.
func overAMinute(asked, opened time.Time) bool {
	return !asked.IsZero() && asked.Truncate(time.Minute).Before(opened.Truncate(time.Minute))
}

// rejection is what the agent sends its model, and stores, for a call that the
// user refused.
const rejection = "Tool %q was canceled by the user."

// filler is the agent's own text for an answer that was cut off. If the process
// ended before any answer, Prepare adds it behind the prompt: without it the
// model would take the next prompt for a part of this one.
const (
	filler       = "[The previous response was interrupted before it completed.]"
	fillerPrefix = "sojourn-interrupted-"
)

const (
	shellTool = "run_shell_command"
	agentTool = "invoke_agent"
	skillTool = "activate_skill"
	mcpPrefix = "mcp_"
	// unnamed is the tool of a call whose id does not name it.
	unnamed = "tool"
)

// toolName returns the tool's name, which the protocol reports only in the call's
// id: the agent puts it before the model's id, or before an id that again
// contains the name.
func toolName(callID string) string {
	first := ""
	for i := 0; i < len(callID); {
		at := strings.Index(callID[i:], "__")
		if at < 0 {
			break
		}
		name := callID[:i+at]
		if name != "" && strings.HasPrefix(callID[i+at+2:], name+"_") {
			return name
		}
		if first == "" {
			first = name
		}
		i += at + 2
	}
	if first == "" {
		return unnamed
	}
	return first
}

// liveTool returns a call as the protocol reports it.
func liveTool(c acp.ToolCall) acp.Tool {
	title := strings.TrimSpace(c.Title)
	t := acp.Tool{Name: toolName(c.ID)}
	switch {
	case t.Name == shellTool:
		t.Input = field("command", c.Title)
	case strings.HasPrefix(t.Name, mcpPrefix):
		t.Input = object(explanation(c))
	case t.Name == agentTool:
		t.Agent, t.Description = delegate(title), title
		t.Input = field("agent_name", t.Agent)
	default:
		t.Input = field("title", title)
		if t.Name == skillTool {
			t.Skill = quoted(title, `"`)
		}
	}
	return t
}

func explanation(c acp.ToolCall) string {
	out := c.Outputs()
	if len(out) == 0 || out[0].Content == nil {
		return ""
	}
	return out[0].Content.Text
}

// keptTool returns the same call from the transcript, if the protocol reported
// it: no more than was reported.
func keptTool(c *toolCall) acp.Tool {
	t := acp.Tool{Name: toolName(c.ID)}
	title := strings.TrimSpace(c.Description)
	switch {
	case t.Name == shellTool:
		t.Input = field("command", stringField(c.Args, "command"))
	case strings.HasPrefix(t.Name, mcpPrefix):
		if shortEnough(c.Args) {
			t.Input = object(string(c.Args))
		}
	case t.Name == agentTool:
		t.Agent = stringField(c.Args, "agent_name")
		t.Description = delegation + t.Agent + "'"
		t.Input = field("agent_name", t.Agent)
	default:
		t.Input = field("title", title)
		if t.Name == skillTool {
			t.Skill = quoted(title, `"`)
		}
	}
	if c.failed() && !carriedOut(t, c.display()) {
		t.Input, t.Agent = nil, ""
	}
	return t
}

// carriedOut reports whether both sides agree on a failed call. The agent reports
// what it is about to do before it does it, but stores only what it has done:
// they agree if the error shows that the call was carried out.
func carriedOut(t acp.Tool, message string) bool {
	switch {
	case strings.HasPrefix(t.Name, mcpPrefix):
		return strings.HasPrefix(message, "MCP tool '")
	case t.Name == agentTool:
		return message == "Operation cancelled by user" || strings.Contains(message, "Aborted")
	}
	return false
}

// shortEnough: the protocol leaves out longer arguments. The agent counts in
// UTF-16.
func shortEnough(args json.RawMessage) bool {
	const most = 500
	if len(args) <= most {
		return true
	}
	return len(args) <= 4*most && len(utf16.Encode([]rune(string(args)))) <= most
}

const delegation = "Delegating to agent '"

// delegate returns the subagent that a call's title names.
func delegate(title string) string {
	name, is := strings.CutPrefix(title, delegation)
	if !is {
		return ""
	}
	return strings.TrimSuffix(name, "'")
}

// quoted returns the first part of a text that is in quotes.
func quoted(text, quote string) string {
	_, rest, open := strings.Cut(text, quote)
	name, _, closed := strings.Cut(rest, quote)
	if !open || !closed {
		return ""
	}
	return name
}

// field returns an object of one field; nil for an empty value.
func field(name, value string) json.RawMessage {
	if value == "" {
		return nil
	}
	return nativejson.Encode(map[string]string{name: value})
}

// object returns a text that is a JSON object; nil for anything else.
func object(text string) json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &o) != nil {
		return nil
	}
	return json.RawMessage(text)
}

func stringField(object json.RawMessage, name string) string {
	var o map[string]json.RawMessage
	var s string
	if json.Unmarshal(object, &o) != nil || json.Unmarshal(o[name], &s) != nil {
		return ""
	}
	return s
}

// modeRemark returns the change of the agent's mode that it reports in the middle
// of its text.
func modeRemark(text string) (event.Payload, bool) {
	mode, is := strings.CutPrefix(text, "[MODE_UPDATE] ")
	if !is || mode == "" || strings.ContainsAny(mode, " \n\t") {
		return nil, false
	}
	return event.OptionsUpdate{PermissionMode: &mode}, true
}

// spent reads the tokens of a turn.
func spent(result json.RawMessage) *event.MetadataUpdate {
	var r struct {
		Meta struct {
			Quota *struct {
				Tokens struct {
					Input  int64 `json:"input_tokens"`
					Output int64 `json:"output_tokens"`
				} `json:"token_count"`
			} `json:"quota"`
		} `json:"_meta"`
	}
	if json.Unmarshal(result, &r) != nil || r.Meta.Quota == nil {
		return nil
	}
	q := r.Meta.Quota.Tokens
	return &event.MetadataUpdate{Usage: &event.Usage{InputTokens: q.Input, OutputTokens: q.Output}}
}

// isCommand reports whether the agent itself answers a prompt: it looks at the
// first word only.
func isCommand(prompt string, known []string) bool {
	text := strings.TrimSpace(prompt)
	if text == "" || text[0] != '/' && text[0] != '$' {
		return false
	}
	if known == nil {
		known = []string{"memory", "extensions", "init", "restore", "about", "help"}
	}
	words := strings.Fields(text[1:])
	if len(words) == 0 {
		return false
	}
	for _, name := range known {
		if name == words[0] {
			return true
		}
	}
	return false
}
