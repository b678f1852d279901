package adaptertest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// ok sends a prompt whose turn must not fail.
func (r *Rig) ok(text string) {
	r.t.Helper()
	idle := r.Ask(text)
	if idle.Error != nil || idle.Interrupted {
		r.give("a turn that should end well did not: "+text+" "+pretty(idle), nil)
	}
}

// secret is a word that no other scenario of the session has.
func (r *Rig) secret() string { return "remember-" + r.earlier.scenario }

// recalls checks that the agent remembers earlier prompts.
func (r *Rig) recalls(words ...string) {
	r.t.Helper()
	r.ok("RECALL")
	for _, w := range words {
		require.Contains(r.t, r.Said(), w, "the agent forgot a prompt\n%s", r.tail())
	}
}

func (r *Rig) playNew() {
	r.ok("SAY hello wonderful world")
	require.Equal(r.t, "hello wonderful world", strings.TrimSpace(r.Said()))
	messages := r.Blocks(event.BlockUserMessage)
	require.Len(r.t, messages, 1)
	require.Equal(r.t, "SAY hello wonderful world", *messages[0].Content)
	can, deltas, usage, cost := r.agent.Adapter.Info().Capabilities, 0, false, false
	for _, e := range r.Events() {
		switch p := e.Payload.(type) {
		case event.BlockDelta:
			deltas++
		case event.MetadataUpdate:
			usage = usage || p.Usage != nil && p.Usage.OutputTokens > 0
			cost = cost || p.CostUSD != nil
		}
	}
	require.True(r.t, usage, "no event reports the usage")
	require.Equal(r.t, can.PartialText, deltas > 0, "partial text")
	require.Equal(r.t, can.Cost, cost, "cost")
}

func (r *Rig) playWarm() {
	r.ok("SAY one")
	r.ok("SAY two")
	r.ok("TOOL bash: echo three")
	r.recalls("SAY one", "SAY two", "echo three")
	require.Len(r.t, r.Blocks(event.BlockUserMessage), 4)
}

func (r *Rig) playSecondProcess() {
	r.ok("SAY " + r.secret())
	first := r.Launch.NativeID
	r.Restart()
	require.True(r.t, r.Launch.Resume, "a session in the home is not resumed")
	r.recalls(r.secret())
	r.Restart()
	if first != "" {
		require.Equal(r.t, first, r.Launch.NativeID)
	}
	r.recalls(r.secret(), "RECALL")
}

func (r *Rig) playOtherHost() {
	r.ok("SAY " + r.secret())
	r.ok("TOOL bash: echo before > kept.txt THEN SAY moved")
	r.Parity()
	r.Move()
	require.True(r.t, r.Launch.Resume, "a session in the home is not resumed")
	r.recalls(r.secret())
	r.ok("TOOL bash: cat kept.txt")
	require.Contains(r.t, r.Said(), "before")
	r.Parity()
	r.Move()
	r.recalls(r.secret(), "cat kept.txt")
}

// playUnspoken starts a session in a home in which an earlier process got no prompt.
func (r *Rig) playUnspoken() {
	r.mu.Lock()
	opening := r.opening
	r.mu.Unlock()
	r.until("the records of the opening", func() bool { return r.next >= opening })
	r.Restart()
	r.ok("SAY " + r.secret())
	r.Restart()
	r.recalls(r.secret())
}

// playYoung restores a session right after its start: some agents name their files by
// the minute.
func (r *Rig) playYoung() {
	born := time.Now()
	r.ok("SAY " + r.secret())
	r.Move()
	r.t.Logf("restored %v after its start", time.Since(born).Round(10*time.Millisecond))
	r.recalls(r.secret())
	r.Restart()
	r.recalls(r.secret(), "RECALL")
}

// lastResult returns the last tool_result of the main conversation.
func (r *Rig) lastResult() event.Block {
	r.t.Helper()
	results := r.Blocks(event.BlockToolResult)
	require.NotEmpty(r.t, results)
	return results[len(results)-1]
}

func (r *Rig) playToolSuccess() {
	r.ok("TOOL bash: echo from-the-tool; pwd THEN SAY afterwards")
	require.Len(r.t, r.Blocks(event.BlockToolUse), 1)
	use, result := r.Blocks(event.BlockToolUse)[0], r.lastResult()
	require.Equal(r.t, use.ToolUseID, result.ToolUseID)
	require.Contains(r.t, string(use.Input), "from-the-tool")
	require.Contains(r.t, string(result.Output), "from-the-tool")
	require.Contains(r.t, string(result.Output), filepath.Base(r.Workspace()))
	require.False(r.t, *result.IsError)
	require.Equal(r.t, event.ExecutionSuccess, use.Execution)
	require.Contains(r.t, r.Said(), "afterwards")
}

// playToolFailure: some agents report a failing command as a tool that succeeded, with
// the failure in its output.
func (r *Rig) playToolFailure() {
	r.ok("TOOL bash: echo so-it-failed >&2; exit 3")
	require.Contains(r.t, string(r.lastResult().Output), "so-it-failed")
	use := r.Blocks(event.BlockToolUse)[0]
	if *r.lastResult().IsError {
		require.Equal(r.t, event.ExecutionError, use.Execution)
	} else {
		require.Equal(r.t, event.ExecutionSuccess, use.Execution)
		r.t.Log("a failing command is no error of the tool")
	}
	r.ok("TOOL read: " + filepath.Join(r.Workspace(), "there-is-no-such-file"))
	require.True(r.t, *r.lastResult().IsError, "%s", pretty(r.lastResult()))
}

// playToolParallel checks the result of each call, in whatever order the agent started
// them.
func (r *Rig) playToolParallel() {
	r.ok("TWO THEN SAY both")
	uses, results := r.Blocks(event.BlockToolUse), r.Blocks(event.BlockToolResult)
	require.Len(r.t, uses, 2)
	require.Len(r.t, results, 2)
	for _, word := range []string{"first", "second"} {
		use := only(r, uses, "calls with "+word, func(b event.Block) bool { return strings.Contains(string(b.Input), word) })
		require.Equal(r.t, event.ExecutionSuccess, use.Execution, "%s", pretty(use))
		result := only(r, results, "results of the call with "+word, func(b event.Block) bool { return b.ToolUseID == use.ToolUseID })
		require.Contains(r.t, string(result.Output), word, "the result is assigned to the other call\n%s", r.tail())
		require.False(r.t, *result.IsError, "%s", pretty(result))
	}
	require.NotEqual(r.t, uses[0].ToolUseID, uses[1].ToolUseID)
	require.NotEqual(r.t, uses[0].ID, uses[1].ID)
	require.NotEqual(r.t, results[0].ID, results[1].ID)
}

// only returns the one block that matches, and checks that no other does.
func only(r *Rig, blocks []event.Block, what string, meant func(event.Block) bool) event.Block {
	r.t.Helper()
	found := slices.DeleteFunc(slices.Clone(blocks), func(b event.Block) bool { return !meant(b) })
	require.Len(r.t, found, 1, "%s of\n%s", what, pretty(blocks))
	return found[0]
}

// lateShell makes the first of two tools end after the second.
const lateShell = `echo() {
  if [ "$1" = first ]; then
    n=0
    while [ ! -e second-is-out ] && [ $n -lt 60 ]; do sleep 0.05; n=$((n+1)); done
  fi
  builtin echo "$@"
  if [ "$1" = second ]; then : > second-is-out; fi
}
`

func (r *Rig) delayFirst() {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.Workspace(), "late.sh"), []byte(lateShell), 0o600))
}

func (r *Rig) playToolOutOfOrder() {
	r.playToolParallel()
	results := r.Blocks(event.BlockToolResult)
	if strings.Contains(string(results[0].Output), "first") {
		r.t.Log("the agent returns results in the order of the calls")
	}
}

func (r *Rig) playToolWriteRead() {
	path := filepath.Join(r.Workspace(), "out.txt")
	r.ok("TOOL write: " + path + " :: written by the tool THEN TOOL read: " + path + " THEN SAY done")
	data, err := os.ReadFile(path)
	require.NoError(r.t, err)
	require.Equal(r.t, "written by the tool\n", string(data))
	require.Len(r.t, r.Blocks(event.BlockToolResult), 2)
	require.True(r.t, r.Heard("written by the tool"), "the model did not get to see the file")
	if out := string(r.lastResult().Output); out != "null" {
		require.Contains(r.t, out, "written by the tool")
	} else {
		r.t.Log("the content of a file is in no event")
	}
}

func (r *Rig) playThinking() {
	r.ok("THINK the meaning of life THEN TOOL bash: echo thought THEN THINK once more")
	thoughts := r.Blocks(event.BlockThinking)
	require.Len(r.t, thoughts, 2)
	require.Contains(r.t, *thoughts[0].Content, "Let me think about this: the meaning of life")
	require.Contains(r.t, *thoughts[1].Content, "once more")
	require.Contains(r.t, r.Said(), "I thought about: once more")
}
