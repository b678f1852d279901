package adaptertest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/skip"
)

// asked sends a script whose tool needs a permission, and waits for the
// request.
func (r *Rig) asked(script string) event.PermissionRequested {
	r.t.Helper()
	r.Send(script)
	asked := r.AwaitPermission()
	require.NotEmpty(r.t, asked.RequestID)
	require.NotEmpty(r.t, asked.ToolName)
	require.NotEmpty(r.t, asked.Input)
	return asked
}

// resolved waits for the event that resolves a request.
func (r *Rig) resolved(id string) event.PermissionResolved {
	r.t.Helper()
	return r.Await("the request to be resolved", func(e event.Event) bool {
		p, ok := e.Payload.(event.PermissionResolved)
		return ok && p.RequestID == id
	}).Payload.(event.PermissionResolved)
}

func (r *Rig) exists(name string) bool {
	_, err := os.Stat(filepath.Join(r.Workspace(), name))
	return err == nil
}

// endsWell waits for the end of a turn that must not fail.
func (r *Rig) endsWell() {
	r.t.Helper()
	idle := r.AwaitIdle()
	require.Nil(r.t, idle.Error, "%s", pretty(idle))
	require.False(r.t, idle.Interrupted)
}

func (r *Rig) playAllow() {
	for _, name := range []string{"one", "two"} {
		asked := r.asked("TOOL bash: touch " + name + " THEN SAY after " + name)
		require.Contains(r.t, string(asked.Input), "touch "+name)
		require.False(r.t, r.exists(name), "the tool did not wait for the answer")
		r.Answer(asked, true, "", nil)
		require.Equal(r.t, "allow", r.resolved(asked.RequestID).Decision)
		r.endsWell()
		require.True(r.t, r.exists(name))
		require.Contains(r.t, r.Said(), "after "+name)
	}
	path := filepath.Join(r.Workspace(), "three.txt")
	r.Send("TOOL write: " + path + " :: text THEN SAY wrote")
	asked := r.AwaitPermission()
	r.Answer(asked, true, "", nil)
	r.endsWell()
	require.True(r.t, r.exists("three.txt"))
}

func (r *Rig) deny() {
	r.t.Helper()
	asked := r.asked("TOOL bash: touch denied THEN SAY so it was denied")
	r.Answer(asked, false, "the operator said not-on-my-watch, "+r.secret(), nil)
	require.Equal(r.t, "deny", r.resolved(asked.RequestID).Decision)
	r.AwaitIdle()
	require.False(r.t, r.exists("denied"))
	require.True(r.t, *r.lastResult().IsError, "%s", pretty(r.lastResult()))
}

func (r *Rig) playDeny() {
	r.deny()
	asked := r.asked("TOOL bash: touch allowed")
	r.Answer(asked, true, "", nil)
	r.endsWell()
	require.True(r.t, r.exists("allowed"))
}

// playDenyHeard: the agent gets a denial as text and continues its turn.
func (r *Rig) playDenyHeard() {
	r.deny()
	require.True(r.t, r.Heard("not-on-my-watch, "+r.secret()), "the model did not hear why\n%s", r.tail())
	require.Contains(r.t, r.Said(), "so it was denied")
}

func (r *Rig) playNeverAnswered() {
	asked := r.asked("TOOL bash: touch never")
	idle := r.Interrupt()
	require.True(r.t, idle.Interrupted, "%s", pretty(idle))
	found := ""
	for _, e := range r.Events() {
		if p, ok := e.Payload.(event.PermissionResolved); ok && p.RequestID == asked.RequestID {
			require.Empty(r.t, found, "resolved twice")
			found = p.Decision
		}
	}
	require.Equal(r.t, "cancelled", found)
	require.False(r.t, r.exists("never"))
	r.ok("SAY goes on")
	again := r.asked("TOOL bash: touch again")
	require.NotEqual(r.t, asked.RequestID, again.RequestID)
	r.Kill()
	require.Equal(r.t, "cancelled", r.lastDecision(again.RequestID))
	r.Restart()
	last := r.asked("TOOL bash: touch last")
	require.NotEqual(r.t, again.RequestID, last.RequestID, "requests of two processes have one id")
	r.Answer(last, true, "", nil)
	r.endsWell()
	require.True(r.t, r.exists("last"))
}

func (r *Rig) lastDecision(id string) string {
	found := ""
	for _, e := range r.Events() {
		if p, ok := e.Payload.(event.PermissionResolved); ok && p.RequestID == id {
			found = p.Decision
		}
	}
	return found
}

// playPolicy: the session's permission mode denies every request.
func (r *Rig) playPolicy() {
	r.Ask("TOOL bash: touch denied THEN SAY so it was denied")
	require.False(r.t, r.exists("denied"))
	require.True(r.t, *r.lastResult().IsError, "%s", pretty(r.lastResult()))
	r.ok("SAY goes on")
}

func (r *Rig) playPermissionChange() {
	asked := r.asked("TOOL bash: touch one")
	r.Answer(asked, true, "", nil)
	r.endsWell()
	r.SetPermission(adapters.PermissionAllow)
	r.ok("TOOL bash: touch two THEN SAY done")
	require.True(r.t, r.exists("two"))
	r.SetPermission(adapters.PermissionAsk)
	asked = r.asked("TOOL bash: touch three")
	r.Answer(asked, false, "no longer", nil)
	r.AwaitIdle()
	require.False(r.t, r.exists("three"))
}

// instructed is the text of the workspace's instructions.
const instructed = "Talk of marmalade."

// writeHostile writes files into the workspace by which the agent would not ask, and its
// instructions.
func (r *Rig) writeHostile() {
	r.t.Helper()
	files := map[string]string{}
	if r.agent.Instructions != "" {
		files[r.agent.Instructions] = instructed
	}
	maps.Copy(files, r.agent.Hostile)
	for name, text := range files {
		file := filepath.Join(r.Workspace(), name)
		require.NoError(r.t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(r.t, os.WriteFile(file, []byte(text), 0o600))
	}
}

// playPermissionTightened: an agent that was started without asking asks once it is told to, its
// subagents too, whatever the workspace's own settings allow; and nothing of these runs unasked.
func (r *Rig) playPermissionTightened() {
	r.ok("TOOL bash: touch one THEN SAY done")
	require.True(r.t, r.exists("one"))
	require.NoError(r.t, os.RemoveAll(filepath.Join(r.Workspace(), Unasked)))
	r.SetPermission(adapters.PermissionAsk)
	asked := r.asked("TOOL bash: touch two THEN SAY done")
	require.False(r.t, r.exists("two"), "the tool did not wait for the answer")
	if r.agent.Instructions != "" {
		require.NotZero(r.t, r.Times("touch two", instructed), "%s is read", r.agent.Instructions)
	}
	r.Answer(asked, true, "", nil)
	r.endsWell()
	require.True(r.t, r.exists("two"))
	if r.agent.Adapter.Info().Capabilities.Subagents && r.agent.Missing["permission-subagent"] == "" {
		r.playPermissionSubagent()
	}
	what, err := os.ReadFile(filepath.Join(r.Workspace(), Unasked))
	require.ErrorIs(r.t, err, os.ErrNotExist, "the workspace's settings have run something: %s", what)
	r.SetPermission(adapters.PermissionAllow)
	r.ok("TOOL bash: touch three")
	require.True(r.t, r.exists("three"))
}

func (r *Rig) playPermissionSubagent() {
	if !r.agent.Adapter.Info().Capabilities.Subagents {
		skip.NotApplicable(r.t, "the agent has no subagents")
	}
	r.Send("SUBAGENT TOOL bash: touch inside ANDTHEN SAY sub is done THEN SAY outer is done")
	requests := 0
	for {
		e := r.Await("a permission request, or the end", func(e event.Event) bool {
			return Is[event.PermissionRequested](e) || isIdle(e)
		})
		asked, open := e.Payload.(event.PermissionRequested)
		if !open {
			break
		}
		r.Answer(asked, true, "", nil)
		requests++
	}
	require.NotZero(r.t, requests, "the subagent's tool asks")
	require.True(r.t, r.exists("inside"), "%s", r.tail())
	require.Contains(r.t, r.Said(), "outer is done")
}

func (r *Rig) playQuestion() {
	q := r.agent.Question
	require.NotEmpty(r.t, q.Script, "the adapter claims questions, so its test must say how to make it ask")
	r.Send(q.Script)
	asked := r.AwaitPermission()
	require.NotEmpty(r.t, asked.Questions, "%s", pretty(asked))
	require.True(r.t, json.Valid(asked.Questions))
	r.Answer(asked, true, "", q.Answer(asked))
	require.Equal(r.t, "allow", r.resolved(asked.RequestID).Decision)
	r.endsWell()
	require.True(r.t, r.Heard(q.Heard), "the model did not hear the answer\n%s", r.tail())
	r.Send(q.Script)
	asked = r.AwaitPermission()
	idle := r.Interrupt()
	require.True(r.t, idle.Interrupted)
	require.Equal(r.t, "cancelled", r.lastDecision(asked.RequestID))
	r.ok("SAY goes on")
}
