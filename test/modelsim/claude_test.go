package modelsim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/recordings"
	"github.com/sojourn-run/sojourn/test/skip"
)

// claude is the real command line in a home of its own, with a model server.
type claude struct {
	*bench
	t       *testing.T
	program string
	work    string
	session string
	env     []string
}

func newClaude(t *testing.T) *claude {
	t.Helper()
	skip.InShort(t, "the conformance suites have the agents talk to the model")
	program, err := filepath.Abs("../../.agents/node_modules/.bin/claude")
	require.NoError(t, err)
	if _, err := os.Stat(program); err != nil {
		skip.Without(t, "claude: make agents installs it")
	}
	b := start(t, Options{})
	c := &claude{bench: b, t: t, program: program, work: t.TempDir(), session: uuid.NewString()}
	c.env = []string{
		"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "TERM=dumb", "LANG=C.UTF-8", "IS_SANDBOX=1",
		"ANTHROPIC_BASE_URL=" + b.url, "ANTHROPIC_API_KEY=sk-dummy",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_MAX_RETRIES=1",
	}
	return c
}

func (c *claude) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	c.t.Cleanup(cancel)
	flags := []string{"-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--dangerously-skip-permissions"}
	cmd := exec.CommandContext(ctx, c.program, append(flags, args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.work, c.env, 5*time.Second
	return cmd
}

// ask runs one prompt to its end. The exit status is not looked at: it is 1
// for an error of the model, which some tests are about.
func (c *claude) ask(prompt string, more ...string) []line {
	c.t.Helper()
	args := append([]string{"--session-id", c.session}, more...)
	if len(more) > 0 {
		args = more
	}
	cmd := c.command(append(args, prompt)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	lines := parseLines(c.t, bytes.NewReader(out))
	require.NotEmpty(c.t, lines, "%v: %s", err, stderr.String())
	return lines
}

// line is what the tests read of a line of the command line's output.
type line struct {
	Type    string
	Subtype string
	State   string
	Result  string
	IsError bool    `json:"is_error"`
	Parent  *string `json:"parent_tool_use_id"`
	Replay  bool    `json:"isReplay"`
	Message struct {
		Content json.RawMessage
	}
	Event struct {
		Type  string
		Block struct{ Type string } `json:"content_block"`
		Delta struct{ Type string }
	}
}

func parseLines(t *testing.T, r io.Reader) []line {
	t.Helper()
	var out []line
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		var l line
		require.NoError(t, json.Unmarshal(scan.Bytes(), &l), scan.Text())
		out = append(out, l)
	}
	return out
}

// shape names a line by its kind, or is "" for kinds that come and go with
// timing, settings and machine.
func (l line) shape() string {
	switch l.Type {
	case "system":
		if l.Subtype == "init" || l.Subtype == "status" {
			return "system/" + l.Subtype
		}
		return ""
	case "stream_event":
		return strings.TrimRight(strings.Join([]string{l.Event.Type, l.Event.Block.Type, l.Event.Delta.Type}, "/"), "/")
	case "assistant", "user":
		return l.Type + "/" + contentKinds(l.Message.Content)
	}
	return l.Type + "/" + l.Subtype
}

func contentKinds(raw json.RawMessage) string {
	blocks, err := decodeContent(raw)
	if err != nil {
		return "?"
	}
	var kinds []string
	for _, b := range blocks {
		kinds = append(kinds, b.Type)
	}
	return strings.Join(kinds, "+")
}

// shapes is the story of the main conversation and that of its subagents;
// runs of one kind count once, as text may be cut into any number of deltas.
func shapes(lines []line) (main, inner []string) {
	for _, l := range lines {
		list := &main
		if l.Parent != nil {
			list = &inner
		}
		s := l.shape()
		if n := len(*list); s == "" || n > 0 && (*list)[n-1] == s {
			continue
		}
		*list = append(*list, s)
	}
	return main, inner
}

func last(t *testing.T, lines []line) line {
	t.Helper()
	l := lines[len(lines)-1]
	require.Equal(t, "result", l.Type)
	return l
}

// The real command line, asked the same, reports the same as in the
// recordings.
func TestClaudeBehavesAsRecorded(t *testing.T) {
	t.Parallel()
	folder := recordings.Dir(t, "claude")
	for name, prompt := range map[string]string{
		"new-session":    "SAY hello wonderful world from the fake model",
		"thinking":       "THINK the meaning of life is difficult to find",
		"tool-success":   "TOOL bash: echo hi; pwd",
		"tool-failure":   "TOOL bash: ls /nonexistent; exit 3",
		"tool-write":     "TOOL write: out.txt :: hello file",
		"parallel-tools": "TWO",
		"subagent":       "SUBAGENT TOOL bash: echo in-sub ANDTHEN SAY sub is done",
		"api-error-400":  "ERR400",
		"api-error-500":  "ERR500",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClaude(t)
			f, err := os.Open(filepath.Join(folder, name, "stdout.jsonl"))
			require.NoError(t, err)
			defer f.Close()
			recorded := parseLines(t, f)
			lines := c.ask(prompt)
			wantMain, wantInner := shapes(recorded)
			gotMain, gotInner := shapes(lines)
			require.Equal(t, wantMain, gotMain)
			require.Equal(t, wantInner, gotInner)
			require.Equal(t, last(t, recorded).IsError, last(t, lines).IsError)
		})
	}
}

func TestClaudeOneShots(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]struct {
		result   string
		requests int
	}{
		"SAY hello there":   {"hello there", 1},
		"hello there":       {"You said: hello there", 1},
		"THINK about it":    {"I thought about: about it", 1},
		"TWO THEN SAY done": {"done", 2},
		"ERR400":            {"API Error: 400 scripted error 400", 1},
		"SUBAGENT TOOL bash: echo in ANDTHEN SAY inner THEN SAY outer": {"outer", 4},
		"SUBAGENTBG SAY inner THEN WAITAGENT THEN SAY outer":           {"outer", 4},
		"SUBAGENT SUBAGENT SAY deep ANDTHEN SAY mid THEN SAY top":      {"top", 5},
	} {
		t.Run(prompt, func(t *testing.T) {
			t.Parallel()
			c := newClaude(t)
			got := last(t, c.ask(prompt))
			require.True(t, strings.HasPrefix(got.Result, want.result), got.Result)
			require.Equal(t, want.requests, c.sim.Requests(c.session))
		})
	}
}

func TestClaudeWritesAFile(t *testing.T) {
	t.Parallel()
	c := newClaude(t)
	got := last(t, c.ask("TOOL write: out.txt :: hello file THEN TOOL read: out.txt"))
	require.Contains(t, got.Result, "FINAL after 2 tool result(s): ")
	content, err := os.ReadFile(filepath.Join(c.work, "out.txt"))
	require.NoError(t, err)
	require.Equal(t, "hello file\n", string(content))
}

func TestClaudeRemembersAfterResume(t *testing.T) {
	t.Parallel()
	c := newClaude(t)
	c.ask("TOOL bash: echo one")
	got := last(t, c.ask("RECALL", "--resume", c.session))
	require.Equal(t, "RECALL I saw 1 earlier prompts: TOOL bash: echo one", got.Result)
	require.Equal(t, 3, c.sim.Requests(c.session))
	for _, p := range c.sim.Stats().Sessions[c.session].Prompts {
		for step, n := range p.Steps {
			require.Equal(t, 1, n, "%s, step %d", p.Text, step)
		}
	}
}

// An answer that was cut before a block was complete is asked for again, by
// the command line's own rules.
func TestClaudeRetriesACut(t *testing.T) {
	t.Parallel()
	c := newClaude(t)
	got := last(t, c.ask("CUT"))
	require.Contains(t, got.Result, "Unable to connect to API")
	require.True(t, got.IsError)
	require.Greater(t, c.sim.Requests(c.session), 1)
}

// live is a long-lived process that is spoken to over its standard input.
type live struct {
	*claude
	stdin io.WriteCloser
	out   *bufio.Scanner
}

func (c *claude) live() *live {
	c.t.Helper()
	c.env = append(c.env, "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1")
	cmd := c.command("--input-format", "stream-json", "--replay-user-messages", "--session-id", c.session)
	stdin, err := cmd.StdinPipe()
	require.NoError(c.t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	l := &live{claude: c, stdin: stdin, out: bufio.NewScanner(stdout)}
	l.out.Buffer(nil, 16<<20)
	c.t.Cleanup(func() {
		stdin.Close()
		for l.out.Scan() { // the process ends only when it is read to the end
		}
		if err := cmd.Wait(); err != nil && !c.t.Failed() {
			c.t.Errorf("claude: %v", err)
		}
	})
	return l
}

func (l *live) write(v any) {
	l.t.Helper()
	require.NoError(l.t, json.NewEncoder(l.stdin).Encode(v))
}

func (l *live) say(text string) {
	l.t.Helper()
	l.write(map[string]any{
		"type": "user", "parent_tool_use_id": nil, "session_id": l.session,
		"message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}}},
	})
}

// until reads up to the line that stop wants.
func (l *live) until(stop func(line) bool) []line {
	l.t.Helper()
	var out []line
	for l.out.Scan() {
		var next line
		require.NoError(l.t, json.Unmarshal(l.out.Bytes(), &next))
		out = append(out, next)
		if stop(next) {
			return out
		}
	}
	require.Fail(l.t, "claude ended", "%v", l.out.Err())
	return nil
}

func idle(l line) bool   { return l.State == "idle" }
func called(l line) bool { return l.shape() == "assistant/tool_use" }

func (l *live) result() string {
	l.t.Helper()
	var text string
	for _, next := range l.until(idle) {
		if next.Type == "result" {
			text = next.Result
		}
	}
	return text
}

func TestClaudeLongLived(t *testing.T) {
	t.Parallel()
	l := newClaude(t).live()
	for i, turn := range []struct{ prompt, want string }{
		// In a one-shot run the command line may leave before a slow reader
		// has got all of a large answer, so the large one is asked for here.
		{"BIG 64000", strings.Repeat(strings.Repeat("0123456789abcdef", 4)[:63]+"\n", 1000)},
		{"SAY one", "one"},
		{"THINK x", "I thought about: x"},
		{"TWO THEN SAY two", "two"},
		{"RECALL", "RECALL I saw 4 earlier prompts: BIG 64000 || SAY one || THINK x || TWO THEN SAY two"},
	} {
		l.say(turn.prompt)
		require.Equal(t, turn.want, l.result(), i)
	}
	require.Equal(t, 6, l.sim.Requests(l.session))
}

// A message sent while a tool runs reaches the model beside the tool's result.
func TestClaudeFoldsAMessage(t *testing.T) {
	t.Parallel()
	l := newClaude(t).live()
	l.say("TOOL bash: while [ ! -e go ]; do :; done; echo slept")
	l.until(called)
	l.say("SAY steer")
	// The reply to a later request proves that the message was read.
	l.write(map[string]any{"type": "control_request", "request_id": "r", "request": map[string]any{"subtype": "get_settings"}})
	l.until(func(l line) bool { return l.Type == "control_response" })
	require.NoError(t, os.WriteFile(filepath.Join(l.work, "go"), nil, 0o600))
	got := l.result()
	require.Contains(t, got, "FINAL after 1 tool result(s): slept")
	require.Contains(t, got, "SAY steer")
	l.say("RECALL")
	require.Contains(t, l.result(), "slept || SAY steer")
}

// A gate holds a turn in its middle, so that a test needs no sleep.
func TestClaudeIsInterruptedAtAGate(t *testing.T) {
	t.Parallel()
	l := newClaude(t).live()
	l.say("GATE held THEN SAY never")
	require.NoError(t, l.sim.Waiting(t.Context(), "held"))
	l.until(func(l line) bool { return l.Event.Delta.Type == "text_delta" })
	l.write(map[string]any{"type": "control_request", "request_id": "r", "request": map[string]any{"subtype": "interrupt"}})
	interrupted := false
	for _, next := range l.until(idle) {
		interrupted = interrupted || next.Type == "result" && next.Subtype == "error_during_execution"
	}
	require.True(t, interrupted)
	l.say("RECALL")
	require.Equal(t, "RECALL I saw 1 earlier prompts: GATE held THEN SAY never", l.result())
}

// An answer of which a block was complete is kept, and not asked for again.
func TestClaudeKeepsWhatCameBeforeACut(t *testing.T) {
	t.Parallel()
	l := newClaude(t).live()
	l.say("SAY kept THEN GATE held THEN CUT")
	l.until(func(l line) bool { return l.shape() == "assistant/text" })
	l.sim.Open("held")
	require.Contains(t, l.result(), "Connection closed mid-response")
	require.Equal(t, 1, l.sim.Requests(l.session))
	l.say("SAY well") // the exit status is that of the last answer
	require.Equal(t, "well", l.result())
}
