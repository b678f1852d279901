package claude

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/skip"
)

// strictly returns the agent with rules under which everything must be equal
// except what the program does not send.
func strictly() adaptertest.Agent {
	a := conforming()
	a.Rules = parity.Rules{UnsentDepth: 2}
	return a
}

// started returns a session of the real agent.
func started(t *testing.T, o adaptertest.Options) *adaptertest.Rig {
	t.Helper()
	r := adaptertest.New(t, strictly(), o)
	r.Start()
	return r
}

func TestRealConversation(t *testing.T) {
	t.Parallel()
	r := started(t, adaptertest.Options{})
	require.Equal(t, "end_turn", r.Ask("SAY hello there").StopReason)
	r.Ask("THINK deeply THEN TWO THEN SAY both")
	r.Ask("TOOL write: " + filepath.Join(r.Workspace(), "a.txt") + " :: text")
	r.Ask("SUBAGENT SUBAGENT TOOL bash: echo deep ANDANDTHEN SAY d2 ANDTHEN THINK d1")
	r.Ask("/cost")
	r.Ask("/compact")
	r.Ask("SAY ")
	r.Ask("SAY bye")
	require.FileExists(t, filepath.Join(r.Workspace(), "a.txt"))
	r.Stop()
	require.Len(t, r.Live().Subagents, 2)
	r.Finish()
}

func TestRealInterruptAndSteering(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{})
	r.Send("SAY partly THEN GATE stop")
	require.NoError(t, r.Model.Waiting(t.Context(), "stop"))
	r.Await("BlockDelta", adaptertest.Is[event.BlockDelta])
	r.Say("i1", adapters.Interrupt{})
	require.True(t, r.AwaitIdle().Interrupted)

	r.Send("GATE busy THEN TOOL bash: sleep 1")
	require.NoError(t, r.Model.Waiting(t.Context(), "busy"))
	steering := r.Prompt(adapters.Prompt{Text: "<task-notification> SAY steered", Steer: true})
	awaitRead(r)
	r.Model.Open("busy")
	folded := r.Await("MessageFolded", adaptertest.Is[event.MessageFolded]).Payload.(event.MessageFolded)
	require.Equal(t, steering, folded.MessageID)
	r.AwaitIdle()

	r.Send("GATE more")
	require.NoError(t, r.Model.Waiting(t.Context(), "more"))
	r.Prompt(adapters.Prompt{Text: "SAY one", Steer: true})
	r.Prompt(adapters.Prompt{Text: "SAY two", Steer: true})
	r.Model.Open("more")
	r.Await("MessageOwnTurn", adaptertest.Is[event.MessageOwnTurn])
	r.AwaitIdle()
	r.Stop()
	r.Finish()
}

func TestRealPermission(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{Permission: adapters.PermissionAsk})
	file := filepath.Join(r.Workspace(), "asked.txt")
	for _, allow := range []bool{false, true} {
		r.Send("TOOL write: " + file + " :: text")
		asked := r.AwaitPermission()
		require.Equal(t, "Write", asked.ToolName)
		r.Answer(asked, allow, "not now", nil)
		resolved := r.Await("PermissionResolved", adaptertest.Is[event.PermissionResolved]).Payload.(event.PermissionResolved)
		require.Equal(t, map[bool]string{true: "allow", false: "deny"}[allow], resolved.Decision)
		r.AwaitIdle()
		_, err := os.Stat(file)
		require.Equal(t, allow, err == nil)
	}
	r.SetPermission(adapters.PermissionAllow)
	r.Await("OptionsUpdate", adaptertest.Is[event.OptionsUpdate])
	r.Ask("TOOL bash: touch " + filepath.Join(r.Workspace(), "free.txt"))
	require.FileExists(t, filepath.Join(r.Workspace(), "free.txt"))
	r.Stop()
	r.Finish()
}

func TestRealErrorsAndBackground(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{})
	require.Equal(t, "api_error_400", r.Ask("ERR400").Error.Code)
	require.NotNil(t, r.Ask("CUT").Error)
	r.Send("SUBAGENTBG TOOL bash: sleep 1 ANDTHEN SAY from behind")
	done := r.Await("SubagentCompleted", adaptertest.Is[event.SubagentCompleted]).Payload.(event.SubagentCompleted)
	require.Equal(t, "from behind", *done.Output)
	r.AwaitIdle()
	r.Stop()
	r.Finish()
}

// Killed in the middle of a text, the session continues with --resume; the
// unfinished text is lost, and nothing else.
func TestRealKillAndResume(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{})
	r.Ask("SAY first")
	r.Send("SAY half THEN GATE never")
	require.NoError(t, r.Model.Waiting(t.Context(), "never"))
	r.Await("BlockDelta", adaptertest.Is[event.BlockDelta])
	awaitOnDisk(t, r, "THEN GATE never")
	r.Kill()
	r.Restart()
	require.True(t, r.Launch.Resume)
	require.Contains(t, r.Ask("RECALL").StopReason, "end_turn")
	r.Stop()
	r.Finish()
}

// awaitOnDisk waits until the transcript holds a text: the agent writes it some
// time after it has streamed it, and does not report when.
func awaitOnDisk(t *testing.T, r *adaptertest.Rig, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		found, err := filepath.Glob(filepath.Join(r.Home(), configDir, "projects", "*", r.Launch.NativeID+".jsonl"))
		if err != nil || len(found) == 0 {
			return false
		}
		data, err := os.ReadFile(found[0])
		return err == nil && bytes.Contains(data, []byte(text))
	}, time.Minute, 10*time.Millisecond)
}

// The profile's files apply to the agent without a trace in the workspace.
func TestRealProfile(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{Profile: &adapters.Profile{
		ID: "p", Instructions: "MARK-INSTRUCTIONS",
		Rules:      map[string]string{"style": "MARK-RULE"},
		Skills:     map[string]map[string]string{"labskill": {"SKILL.md": "---\nname: labskill\ndescription: MARK-SKILL\n---\nbody\n"}},
		Subagents:  map[string]string{"reviewer": "---\nname: reviewer\ndescription: MARK-AGENT\n---\nYou review.\n"},
		Commands:   map[string]string{"labcmd": "SAY expanded $ARGUMENTS\n"},
		MCPServers: map[string]adapters.MCPServer{"dead": {Command: "/bin/false"}},
		BundledMCP: map[string]adapters.BundledMCP{"kit": {
			Files: map[string]string{"server.sh": mcpScript}, Start: []string{"sh", "./server.sh"}}},
	}})
	r.Ask("SAY hi")
	r.Ask("/labcmd now")
	r.Ask(`CALL mcp__kit__echo {"text":"x"} THEN SAY done`)
	r.Ask(`CALL Skill {"skill":"labskill"} THEN SAY ok`)
	r.Stop()
	entries, err := os.ReadDir(r.Workspace())
	require.NoError(t, err)
	require.Empty(t, entries)
	for _, mark := range []string{"MARK-INSTRUCTIONS", "MARK-RULE", "MARK-SKILL", "MARK-AGENT"} {
		require.True(t, r.Heard(mark), "the model did not get to see %s", mark)
	}
	state := pretty(t, r.Live())
	require.Contains(t, state, "expanded now")
	require.Contains(t, state, "from the kit")
	require.Contains(t, state, `"skill_load"`)
	r.Finish()
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

// awaitRead waits until the program has read all that it was sent: it answers in order.
func awaitRead(r *adaptertest.Rig) {
	r.SetModel(conforming().OtherModel)
	r.Await("the answer to a change of the model", func(e event.Event) bool {
		p, ok := e.Payload.(event.OptionsUpdate)
		return ok && p.Model != nil
	})
}

// The workspace's instructions reach an agent once, whether it asks or not.
func TestRealInstructionsOfTheWorkspace(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	for _, p := range []adapters.Permission{adapters.PermissionAllow, adapters.PermissionAsk} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			r := adaptertest.New(t, strictly(), adaptertest.Options{Permission: p})
			for _, name := range instructionFiles {
				file := filepath.Join(r.Workspace(), name)
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
				require.NoError(t, os.WriteFile(file, []byte("Talk of marmalade as in "+name+".\n"), 0o600))
			}
			r.Start()
			r.Ask("SAY hi")
			for _, name := range instructionFiles {
				require.Equal(t, 1, r.Times("SAY hi", "as in "+name+"."))
			}
			require.Equal(t, p.Asks(), r.Times("SAY hi", rulesFile) > 0, "one that does not ask reads the files themselves")
			r.Stop()
			r.Finish()
		})
	}
}
