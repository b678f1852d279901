package acp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/acp"
)

// Name is the agent's name in commands and registries.
const Name = "acp"

// The worker's environment variables that choose the program: its command line,
// and its own files that are part of a session.
const (
	ProgramVariable = "SOJOURN_ACP"
	FilesVariable   = "SOJOURN_ACP_FILES"
)

// Adapter runs the program that SOJOURN_ACP names. It holds no state and is safe
// for concurrent use.
type Adapter struct{}

var (
	_ adapters.Adapter  = (*Adapter)(nil)
	_ adapters.Exporter = (*Adapter)(nil)
	_ adapters.Wrapped  = (*Adapter)(nil)
)

// New returns the adapter.
func New() *Adapter { return &Adapter{} }

// Info returns what the protocol can carry; a program may support less.
func (*Adapter) Info() adapters.Info {
	return adapters.Info{
		Name: Name, Product: "any agent that speaks ACP", Architecture: "acp",
		Mode:  "one long-lived process, Agent Client Protocol on stdio, whatever command line `" + ProgramVariable + "` holds",
		Files: "`" + recordFile + "`, all that was said, byte for byte; with `" + FilesVariable + "` the program's own files, what changed in them",
		Capabilities: adapters.Capabilities{
			PartialText: true, Thinking: true, Approve: true, SetModel: true, Interrupt: true, Images: true, Cost: true,
		},
		Variables: variables(),
		Limits: []string{
			"The abilities are those of the protocol: a program that lacks one may report that, or not.",
			"Whether it asks before it acts is the program's own setting; the standing permission answers what it asks.",
			"What the workspace's own settings allow or run, the program does without asking.",
			"A denial reaches the program without the words that go with it.",
			"A program that offers no way to allow a call once is refused it, also where the answer is allow: allowed always, it would run later calls unasked. One that can't be refused once is refused for good.",
			"Subagents of the program are tool calls like others; their own blocks are not streamed.",
			"A tool call has the name of its kind (execute, edit, read, …) where the program reports one, and its own name else.",
			"Retries of the model's API are reported only if the program reports them.",
			"Of a profile it takes the MCP servers and the workspace's files. A profile with instructions, rules, skills, subagents, commands or bundled MCP servers is refused: " +
				"where the program looks for them is not known, so they must be among the workspace's files (`AGENTS.md`, …).",
			"Without `" + FilesVariable + "`, or without session/load, the program forgets the conversation when it moves to another host; a block says so.",
			"So does a program whose sessions are tied to the folder in which they were started, if the workspace has another path there: the first message fails, then a new session is started.",
			"A program that resumes only by session/load sends its whole history again for each new process, and it is recorded again.",
			"What `" + FilesVariable + "` names is archived when it holds still, at the latest when the program has ended.",
		},
	}
}

// variables returns those that choose the program.
func variables() []adapters.Variable {
	return []adapters.Variable{
		{Name: ProgramVariable, About: "of the worker: the command line to run, in shell words, as in `opencode acp`"},
		{Name: FilesVariable, About: "of the worker: globs of the program's own files in its home, with colons between, as in `.local/share/opencode/opencode.db*`"},
	}
}

// Locate finds the program that SOJOURN_ACP names, by its path or in PATH, and
// returns the command line with the path filled in and SOJOURN_ACP_FILES before it.
func (*Adapter) Locate(getenv func(string) string) (string, error) {
	line := getenv(ProgramVariable)
	if strings.TrimSpace(line) == "" {
		return "", fmt.Errorf(`%w: set %s to the command line of a program that speaks ACP on stdio, such as "opencode acp"`,
			adapters.ErrNotInstalled, ProgramVariable)
	}
	c, err := readCommandLine(line)
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", adapters.ErrNotInstalled, ProgramVariable, err)
	}
	if c.argv[0], err = find(getenv, c.argv[0]); err != nil {
		return "", err
	}
	if files := getenv(FilesVariable); files != "" {
		if _, err := globsOf(files); err != nil {
			return "", fmt.Errorf("%w: %s: %w", adapters.ErrNotInstalled, FilesVariable, err)
		}
		c.env = append([]string{FilesVariable + "=" + files}, c.env...)
	}
	return c.String(), nil
}

// find returns a program's path by its name, or by its path if it has slashes.
func find(getenv func(string) string, name string) (string, error) {
	return adapters.FindProgram(func(variable string) string {
		switch {
		case variable != ProgramVariable:
			return getenv(variable)
		case strings.Contains(name, "/"):
			return name
		}
		return ""
	}, ProgramVariable, name, "install "+name)
}

// ProgramFile returns the program's path in a command line that Locate returned.
func (*Adapter) ProgramFile(program string) string {
	c, err := readCommandLine(program)
	if err != nil {
		return program
	}
	return c.argv[0]
}

// NativeID returns "": the agent chooses.
func (*Adapter) NativeID(string, int) string { return "" }

// Translator starts the translation at a state; see the package comment.
func (*Adapter) Translator(l adapters.Launch, state json.RawMessage) (adapters.Translator, error) {
	return acp.New(newDialect(), l, state)
}
