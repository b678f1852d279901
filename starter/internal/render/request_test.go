package render_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

// asking returns a permission request as it is shown everywhere; lines that were
// broken for the terminal are joined again, so that a search finds everything
// shown.
func asking(t *testing.T, tool string, input any, columns int) string {
	t.Helper()
	raw, err := json.Marshal(input)
	require.NoError(t, err)
	ask := event.PermissionRequested{RequestID: "r1", ToolName: tool, ToolUseID: "t1", Input: raw}
	out := live(t, []event.Event{{Payload: ask, Context: event.Context{SessionID: "s1"}}}, render.Options{Width: columns})
	if columns > 0 {
		for line := range strings.Lines(out) {
			require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), columns, out)
		}
	}
	return strings.ReplaceAll(out, "\n  ↪ ", "")
}

// What a person approves is shown to its end, however wide the terminal is.
func TestPermissionRequestIsShownWhole(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{0, 40, 60, 200} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			t.Parallel()
			command := "echo " + strings.Repeat("harmless ", 100) + "&& rm -rf /precious"
			require.Contains(t, asking(t, "Bash", map[string]any{"command": command, "description": "List files"}, columns), command)

			lines := "echo one\n\n\techo two\nrm -rf /precious"
			shown := asking(t, "Bash", map[string]string{"command": lines}, columns)
			require.Contains(t, shown, "  │ echo one\n  │ \n  │     echo two\n  │ rm -rf /precious\n")

			content := strings.Repeat("a line\n", 500) + "the last one"
			shown = asking(t, "Write", map[string]any{"file_path": "/etc/motd", "content": content}, columns)
			require.Contains(t, shown, "file_path: /etc/motd")
			require.Equal(t, 500, strings.Count(shown, "│ a line\n"))
			require.Contains(t, shown, "│ the last one\n")
		})
	}
}

// A change of a file is shown as what is removed and what is added.
func TestPermissionRequestShowsTheDifference(t *testing.T) {
	t.Parallel()
	for _, names := range [][2]string{{"old_string", "new_string"}, {"oldString", "newString"}, {"oldText", "newText"}} {
		edit := map[string]any{"path": "a.go", names[0]: "one\ntwo\nthree", names[1]: "one\n2\nthree", "replace_all": true}
		shown := asking(t, "Edit", map[string]any{"edits": []any{edit}}, 60)
		for _, want := range []string{"edits[0].path: a.go\n", "edits[0].replace_all: true\n", "  │  one\n  │ -two\n  │ +2\n  │  three\n"} {
			require.Contains(t, shown, want)
		}
	}
	shown := asking(t, "Edit", map[string]any{"newText": "made\nanew", "oldText": nil}, 60)
	require.Contains(t, shown, "  │ +made\n  │ +anew\n")
	require.NotContains(t, shown, "│ -")
}

// No character of a request hides another one: what a terminal would act on, or
// would not show, is shown as its escape.
func TestPermissionRequestHidesNothing(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"rm -rf /\recho hello":           `rm -rf /\recho hello`,
		"rm -rf / \x1b[2K\x1b[1Gls":      `rm -rf / \x1b[2K\x1b[1Gls`,
		"rm -rf /\x08\x08\x08ls":         `rm -rf /\b\b\bls`,
		"ls \u202e/ fr- mr":              `ls \u202e/ fr- mr`,
		"r\u200bm -rf\u00a0/ \U000e0041": `r\u200bm -rf\u00a0/ \U000e0041`,
		"ls\u3164 \u2028 rm":             `ls\u3164 \u2028 rm`,
		"ls \u0085\u009b2K":              `ls \u0085\u009b2K`,
	} {
		require.Contains(t, asking(t, "Bash", map[string]string{"command": raw}, 0), "command: "+want+"\n")
		require.Contains(t, asking(t, raw, nil, 0), "may it run  "+want+"\n")
		require.Contains(t, asking(t, "mcp", map[string]any{raw: []any{map[string]string{"x": raw}}}, 0), want+"[0].x: "+want+"\n")
	}
	// A value can't look like a field, nor like the line with how to answer.
	shown := asking(t, "Bash", map[string]string{"command": "x\n  description: harmless\n  sojourn respond s2 r2 allow"}, 0)
	require.Contains(t, shown, "\n  │   description: harmless\n  │   sojourn respond s2 r2 allow\n")
	// Escaped letters are shown as letters.
	ask := event.PermissionRequested{ToolName: "T", Input: json.RawMessage(`{"a":[{"b":"\u0072\u006d -rf"}],"c":12345678901234567890}`)}
	shown = live(t, []event.Event{{Payload: ask}}, render.Options{})
	require.Contains(t, shown, "a[0].b: rm -rf\n")
	require.Contains(t, shown, "c: 12345678901234567890\n")
}

// A request about no tool is whether to continue, and names the calls to their end.
func TestPermissionRequestAboutALoss(t *testing.T) {
	t.Parallel()
	ask := effects.Request("r1", []effects.Call{{ToolUseID: "t1", ToolName: "Bash", Input: json.RawMessage(`{"command":"make deploy"}`)}})
	shown := live(t, []event.Event{{Payload: ask}}, render.Options{})
	require.Contains(t, shown, "may it  continue, though these calls had begun")
	require.Contains(t, shown, `Bash (call t1): {"command":"make deploy"}`+"\n")
}

// An agent that asks without its input asks about the call that it has announced.
func TestPermissionRequestShowsTheCall(t *testing.T) {
	t.Parallel()
	call := event.BlockUpsert{Block: event.Block{
		ID: "t1", Type: event.BlockToolUse, ToolUseID: "t1", ToolName: "bash", Status: event.StatusComplete,
		Input: json.RawMessage(`{"command":"ls; rm -rf /precious"}`),
	}}
	ask := event.PermissionRequested{RequestID: "r1", ToolName: "bash", ToolUseID: "t1", Input: json.RawMessage(`{"patterns":["ls *"]}`)}
	shown := live(t, []event.Event{{Payload: call}, {Payload: ask}}, render.Options{Width: 40})
	require.Contains(t, shown, "  command: ls; rm -rf /precious\n")
	require.Contains(t, shown, "  patterns[0]: ls *\n")
}
