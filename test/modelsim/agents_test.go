package modelsim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/skip"
)

// agent is how a real command line is run without its screen.
type agent struct {
	// name distinguishes agents, program is what runs.
	name, program string
	// prepare writes what it reads at home and returns its environment.
	prepare func(t *testing.T, home, url string) (env []string)
	// command returns the arguments and the standard input of one prompt; resume
	// is the session to go on with, or "".
	command func(prompt, resume string) (args []string, stdin string)
	// read takes one line of its output in.
	read func(t *testing.T, line []byte, a *answered)
}

// answered is what came of one prompt.
type answered struct {
	session string
	text    string
	outputs []string
	thought bool
	failed  string
	code    int
}

func agents() []agent {
	return []agent{
		{"codex", "codex", prepareCodex("fake-model"), commandCodex, readCodexLine},
		// The program's own models call tools by scripts.
		{"codex-scripts", "codex", prepareCodex(""), commandCodex, readCodexLine},
		{"gemini", "gemini", prepareGemini, commandGemini, readGeminiLine},
		{"opencode", "opencode", prepareOpenCode, commandOpenCode, readOpenCodeLine},
	}
}

// cli is one installed agent in a home of its own, with a model server.
type cli struct {
	*bench
	agent
	t    *testing.T
	file string
	work string
	home string
	env  []string
}

func newCLI(t *testing.T, a agent) *cli {
	t.Helper()
	skip.InShort(t, "the conformance suites have the agents talk to the model")
	bin, err := filepath.Abs("../../.agents/bin")
	require.NoError(t, err)
	c := &cli{agent: a, t: t, file: filepath.Join(bin, a.program)}
	if _, err := os.Stat(c.file); err != nil {
		skip.Without(t, a.program+": make agents installs it")
	}
	c.bench, c.work, c.home = start(t, Options{}), t.TempDir(), t.TempDir()
	c.env = append(a.prepare(t, c.home, c.url),
		"HOME="+c.home, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "TERM=dumb", "LANG=C.UTF-8")
	return c
}

// process is a command whose children end with it: some agents leave a helper
// behind that would write into a folder that is being removed.
func (c *cli) process(ctx context.Context, prompt, resume string) *exec.Cmd {
	args, stdin := c.command(prompt, resume)
	cmd := exec.CommandContext(ctx, c.file, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.work, c.env, 5*time.Second
	cmd.Stdin = strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// ask runs one prompt to its end.
func (c *cli) ask(prompt, resume string) answered {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Minute)
	defer cancel()
	cmd := c.process(ctx, prompt, resume)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		require.NoError(c.t, err)
	}
	var exit *exec.ExitError
	require.True(c.t, err == nil || errors.As(err, &exit), "%v: %s", err, stderr.String())
	a := answered{code: cmd.ProcessState.ExitCode()}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		c.read(c.t, lines.Bytes(), &a)
	}
	if resume == "" && a.code == 0 {
		require.NotEmpty(c.t, a.text, stderr.String())
	}
	return a
}

// counted is the session's share of the requests. Gemini names no session by
// itself, so its command line names one.
func (c *cli) counted(a answered) SessionStats {
	id := a.session
	if c.name == "gemini" {
		id = "named-by-the-test"
	}
	return c.sim.Stats().Sessions[id]
}

// prepareCodex is for one model, or for the program's own.
func prepareCodex(model string) func(t *testing.T, home, url string) []string {
	return func(t *testing.T, home, url string) []string {
		t.Helper()
		config := `model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[model_providers.fake]
name = "Fake"
base_url = "` + url + `/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
supports_websockets = false
`
		if model != "" {
			config = "model = \"" + model + "\"\n" + config
		}
		require.NoError(t, os.Mkdir(filepath.Join(home, ".codex"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(home, ".codex", "config.toml"), []byte(config), 0o600))
		return Environment(url)
	}
}

func commandCodex(prompt, resume string) (args []string, stdin string) {
	args = []string{"exec", "--json", "--skip-git-repo-check"}
	if resume != "" {
		args = append(args, "resume", resume)
	}
	return append(args, prompt), ""
}

func readCodexLine(t *testing.T, line []byte, a *answered) {
	t.Helper()
	var l struct {
		Type, Message string
		Thread        string `json:"thread_id"`
		Item          struct {
			Type, Text string
			Output     string `json:"aggregated_output"`
		}
		Error struct{ Message string }
	}
	require.NoError(t, json.Unmarshal(line, &l), string(line))
	a.session += l.Thread
	a.failed += l.Error.Message
	if l.Type != "item.completed" {
		return
	}
	switch l.Item.Type {
	case "agent_message":
		a.text = l.Item.Text
	case "reasoning":
		a.thought = true
	case "command_execution":
		a.outputs = append(a.outputs, l.Item.Output)
	}
}

func prepareGemini(t *testing.T, home, url string) []string {
	t.Helper()
	settings := `{"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}},` +
		`"telemetry":{"enabled":false},"privacy":{"usageStatisticsEnabled":false},` +
		`"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},"ide":{"enabled":false}}`
	require.NoError(t, os.Mkdir(filepath.Join(home, ".gemini"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gemini", "settings.json"), []byte(settings), 0o600))
	return append(Environment(url), "GEMINI_CLI_NO_RELAUNCH=true", "TMPDIR="+home,
		"GEMINI_CLI_CUSTOM_HEADERS=X-Session-Id: named-by-the-test")
}

func commandGemini(prompt, resume string) (args []string, stdin string) {
	args = []string{"-m", "gemini-2.5-pro", "-o", "stream-json", "--skip-trust", "-y", "-p", prompt}
	if resume != "" {
		return append(args, "--resume", resume), ""
	}
	return append(args, "--session-id", uuid.NewString()), ""
}

func readGeminiLine(t *testing.T, line []byte, a *answered) {
	t.Helper()
	var l struct {
		Type, Role, Content, Output string
		Session                     string `json:"session_id"`
		Error                       struct{ Message string }
	}
	require.NoError(t, json.Unmarshal(line, &l), string(line))
	a.session += l.Session
	a.failed += l.Error.Message
	switch {
	case l.Type == "message" && l.Role == "assistant":
		a.text += l.Content
	case l.Type == "tool_result":
		a.outputs = append(a.outputs, l.Output)
	}
}

func prepareOpenCode(_ *testing.T, _, url string) []string {
	return append(Environment(url), "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1")
}

func commandOpenCode(prompt, resume string) (args []string, stdin string) {
	args = []string{"run", "--format", "json", "--auto", "--thinking"}
	if resume != "" {
		args = append(args, "--session", resume)
	}
	return args, prompt
}

func readOpenCodeLine(t *testing.T, line []byte, a *answered) {
	t.Helper()
	var l struct {
		Type    string
		Session string `json:"sessionID"`
		Part    struct {
			Text  string
			State struct{ Output string }
		}
		Error struct{ Data struct{ Message string } }
	}
	require.NoError(t, json.Unmarshal(line, &l), string(line))
	a.session = l.Session
	a.failed += l.Error.Data.Message
	switch l.Type {
	case "text":
		a.text = l.Part.Text
	case "reasoning":
		a.thought = true
	case "tool_use":
		a.outputs = append(a.outputs, l.Part.State.Output)
	}
}

// forAgents runs a test with each agent.
func forAgents(t *testing.T, test func(t *testing.T, c *cli)) {
	t.Helper()
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			test(t, newCLI(t, a))
		})
	}
}

// What each agent makes of a script, how its answer ends, and how often it
// asks the model for that.
func TestAgentsFollowScripts(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]struct {
		text     string
		requests map[string]int
	}{
		"SAY hello there":   {"hello there", map[string]int{"codex": 1, "codex-scripts": 1, "gemini": 1, "opencode": 1}},
		"TWO THEN SAY done": {"done", map[string]int{"codex": 2, "codex-scripts": 2, "gemini": 2, "opencode": 2}},
		// Codex waits for its subagent by one more call.
		"SUBAGENT TOOL bash: echo in ANDTHEN SAY inner":      {"inner", map[string]int{"codex": 5, "codex-scripts": 5, "gemini": 4, "opencode": 4}},
		"SUBAGENTBG SAY inner THEN WAITAGENT THEN SAY outer": {"outer", map[string]int{"codex": 4, "codex-scripts": 4, "gemini": 3, "opencode": 3}},
		// Only Codex's own models may start subagents from one: elsewhere the call fails, and the script continues.
		"SUBAGENT SUBAGENT SAY deep ANDTHEN SAY mid THEN SAY top": {"top", map[string]int{"codex": 5, "codex-scripts": 7, "gemini": 4, "opencode": 4}},
	} {
		t.Run(prompt, func(t *testing.T) {
			t.Parallel()
			forAgents(t, func(t *testing.T, c *cli) {
				got := c.ask(prompt, "")
				require.Zero(t, got.code, got.failed)
				require.Contains(t, got.text, want.text)
				stats := c.counted(got)
				require.Equal(t, want.requests[c.name], stats.Requests)
				requirePaidOnce(t, stats)
				require.Equal(t, c.name == "opencode", stats.Side == 1, "OpenCode asks for a title")
			})
		})
	}
}

// requirePaidOnce asserts that no answer was asked for twice.
func requirePaidOnce(t *testing.T, s SessionStats) {
	t.Helper()
	for _, p := range s.Prompts {
		for step, n := range p.Steps {
			require.Equal(t, 1, n, "%s, step %d", p.Text, step)
		}
	}
}

func TestAgentsThink(t *testing.T) {
	t.Parallel()
	forAgents(t, func(t *testing.T, c *cli) {
		got := c.ask("THINK the meaning of life", "")
		require.Contains(t, got.text, "I thought about: the meaning of life")
		if c.name != "gemini" {
			require.True(t, got.thought)
			return
		}
		files, err := filepath.Glob(filepath.Join(c.home, ".gemini/tmp/*/chats/*.jsonl"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		chat, err := os.ReadFile(files[0])
		require.NoError(t, err)
		require.Contains(t, string(chat), `"subject":"Considering","description":"Let me think about this: the meaning of life"`)
	})
}

func TestAgentsWriteAndReadAFile(t *testing.T) {
	t.Parallel()
	forAgents(t, func(t *testing.T, c *cli) {
		got := c.ask("TOOL write: out.txt :: hello it's <a> file THEN TOOL read: out.txt", "")
		require.Contains(t, got.text, "FINAL after 2 tool result(s): ")
		content, err := os.ReadFile(filepath.Join(c.work, "out.txt"))
		require.NoError(t, err)
		require.Equal(t, "hello it's <a> file\n", string(content))
		require.Len(t, got.outputs, 2)
	})
}

func TestAgentsToldOfAnError(t *testing.T) {
	t.Parallel()
	forAgents(t, func(t *testing.T, c *cli) {
		got := c.ask("ERR400", "")
		require.NotZero(t, got.code)
		require.Contains(t, got.failed, "scripted error 400")
		require.Equal(t, 1, c.counted(got).Requests)
	})
}

func TestAgentsRememberAfterResume(t *testing.T) {
	t.Parallel()
	forAgents(t, func(t *testing.T, c *cli) {
		first := c.ask("TOOL bash: echo one", "")
		got := c.ask("RECALL", first.session)
		require.Equal(t, "RECALL I saw 1 earlier prompts: TOOL bash: echo one", got.text)
		require.Equal(t, first.session, got.session)
		stats := c.counted(first)
		require.Equal(t, 3, stats.Requests)
		requirePaidOnce(t, stats)
	})
}

// Each agent reports a connection that was cut in its own way: Codex asks
// again and gives up, Gemini gives up, OpenCode asks again without end.
func TestAgentsAreCut(t *testing.T) {
	t.Parallel()
	forAgents(t, func(t *testing.T, c *cli) {
		if c.name != "opencode" {
			got := c.ask("CUT", "")
			require.NotZero(t, got.code)
			require.NotEmpty(t, got.failed)
			require.Equal(t, map[string]int{"codex": 2, "codex-scripts": 2, "gemini": 1}[c.name], c.counted(got).Requests)
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cmd := c.process(ctx, "CUT", "")
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool {
			for _, s := range c.sim.Stats().Sessions {
				if s.Requests > 1 {
					return true
				}
			}
			return false
		}, 3*time.Minute, 20*time.Millisecond)
		cancel()
		require.Error(t, cmd.Wait())
	})
}

// A gate holds a turn of each agent, and lets it go.
func TestAgentsWaitAtAGate(t *testing.T) {
	t.Parallel()
	forAgents(t, func(t *testing.T, c *cli) {
		opened := make(chan error, 1)
		go func() {
			err := c.sim.Waiting(t.Context(), "held")
			c.sim.Open("held")
			opened <- err
		}()
		got := c.ask("GATE held THEN SAY after", "")
		require.NoError(t, <-opened)
		require.Contains(t, got.text, "after", fmt.Sprint(got))
	})
}
