package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// terminal is a terminal for a test to type in: a tmux server of its own.
type terminal struct {
	t    *testing.T
	name string
}

// openTerminal runs a command in a terminal of 100 columns. It skips the test if tmux
// is not installed.
func openTerminal(t *testing.T, command ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		skip.Without(t, "tmux: apt-get install tmux")
	}
	term := &terminal{t, "sojourn-" + uuid.NewString()}
	// The shell keeps the terminal open after the command has exited, and ignores the
	// Ctrl-C for the command.
	term.tmux(append([]string{"-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "60",
		"sh", "-c", `trap : INT; "$@"; echo "left with $?"; cat`, "sh"}, command...)...)
	t.Cleanup(func() { term.tmux("kill-server") })
	return term
}

func (x *terminal) tmux(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", x.name}, args...)...).CombinedOutput()
	require.NoError(x.t, err, "tmux %s: %s", strings.Join(args, " "), out)
	return string(out)
}

// types waits for the prompt and types a line.
func (x *terminal) types(line string) {
	x.t.Helper()
	x.shows(`^› *$`)
	x.tmux("send-keys", "-l", line)
	x.tmux("send-keys", "Enter")
}

// shows waits until the screen matches, and returns its text.
func (x *terminal) shows(pattern string) string {
	x.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	var screen string
	if !assert.Eventually(x.t, func() bool {
		screen = x.tmux("capture-pane", "-p", "-J")
		return re.MatchString(screen)
	}, patience, tick, "the screen never showed %s", pattern) {
		require.FailNow(x.t, "the last screen", screen)
	}
	return screen
}

// TestChat uses a session at a terminal: text appears as it is streamed, tools with
// their state, subagents indented, and the cost at the end.
func TestChat(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude", Title: "At a terminal"})
	x := openTerminal(t, filepath.Join(shared.Bin, "sojourn"), "chat", h.ID())
	gate := "chat-" + uuid.NewString()
	x.types("GATE " + gate)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	screen := x.shows(`waiting at ` + gate)
	require.NotContains(t, screen, "passed", "the answer is shown while it is typed")
	spaceOf(t).Model.Open(gate)
	x.shows(`waiting at ` + gate + ` passed`)
	x.shows(`100 in · 20 out · \$0\.\d+`)

	tool := "tool-" + uuid.NewString()
	x.types("TOOL bash: echo from a tool THEN GATE " + tool)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, tool))
	x.shows(`^✓ Bash  echo from a tool`)
	spaceOf(t).Model.Open(tool)
	x.shows(`200 in · 40 out`)
	x.types("SUBAGENT TOOL bash: echo inside ANDTHEN SAY from within")
	x.shows(`^ +.*✓ Bash  echo inside`)
	x.shows(`^ +.*from within`)
	x.shows(`^✓ (Agent|Task)`)

	// A failing tool, and an interrupt by Ctrl-C.
	x.types("TOOL bash: exit 3")
	x.shows(`✗ Bash  exit 3`)
	hang := "hang-" + uuid.NewString()
	x.types("GATE " + hang)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, hang))
	x.tmux("send-keys", "C-c")
	x.shows(`interrupted`)
	x.types("SAY still here")
	x.shows(`^still here`)
	x.types("/quit")
	x.shows(`^left with 0`)
	require.NoError(t, h.Close(ctx))
}

// TestPermissionIsShownWhole: wherever a person reads a request, the end of a long
// command is shown, and nothing in the request can hide the rest.
func TestPermissionIsShownWhole(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude", Permission: adapters.PermissionAsk})
	command := "echo " + strings.Repeat("harmless ", 40) + "; touch shown-to-its-end.txt"
	r, asked := asksFor(t, h, "TOOL bash: "+command)

	for _, words := range [][]string{{"show", h.ID()}, {"tail", h.ID()}} {
		require.Contains(t, sojourn(t, words...), "  command: "+command+"\n", "sojourn %s", words[0])
	}
	x := openTerminal(t, filepath.Join(shared.Bin, "sojourn"), "chat", h.ID())
	screen := strings.ReplaceAll(x.shows(`^allow\? y/n`), "\n  ↪ ", "")
	require.Contains(t, screen, "  command: "+command, "an opened chat shows the request")
	x.tmux("send-keys", "-l", "y")
	x.tmux("send-keys", "Enter")
	answeredWell(ctx, t, h, r)
	require.NotContains(t, sojourn(t, "show", h.ID()), asked.RequestID, "an answered request is not open")

	r, err := h.Send(ctx, session.Message{Text: "TOOL write: notes.txt :: the first line of it"})
	require.NoError(t, err)
	heardUntil(t, h, r.AfterSeq, first(func(p event.PermissionRequested) bool { return p.ToolName == "Write" }))
	shown := sojourn(t, "show", h.ID())
	require.Contains(t, shown, "notes.txt")
	require.Contains(t, shown, "  content:\n  │ the first line of it\n")
	_, err = h.Interrupt(ctx, session.InterruptRequest{})
	require.NoError(t, err)
	_, err = h.Wait(ctx, r)
	require.NoError(t, err)
	require.NoError(t, h.Close(ctx))
}
