package modelsim

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// native is one agent's own tool for a kind of work.
type native struct {
	tool Tool
	name string
	// args are the fields of its input, in the order in which they stream.
	args func(c Call) []any
}

// natives are the tools of all agents that we know. What a request offers
// decides, so an agent may be used with any protocol. The first of a kind
// that a dialect lists is called where the request offers none.
func natives() []native {
	return []native{
		{ToolBash, "Bash", commandAndWhy},
		{ToolBash, "bash", command},
		{ToolBash, "run_shell_command", commandAndWhy},
		{ToolBash, "exec_command", func(c Call) []any { return []any{"cmd", c.Command} }},
		{ToolBash, "shell_command", command},
		{ToolBash, "shell", func(c Call) []any { return []any{"command", []string{"bash", "-lc", c.Command}} }},
		{ToolWrite, "Write", writeSnake},
		{ToolWrite, "write", func(c Call) []any { return []any{"filePath", c.File, "content", c.Content} }},
		{ToolWrite, "write_file", writeSnake},
		{ToolRead, "Read", readSnake},
		{ToolRead, "read", func(c Call) []any { return []any{"filePath", c.File} }},
		{ToolRead, "read_file", readSnake},
		{ToolSubagent, "Agent", delegate("general-purpose")},
		{ToolSubagent, "Task", delegate("general-purpose")},
		{ToolSubagent, "task", func(c Call) []any { return delegate("general")(Call{Prompt: c.Prompt}) }},
		{ToolSubagent, "invoke_agent", func(c Call) []any { return []any{"agent_name", "generalist", "prompt", c.Prompt} }},
		{ToolSubagent, teamSpawn, func(c Call) []any {
			return []any{"task_name", c.Task, "message", c.Prompt, "fork_turns", "none"}
		}},
		{ToolSubagent, "spawn_agent", func(c Call) []any { return []any{"message", c.Prompt} }},
		{ToolWait, teamWait, func(Call) []any { return []any{"timeout_ms", agentWait} }},
		{ToolWait, "wait_agent", func(c Call) []any { return []any{"targets", c.Agents, "timeout_ms", agentWait} }},
		{ToolWaitScript, codeWait, func(c Call) []any { return []any{"cell_id", c.Cell, "yield_time_ms", maxScriptWait} }},
		{ToolFinish, "complete_task", nil}, // its input is as the request describes it
	}
}

// The tools of newer models of Codex, whose subagents have names and answer by
// mail: one waits for any of them.
const (
	teamSpawn = "collaboration.spawn_agent"
	teamWait  = "collaboration.wait_agent"
)

// nextTask is a name for the next subagent, where subagents need names; each
// name is taken once.
func (c Conversation) nextTask() string {
	if !slices.Contains(c.Tools, teamSpawn) {
		return ""
	}
	n := 1
	for _, t := range c.Turns {
		for _, r := range t.Results {
			if r.Agent != "" {
				n++
			}
		}
	}
	return "job_" + strconv.Itoa(n)
}

// agentWait is how long Codex waits for its subagents, in milliseconds: long for one that is at
// work, and short for one that was lost with its host, of which a resumed script does not know.
const agentWait = 180_000

func command(c Call) []any { return []any{"command", c.Command} }

func commandAndWhy(c Call) []any {
	short := []rune(c.Command)
	return []any{"command", c.Command, "description", "run " + string(short[:min(len(short), 30)])}
}

func writeSnake(c Call) []any { return []any{"file_path", c.File, "content", c.Content} }
func readSnake(c Call) []any  { return []any{"file_path", c.File} }

func delegate(kind string) func(Call) []any {
	return func(c Call) []any {
		fields := []any{"description", "inner job", "prompt", c.Prompt, "subagent_type", kind}
		if c.Background {
			fields = append(fields, "run_in_background", true)
		}
		return fields
	}
}

// dialect is the names that an agent of a protocol has for the tools; they
// are used where a request offers none of a kind.
type dialect []string

func anthropicDialect() dialect { return dialect{"Bash", "Write", "Read", "Agent"} }
func chatDialect() dialect      { return dialect{"bash", "write", "read", "task"} }
func responsesDialect() dialect { return dialect{"exec_command", "spawn_agent", "wait_agent"} }
func geminiDialect() dialect {
	return dialect{"run_shell_command", "write_file", "read_file", "invoke_agent", "complete_task"}
}

// nativeCall is a call under the name of the tool on offer.
func nativeCall(c Call, offered []string, d dialect) (name string, input json.RawMessage) {
	switch c.Tool {
	case ToolNamed:
		return c.Name, c.Input
	case ToolFinish:
		_, name := find(ToolFinish, slices.Concat(offered, d))
		return name, c.Input
	}
	shell := c.byShell()
	for _, try := range []struct {
		call  Call
		names []string
	}{{c, offered}, {shell, offered}, {c, d}, {shell, d}} {
		if n, name := find(try.call.Tool, try.names); n != nil {
			return name, object(n.args(try.call)...)
		}
	}
	return "unknown", object()
}

// find returns the known tool of a kind that is among the names, and its full
// name there: tools may stand in a namespace.
func find(tool Tool, names []string) (*native, string) {
	for _, n := range natives() {
		if n.tool != tool {
			continue
		}
		i := slices.IndexFunc(names, func(name string) bool { return name == n.name || baseName(name) == n.name })
		if i >= 0 {
			return &n, names[i]
		}
	}
	return nil, ""
}

func baseName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// byShell does with a shell what an agent has no tool for.
func (c Call) byShell() Call {
	switch c.Tool {
	case ToolRead:
		return Call{Tool: ToolBash, Command: "cat " + shellFile(c.File)}
	case ToolWrite:
		text := shellQuoted(strings.TrimSuffix(c.Content, "\n"))
		return Call{Tool: ToolBash, Command: `printf '%s\n' ` + text + " > " + shellFile(c.File)}
	}
	return c
}

// bareWord matches what a shell takes for one word without quotes.
var bareWord = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

func shellFile(name string) string {
	if bareWord.MatchString(name) {
		return name
	}
	return shellQuoted(name)
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// waiting is how an agent lets a model wait for its subagents.
type waiting int

const (
	// waitsForNotice: a message reports that background work is done.
	waitsForNotice waiting = iota
	// waitsByCall: every subagent is in the background, and a tool waits.
	waitsByCall
	// waitsNever: every subagent is in the foreground.
	waitsNever
)

func waitingOf(tools []string) waiting {
	switch n, _ := find(ToolSubagent, tools); {
	case n == nil:
		return waitsForNotice
	case baseName(n.name) == "spawn_agent":
		return waitsByCall
	case n.name == "task", n.name == "invoke_agent":
		return waitsNever
	}
	return waitsForNotice
}

// object writes a JSON object with its fields in the order given, since
// readers see them appear one after the other.
func object(fields ...any) json.RawMessage {
	out := []byte{'{'}
	for i := 0; i < len(fields); i += 2 {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = append(out, quoted(fields[i])...)
		out = append(out, ": "...)
		out = append(out, quoted(fields[i+1])...)
	}
	return append(out, '}')
}

// quoted encodes without escaping <, > and &, as models don't.
func quoted(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("modelsim: encode: " + err.Error()) // only values of our own making come here
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
