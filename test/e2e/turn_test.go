package e2e

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open creates a session, of anyAgent unless the options have one.
func open(t *testing.T, o session.Options) *session.Handle {
	t.Helper()
	if o.Agent == "" {
		o.Agent = anyAgent(t)
	}
	h, err := spaceOf(t).Client.Create(testContext(t), "", o)
	require.NoError(t, err)
	return h
}

// anyAgent names an agent for tests in which it doesn't matter: Codex, whose program
// starts in a third of the processor time. With SOJOURN_LONG set, and after withClaude, it
// is Claude Code.
func anyAgent(t *testing.T) string {
	test, _, _ := strings.Cut(t.Name(), "/")
	if _, marked := claudes.Load(test); marked || os.Getenv("SOJOURN_LONG") != "" {
		return "claude"
	}
	return "codex"
}

// claudes are the names of tests whose sessions have Claude Code.
var claudes sync.Map

// withClaude is for a test that needs Claude Code's files or pace, or has not been run
// with another agent: its sessions that name no agent have Claude Code.
func withClaude(t *testing.T) { claudes.Store(t.Name(), true) }

// say sends a message and waits for its result.
func say(t *testing.T, h *session.Handle, text string) session.Result {
	t.Helper()
	ctx := testContext(t)
	r, err := h.Send(ctx, session.Message{Text: text})
	require.NoError(t, err)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	return res
}

func events(t *testing.T, h *session.Handle) []event.Event {
	t.Helper()
	var all []event.Event
	for ev, err := range h.Events(testContext(t), 0, false) {
		require.NoError(t, err)
		all = append(all, ev)
	}
	return all
}

func TestFirstTurn(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{Title: "first"})
	res := say(t, h, "SAY hello from the script")
	require.NoError(t, res.Err())
	require.Equal(t, "hello from the script", res.Result.Response)
	for _, ev := range events(t, h) {
		data, err := ev.MarshalJSON()
		require.NoError(t, err)
		t.Log(string(data))
	}
	require.NoError(t, h.Close(testContext(t)))
}
