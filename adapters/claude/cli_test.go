package claude

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/parity"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/internal/modelsim"
	"github.com/sojourn-run/sojourn/reducer"
)

// exchange is a real process of the agent against the scripted model. Both
// directions go through one translator, as they do behind a runner.
type exchange struct {
	t      *testing.T
	launch adapters.Launch
	model  *modelsim.Server
	env    []string

	cmd     *exec.Cmd
	stdin   io.WriteCloser
	readers sync.WaitGroup

	mu      sync.Mutex
	tr      adapters.Translator
	records []event.Record
	fold    *reducer.Builder
	// seen gets every event; the test takes those that it waits for.
	seen chan event.Event
}

// realAgent starts nothing yet: it finds the program, or skips the test.
func realAgent(t *testing.T) *exchange {
	t.Helper()
	program, err := New().Locate(func(name string) string {
		if name == ProgramVariable && os.Getenv(name) == "" {
			return pinned()
		}
		return os.Getenv(name)
	})
	if errors.Is(err, adapters.ErrNotInstalled) {
		t.Skipf("the real agent is not tested: %v", err)
	}
	require.NoError(t, err)
	model := modelsim.New(modelsim.Options{Pace: 5 * time.Millisecond})
	url, err := model.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(model.Close)
	tr, err := New().Translator(adapters.Launch{}, nil)
	require.NoError(t, err)
	x := &exchange{t: t, model: model, tr: tr, fold: reducer.NewBuilder(reducer.State{}), seen: make(chan event.Event, 1<<16)}
	session := uuid.NewString()
	x.launch = adapters.Launch{
		Program: program, Home: t.TempDir(), Workspace: t.TempDir(), SessionID: session,
		NativeID: New().NativeID(session, 1), Permission: adapters.PermissionAllow,
	}
	x.env = []string{"PATH=" + os.Getenv("PATH"), "ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-modelsim", "CLAUDE_CODE_MAX_RETRIES=1"}
	return x
}

// pinned is where the repository keeps its own copy of the agent.
func pinned() string {
	path := filepath.Join("..", "..", ".agents", "node_modules", ".bin", Name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// start writes the profile's files, runs the agent and introduces itself.
func (x *exchange) start(p adapters.Profile) {
	x.t.Helper()
	x.install(p)
	c, err := New().Command(x.launch)
	require.NoError(x.t, err)
	x.run(c)
}

// run starts the command.
func (x *exchange) run(c adapters.Command) {
	x.t.Helper()
	var err error
	x.cmd = exec.CommandContext(x.t.Context(), c.Argv[0], c.Argv[1:]...)
	x.cmd.Dir, x.cmd.Env = c.Dir, x.env
	for name, value := range c.Env {
		x.cmd.Env = append(x.cmd.Env, name+"="+value)
	}
	x.stdin, err = x.cmd.StdinPipe()
	require.NoError(x.t, err)
	stdout, err := x.cmd.StdoutPipe()
	require.NoError(x.t, err)
	stderr, err := x.cmd.StderrPipe()
	require.NoError(x.t, err)
	require.NoError(x.t, x.cmd.Start())
	x.read(stdout, event.DirOut)
	x.read(stderr, event.DirErr)
	x.write("init", adapters.Initialize{})
}

func (x *exchange) install(p adapters.Profile) {
	x.t.Helper()
	files, err := New().ProfileFiles(p, x.launch)
	require.NoError(x.t, err)
	for _, f := range files {
		base := x.launch.Home
		if f.Base == adapters.InWorkspace {
			base = x.launch.Workspace
		}
		path := filepath.Join(base, filepath.FromSlash(f.Path))
		require.NoError(x.t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(x.t, os.WriteFile(path, f.Data, os.FileMode(f.Mode)))
	}
}

func (x *exchange) read(r io.Reader, dir event.Dir) {
	x.readers.Go(func() {
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				x.record(dir, strings.TrimSuffix(line, "\n"))
			}
			if err != nil {
				return
			}
		}
	})
}

func (x *exchange) record(dir event.Dir, line string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := event.Record{TS: time.Now().UTC(), Dir: dir, Line: line}
	x.records = append(x.records, r)
	for _, e := range x.tr.Step(r) {
		x.fold.Add(e)
		x.seen <- e
	}
}

func (x *exchange) write(id string, in adapters.Input) {
	x.t.Helper()
	line, err := encode(x.launch, id, in)
	require.NoError(x.t, err)
	x.record(event.DirIn, string(line))
	_, err = x.stdin.Write(append(line, '\n'))
	require.NoError(x.t, err)
}

func (x *exchange) send(text string) string {
	x.t.Helper()
	id := uuid.NewString()
	x.write("prompt-"+id, adapters.Prompt{MessageID: id, Text: text})
	return id
}

// await takes events until one is wanted, and gives that.
func (x *exchange) await(wanted func(event.Event) bool) event.Event {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case e := <-x.seen:
			if wanted(e) {
				return e
			}
		case <-ctx.Done():
			require.FailNow(x.t, "the event did not come", "%s", pretty(x.t, x.state()))
		}
	}
}

func is[P event.Payload](e event.Event) bool {
	_, ok := e.Payload.(P)
	return ok
}

// ask sends a prompt and waits for the end of its turn.
func (x *exchange) ask(text string) event.SessionIdle {
	x.t.Helper()
	x.send(text)
	return x.await(is[event.SessionIdle]).Payload.(event.SessionIdle)
}

// stop closes the input and waits for the process.
func (x *exchange) stop() {
	x.t.Helper()
	require.NoError(x.t, x.stdin.Close())
	x.wait("exit 0")
}

// awaitOnDisk waits until the transcript holds a text: the agent writes it some
// time after it has spoken, and tells nobody when.
func (x *exchange) awaitOnDisk(text string) {
	x.t.Helper()
	require.Eventually(x.t, func() bool {
		found, err := filepath.Glob(filepath.Join(x.launch.Home, configDir, "projects", "*", x.launch.NativeID+".jsonl"))
		if err != nil || len(found) == 0 {
			return false
		}
		data, err := os.ReadFile(found[0])
		return err == nil && bytes.Contains(data, []byte(text))
	}, time.Minute, 10*time.Millisecond)
}

func (x *exchange) wait(how string) {
	x.readers.Wait()
	_ = x.cmd.Wait() // the exit code is not what is tested
	x.record(event.DirSig, how)
}

func (x *exchange) state() reducer.State {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.fold.State()
}

// restored is the conversation of the transcripts.
func (x *exchange) restored() reducer.State {
	x.t.Helper()
	home, err := adapters.OpenHome(x.launch.Home)
	require.NoError(x.t, err)
	found, err := New().Transcripts(home, x.launch)
	require.NoError(x.t, err)
	require.NotEmpty(x.t, found)
	var sources []adapters.Source
	for _, f := range found {
		sources = append(sources, adapters.Source{Transcript: f, Open: func() (io.ReadCloser, error) { return home.Open(f.Path) }})
	}
	restored, err := reducer.Fold(New().Parse(sources))
	require.NoError(x.t, err)
	return restored
}

// requireParity compares with the transcripts by the strict rules: a run in
// the agent's own mode must be equal.
func (x *exchange) requireParity() {
	x.t.Helper()
	diffs, err := parity.Compare(x.state(), x.restored(), parity.Rules{UnsentDepth: 2})
	require.NoError(x.t, err)
	for _, d := range diffs {
		x.t.Error(d)
	}
}

func TestRealConversation(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{})
	require.Equal(t, "end_turn", x.ask("SAY hello there").StopReason)
	x.ask("THINK deeply THEN TWO THEN SAY both")
	x.ask("TOOL write: " + filepath.Join(x.launch.Workspace, "a.txt") + " :: text")
	x.ask("SUBAGENT SUBAGENT TOOL bash: echo deep ANDANDTHEN SAY d2 ANDTHEN THINK d1")
	x.ask("/cost")
	x.ask("/compact")
	x.ask("SAY ")
	x.ask("SAY bye")
	require.FileExists(t, filepath.Join(x.launch.Workspace, "a.txt"))
	x.stop()
	require.Len(t, x.state().Subagents, 2)
	x.requireParity()
}

func TestRealInterruptAndSteering(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{})
	x.send("SAY partly THEN GATE stop")
	require.NoError(t, x.model.Waiting(t.Context(), "stop"))
	x.await(is[event.BlockDelta])
	x.write("i1", adapters.Interrupt{})
	require.True(t, x.await(is[event.SessionIdle]).Payload.(event.SessionIdle).Interrupted)

	x.send("GATE busy THEN TOOL bash: sleep 1")
	require.NoError(t, x.model.Waiting(t.Context(), "busy"))
	steering := x.send("SAY steered")
	x.model.Open("busy")
	folded := x.await(is[event.MessageFolded]).Payload.(event.MessageFolded)
	require.Equal(t, steering, folded.MessageID)
	x.await(is[event.SessionIdle])

	x.send("GATE more")
	require.NoError(t, x.model.Waiting(t.Context(), "more"))
	x.send("SAY one")
	x.send("SAY two")
	x.model.Open("more")
	x.await(is[event.MessageOwnTurn])
	x.await(is[event.SessionIdle])
	x.stop()
	x.requireParity()
}

func TestRealPermission(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.launch.Permission = adapters.PermissionAsk
	x.start(adapters.Profile{})
	file := filepath.Join(x.launch.Workspace, "asked.txt")
	for _, allow := range []bool{false, true} {
		x.send("TOOL write: " + file + " :: text")
		asked := x.await(is[event.PermissionRequested]).Payload.(event.PermissionRequested)
		require.Equal(t, "Write", asked.ToolName)
		x.write("answer", adapters.Answer{RequestID: asked.RequestID, Allow: allow, Message: "not now", Input: asked.Input})
		resolved := x.await(is[event.PermissionResolved]).Payload.(event.PermissionResolved)
		require.Equal(t, map[bool]string{true: "allow", false: "deny"}[allow], resolved.Decision)
		x.await(is[event.SessionIdle])
		_, err := os.Stat(file)
		require.Equal(t, allow, err == nil)
	}
	x.write("p", adapters.SetPermission{Permission: adapters.PermissionAllow})
	x.await(is[event.OptionsUpdate])
	x.ask("TOOL bash: touch " + filepath.Join(x.launch.Workspace, "free.txt"))
	require.FileExists(t, filepath.Join(x.launch.Workspace, "free.txt"))
	x.stop()
	x.requireParity()
}

func TestRealErrorsAndBackground(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{})
	require.Equal(t, "api_error_400", x.ask("ERR400").Error.Code)
	require.NotNil(t, x.ask("CUT").Error)
	x.send("SUBAGENTBG TOOL bash: sleep 1 ANDTHEN SAY from behind")
	done := x.await(is[event.SubagentCompleted]).Payload.(event.SubagentCompleted)
	require.Equal(t, "from behind", *done.Output)
	x.await(is[event.SessionIdle])
	x.stop()
	x.requireParity()
}

// Killed in the middle of a text, the session goes on with --resume; what was
// being said is lost, and nothing else.
func TestRealKillAndResume(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{})
	x.ask("SAY first")
	x.send("SAY half THEN GATE never")
	require.NoError(t, x.model.Waiting(t.Context(), "never"))
	x.await(is[event.BlockDelta])
	x.awaitOnDisk("THEN GATE never")
	require.NoError(t, x.cmd.Process.Kill())
	x.wait("signal killed")
	for _, e := range parity.Unsaved(x.state(), x.restored(), time.Now()) {
		x.fold.Add(e) // a block that was whole, and not yet written
	}
	x.launch.Resume = true
	x.start(adapters.Profile{})
	require.Contains(t, x.ask("RECALL").StopReason, "end_turn")
	x.stop()
	x.requireParity()
}

// The profile's files are known to the agent without a trace in the workspace.
func TestRealProfile(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{
		ID: "p", Instructions: "MARK-INSTRUCTIONS",
		Rules:      map[string]string{"style": "MARK-RULE"},
		Skills:     map[string]map[string]string{"labskill": {"SKILL.md": "---\nname: labskill\ndescription: MARK-SKILL\n---\nbody\n"}},
		Subagents:  map[string]string{"reviewer": "---\nname: reviewer\ndescription: MARK-AGENT\n---\nYou review.\n"},
		Commands:   map[string]string{"labcmd": "SAY expanded $ARGUMENTS\n"},
		MCPServers: map[string]adapters.MCPServer{"dead": {Command: "/bin/false"}},
		BundledMCP: map[string]adapters.BundledMCP{"kit": {
			Files: map[string]string{"server.sh": mcpScript}, Start: []string{"sh", "./server.sh"}}},
	})
	x.ask("SAY hi")
	x.ask("/labcmd now")
	x.ask(`CALL mcp__kit__echo {"text":"x"} THEN SAY done`)
	x.ask(`CALL Skill {"skill":"labskill"} THEN SAY ok`)
	x.stop()
	entries, err := os.ReadDir(x.launch.Workspace)
	require.NoError(t, err)
	require.Empty(t, entries)
	var sent bytes.Buffer
	for _, r := range x.model.Recorded() {
		data, err := json.Marshal(r)
		require.NoError(t, err)
		sent.Write(data)
	}
	for _, mark := range []string{"MARK-INSTRUCTIONS", "MARK-RULE", "MARK-SKILL", "MARK-AGENT"} {
		require.Contains(t, sent.String(), mark)
	}
	state := pretty(t, x.state())
	require.Contains(t, state, "expanded now")
	require.Contains(t, state, "from the kit")
	require.Contains(t, state, `"skill_load"`)
	x.requireParity()
}

// mcpScript is an MCP server with one tool, in shell.
const mcpScript = `while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
  *'"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"kit","version":"1"}}' ;;
  *'"tools/list"'*) r='{"tools":[{"name":"echo","description":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}' ;;
  *'"tools/call"'*) r='{"content":[{"type":"text","text":"from the kit"}]}' ;;
  *) continue ;;
  esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
`
