package claude

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

// configDir is the agent's configuration folder in its home.
const configDir = ".claude"

// Command returns one long-lived process that exchanges JSON lines.
func (*Adapter) Command(l adapters.Launch) (adapters.Command, error) {
	if l.Program == "" || l.NativeID == "" || l.Home == "" {
		return adapters.Command{}, fmt.Errorf("claude: command: program, native id and home must be given")
	}
	argv := []string{
		l.Program, "-p",
		"--input-format", "stream-json", "--output-format", "stream-json",
		"--verbose", "--include-partial-messages", "--replay-user-messages",
	}
	permission, err := permissionArgs(l.Permission)
	if err != nil {
		return adapters.Command{}, err
	}
	argv = append(argv, permission...)
	if l.Resume {
		argv = append(argv, "--resume", l.NativeID)
	} else {
		argv = append(argv, "--session-id", l.NativeID)
	}
	if l.Model != "" {
		argv = append(argv, "--model", l.Model)
	}
	return adapters.Command{Argv: argv, Env: environment(l), Dir: l.Workspace}, nil
}

// permissionArgs lets every process ask the host, also one that starts by running
// everything: SetPermission may have it ask later, and without a prompt tool it would refuse
// each tool. With ask and deny a person or the policy answers, so that the agent gets a
// refusal as text; SetPermission may switch to allow later. An agent that asks gets nothing of
// the workspace that could allow or run anything unasked: hooks, servers, permissions and
// variables of its settings, and what its subagents, skills and commands say of tools. What it
// says to the agent is imported; see workspaceRules.
func permissionArgs(p adapters.Permission) ([]string, error) {
	args := []string{"--permission-prompt-tool", "stdio"}
	switch p {
	case adapters.PermissionAllow, "":
		return append(args, "--dangerously-skip-permissions", "--disallowedTools", strings.Join(askingTools, ",")), nil
	case adapters.PermissionAsk, adapters.PermissionDeny:
		return append(args, "--allow-dangerously-skip-permissions", "--setting-sources", "user"), nil
	}
	return nil, fmt.Errorf("claude: permission is %q, want allow, ask or deny", p)
}

// askingTools are the tools that only ask the user. A session that starts with allow may have
// no user to answer.
var askingTools = []string{"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"}

// environment isolates the process: its home and configuration are this
// session's, and it connects only to the model.
func environment(l adapters.Launch) map[string]string {
	return map[string]string{
		"HOME":              l.Home,
		"CLAUDE_CONFIG_DIR": path.Join(l.Home, configDir),
		// Root may skip permissions only in a sandbox, which this is.
		"IS_SANDBOX":                            "1",
		"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
		// The first prompt waits until the servers of tools have started, up to so many
		// milliseconds: an unattended turn would do its work without their tools.
		"MCP_CONNECTION_NONBLOCKING":               "0",
		"MCP_CONNECT_TIMEOUT_MS":                   "30000",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"DISABLE_AUTOUPDATER":                      "1",
		"DISABLE_TELEMETRY":                        "1",
		"DISABLE_ERROR_REPORTING":                  "1",
	}
}

// Encode returns the line for an input.
func (t *translator) Encode(id string, in adapters.Input) ([]adapters.Message, error) {
	line, err := t.encode(id, in)
	if err != nil {
		return nil, err
	}
	return []adapters.Message{{ID: id, Data: line}}, nil
}

// Due returns what must be written after the last step: answers that no caller decides on.
func (t *translator) Due() []adapters.Message {
	due := t.due
	t.due = nil
	return due
}

func (t *translator) encode(id string, in adapters.Input) ([]byte, error) {
	switch in := in.(type) {
	case adapters.Initialize:
		return encodeInitialize(id, t.launch)
	case adapters.Prompt:
		return encodePrompt(in, t.launch)
	case adapters.Interrupt:
		return encodeRequest(id, map[string]any{"subtype": "interrupt"})
	case adapters.SetModel:
		return encodeRequest(id, map[string]any{"subtype": "set_model", "model": in.Model})
	case adapters.SetPermission:
		return encodePermission(id, in)
	case adapters.Answer:
		return encodeAnswer(in)
	}
	return nil, fmt.Errorf("claude: encode %T: %w", in, adapters.ErrUnsupported)
}

func encodeInitialize(id string, l adapters.Launch) ([]byte, error) {
	request := map[string]any{"subtype": "initialize", "forwardSubagentText": true}
	if l.SystemPrompt != "" {
		request["appendSystemPrompt"] = l.SystemPrompt
	}
	return encodeRequest(id, request)
}

// encodePermission changes whether the agent asks; the host answers what it asks.
func encodePermission(id string, in adapters.SetPermission) ([]byte, error) {
	mode := "default"
	switch in.Permission {
	case adapters.PermissionAllow:
		mode = "bypassPermissions"
	case adapters.PermissionAsk, adapters.PermissionDeny:
	default:
		return nil, fmt.Errorf("claude: set permission to %q: %w", in.Permission, adapters.ErrUnsupported)
	}
	return encodeRequest(id, map[string]any{"subtype": "set_permission_mode", "mode": mode})
}

func encodeRequest(id string, request map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{"type": "control_request", "request_id": id, "request": request})
}

// userLine is a prompt as the program reads it.
type userLine struct {
	Type    string      `json:"type"`
	Message userMessage `json:"message"`
	Parent  *string     `json:"parent_tool_use_id"`
	Session string      `json:"session_id,omitempty"`
	UUID    string      `json:"uuid,omitempty"`
}

type userMessage struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type textPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type imagePart struct {
	Type   string         `json:"type"`
	Source map[string]any `json:"source"`
}

// startsNewSession reports whether a prompt is the command by which the program
// replaces its session by a new one, under an id that it does not report.
func startsNewSession(text string) (command string, fresh bool) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return "", false
	}
	return fields[0], slices.Contains([]string{"/clear", "/reset", "/new"}, fields[0])
}

// lastText returns the text in which the program looks for a command: the prompt's last
// part; "" if that is no text.
func lastText(in adapters.Prompt) string {
	n := len(in.Parts)
	switch {
	case n == 0:
		return in.Text
	case in.Parts[n-1].Type == "text":
		return in.Parts[n-1].Text
	}
	return ""
}

func encodePrompt(in adapters.Prompt, launch adapters.Launch) ([]byte, error) {
	if name, fresh := startsNewSession(lastText(in)); fresh {
		return nil, fmt.Errorf("claude: %s begins another conversation, which this session would not know; make a new session instead: %w", name, adapters.ErrUnsupported)
	}
	l := userLine{Type: "user", Message: userMessage{Role: "user"}, Session: launch.NativeID}
	if in.MessageID != "" {
		l.UUID = MessageUUID(in.MessageID)
	}
	if in.Text != "" || len(in.Parts) == 0 {
		l.Message.Content = append(l.Message.Content, textPart{"text", in.Text})
	}
	for i, p := range in.Parts {
		switch {
		case p.Type == "text":
			l.Message.Content = append(l.Message.Content, textPart{"text", p.Text})
		case p.Type == "image" && p.Data != "":
			l.Message.Content = append(l.Message.Content, imagePart{"image", map[string]any{
				"type": "base64", "media_type": p.MediaType, "data": p.Data}})
		case p.Type == "image" && p.URL != "":
			l.Message.Content = append(l.Message.Content, imagePart{"image", map[string]any{
				"type": "url", "url": p.URL}})
		default:
			return nil, fmt.Errorf("claude: prompt part %d of type %q: %w", i, p.Type, adapters.ErrUnsupported)
		}
	}
	return json.Marshal(l)
}

// ChangesInput: an answer to can_use_tool has the tool's input.
func (*Adapter) ChangesInput() {}

// encodeAnswer answers can_use_tool. An allowance repeats the tool's input:
// without it the tool would run with none.
func encodeAnswer(in adapters.Answer) ([]byte, error) {
	answer := map[string]any{"behavior": "deny", "message": in.Message}
	if in.Message == "" {
		answer["message"] = "The user refused."
	}
	if in.Allow {
		if len(in.Input) == 0 {
			return nil, fmt.Errorf("claude: answer %s: field \"Input\" is missing, and allow must repeat the tool's input", in.RequestID)
		}
		answer = map[string]any{"behavior": "allow", "updatedInput": in.Input}
	}
	return json.Marshal(map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "success", "request_id": in.RequestID, "response": answer,
	}})
}
