package codex

import (
	"bytes"
	stdjson "encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sojourn-run/sojourn/adapters/internal/shellwords"
)

// shellTool is the name of the tool that runs commands: the model's own names
// for it (exec_command, shell, …) change with the model and are not live.
const shellTool = "shell"

// patchTool is the name of the tool that changes files.
const patchTool = "apply_patch"

// toolName returns the name of a tool's item.
func (it *item) toolName() string {
	switch kind := it.kind(); kind {
	case kindCommand:
		return shellTool
	case kindChange:
		return patchTool
	case kindMCP:
		return "mcp__" + it.Server + "__" + it.Tool
	case kindCollab:
		return first(activityTools[it.Activity], snake(it.Tool))
	default:
		return otherTools[kind]
	}
}

// toolInput returns the tool's input, in all spellings. plain leaves out what
// `codex exec --json` doesn't print.
func (it *item) toolInput(plain bool) stdjson.RawMessage {
	switch it.kind() {
	case kindCommand:
		return object(map[string]any{"command": script(it.Command)})
	case kindChange:
		return object(map[string]any{"changes": changes(it.Changes, plain)})
	case kindMCP:
		return objectOr(it.Arguments)
	case kindCollab:
		if path := it.agentPath(); path != "" {
			return object(map[string]any{"agent": path})
		}
		return collabInput(it.Prompt, it.waitedFor())
	}
	return ownInput(it.raw)
}

// waitedFor returns the threads that a call is about; a spawn's is its outcome.
func (it *item) waitedFor() []string {
	if snake(it.Tool) == spawnTool {
		return nil
	}
	return it.receivers()
}

// agentPath returns the path of a team's member: its name, behind those of the
// agents that started it.
func (it *item) agentPath() string { return first(it.AgentPath, it.AgentPathDisk) }

func collabInput(prompt string, agents []string) stdjson.RawMessage {
	in := map[string]any{}
	if prompt != "" {
		in["prompt"] = prompt
	}
	if len(agents) > 0 {
		in["agents"] = agents
	}
	return object(in)
}

// toolOutput returns the output of the call.
func (it *item) toolOutput() stdjson.RawMessage {
	switch it.kind() {
	case kindCommand:
		if it.Output != nil {
			return rawText(*it.Output)
		}
		if it.OutputDisk != nil {
			return rawText(*it.OutputDisk)
		}
		return rawText("")
	case kindMCP:
		return mcpOutput(it.Result, it.Error)
	case kindCollab:
		return rawText(it.agentsText())
	}
	return stdjson.RawMessage("null")
}

// agentsText returns the state of the agents that a call was about, a line each.
func (it *item) agentsText() string {
	states := it.states()
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(states)) {
		status, message := agentState(states[id])
		line := id + ": " + status
		if message != "" {
			line += ": " + message
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// agentState parses the state of an agent: {"status", "message"}, or in rollouts
// a word, or an object with the word as its name.
func agentState(raw jsontext.Value) (status, message string) {
	if text, ok := plainText(raw); ok {
		return snake(text), ""
	}
	var fields map[string]jsontext.Value
	if decode(raw, &fields) != nil {
		return "", ""
	}
	if s, changed := fields["status"]; changed {
		status, _ = plainText(s)
		message, _ = plainText(fields["message"])
		return snake(status), message
	}
	for name, value := range fields {
		message, _ = plainText(value)
		return snake(name), message
	}
	return "", ""
}

// mcpOutput returns the content of an MCP server's answer, or why there is none.
func mcpOutput(result, failure jsontext.Value) stdjson.RawMessage {
	var r struct {
		Content jsontext.Value `json:"content"`
	}
	if text, ok := plainText(result); ok {
		return rawText(text)
	}
	if given(result) && decode(result, &r) == nil && given(r.Content) {
		return stdjson.RawMessage(r.Content)
	}
	var e struct {
		Message string `json:"message"`
	}
	if text, ok := plainText(failure); ok {
		return rawText(text)
	}
	if given(failure) && decode(failure, &e) == nil {
		return rawText(e.Message)
	}
	return stdjson.RawMessage("null")
}

// changes returns a list of changed files, which rollouts write as an object.
func changes(raw jsontext.Value, plain bool) []map[string]any {
	list := []map[string]any{}
	if !given(raw) {
		return list
	}
	if raw.Kind() == '{' {
		var byPath map[string]change
		if decode(raw, &byPath) != nil {
			return list
		}
		for _, path := range slices.Sorted(maps.Keys(byPath)) {
			c := byPath[path]
			c.Path = path
			list = append(list, c.fields(plain))
		}
		return list
	}
	var changed []change
	if decode(raw, &changed) != nil {
		return list
	}
	slices.SortStableFunc(changed, func(a, b change) int { return strings.Compare(a.Path, b.Path) })
	for _, c := range changed {
		list = append(list, c.fields(plain))
	}
	return list
}

// change is one changed file, in any spelling.
type change struct {
	Path string         `json:"path"`
	Kind jsontext.Value `json:"kind"`
	Diff string         `json:"diff"`
	// As rollouts write it.
	Type     string  `json:"type"`
	Content  string  `json:"content"`
	Unified  string  `json:"unified_diff"`
	MovePath *string `json:"move_path"`
}

func (c change) fields(plain bool) map[string]any {
	kind, move := c.Type, c.MovePath
	if text, ok := plainText(c.Kind); ok {
		kind = text
	} else if given(c.Kind) {
		var k change
		if decode(c.Kind, &k) == nil {
			kind, move = k.Type, k.MovePath
		}
	}
	out := map[string]any{"path": c.Path, "kind": kind}
	if plain {
		return out
	}
	if move != nil {
		out["movePath"] = *move
	}
	if diff := first(c.Diff, c.Unified, c.Content); diff != "" {
		out["diff"] = diff
	}
	return out
}

// isShell reports whether a program runs a script of one word. A file of the same name
// elsewhere may be anything.
func isShell(program string) bool {
	dir, name := path.Split(program)
	return slices.Contains([]string{"", "/bin/", "/usr/bin/"}, dir) && slices.Contains([]string{"sh", "bash", "zsh", "dash"}, name)
}

// script returns what a command runs: the shell's script if a shell runs it, else
// the words of the command.
func script(command jsontext.Value) string {
	var argv []string
	if text, ok := plainText(command); ok {
		words, whole := shellwords.Split(text)
		if !whole {
			return text
		}
		argv = words
	} else if !given(command) || decode(command, &argv) != nil {
		return ""
	}
	if len(argv) == 3 && isShell(argv[0]) && (argv[1] == "-c" || argv[1] == "-lc") {
		return argv[2]
	}
	return strings.Join(argv, " ")
}

// ownInput returns an item's fields apart from its status.
func ownInput(raw jsontext.Value) stdjson.RawMessage {
	var fields map[string]any
	if decode(raw, &fields) != nil {
		return stdjson.RawMessage("{}")
	}
	for _, life := range []string{"type", "id", "status", "durationMs", "duration", "startedAtMs", "completedAtMs"} {
		delete(fields, life)
	}
	return object(snakeNames(fields).(map[string]any))
}

// snakeNames spells all names alike and leaves out null values.
func snakeNames(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			if value != nil {
				out[snake(name)] = snakeNames(value)
			}
		}
		return out
	case []any:
		for i := range v {
			v[i] = snakeNames(v[i])
		}
	}
	return v
}

// object returns v as JSON with its names in order; values made here can always
// be encoded.
func object(v any) stdjson.RawMessage {
	data, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return stdjson.RawMessage("{}")
	}
	return data
}

// objectOr returns raw, which is a tool's input: JSON, or JSON in a string.
func objectOr(raw jsontext.Value) stdjson.RawMessage {
	if text, ok := plainText(raw); ok {
		if inner := jsontext.Value(text); inner.IsValid() {
			raw = inner
		}
	}
	if raw = bytes.TrimSpace(raw); !given(raw) {
		return stdjson.RawMessage("{}")
	}
	return stdjson.RawMessage(raw)
}

// rawText returns s as a JSON string.
func rawText(s string) stdjson.RawMessage {
	data, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		data, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "�"))
	}
	return data
}

// plainText reads a JSON string.
func plainText(raw jsontext.Value) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err == nil
}

func given(raw jsontext.Value) bool { return len(raw) > 0 && string(raw) != "null" }
