package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// What a session does is published as typed events, whoever listens and however: no reader, a
// program that breaks off, one in Go, one that reads JSON from a pipe, one with older names, and
// one that comes late. Each has the same.
func TestR120TypedEventBus(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY unheard").Err())

	for ev, err := range h.Events(ctx, 0, session.Follow) {
		require.NoError(t, err)
		require.NotNil(t, ev.Payload)
		break // it has enough
	}
	inGo := make(chan []event.Event, 1)
	go func() {
		var heard []event.Event
		for ev, err := range h.Events(ctx, 0, session.Follow) {
			if err != nil {
				break
			}
			heard = append(heard, ev)
		}
		inGo <- heard
	}()
	piped, older := tailed(t, h.ID()), tailed(t, h.ID(), "--names", "v2")
	require.NoError(t, say(t, h, "TOOL bash: echo heard THEN SAY heard").Err())
	require.NoError(t, h.Close(ctx))

	all := events(t, h)
	for _, ev := range all {
		_, unknown := ev.Payload.(event.Unknown)
		require.False(t, unknown, "%s has no type of its own", ev.Type())
	}
	require.Equal(t, all, <-inGo)
	var read []event.Event
	for line := range strings.Lines(piped()) {
		var ev event.Event
		require.NoError(t, json.Unmarshal([]byte(line), &ev))
		read = append(read, ev)
	}
	require.Equal(t, jsonOf(t, all), jsonOf(t, read))
	named := older()
	require.Contains(t, named, `"session:block:start"`)
	require.NotContains(t, named, `"block:upsert"`)
	require.True(t, slices.ContainsFunc(all, func(ev event.Event) bool { return ev.Type() == "query:completed" }))
}

// tailed starts a program that follows a session, and returns how to wait for all that it printed.
func tailed(t *testing.T, id string, flags ...string) (all func() string) {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), filepath.Join(shared.Bin, "sojourn"), append([]string{"tail", id, "--follow", "--json"}, flags...)...)
	cmd.Env = append(os.Environ(), "TEMPORAL_NAMESPACE="+spaceOf(t).Namespace)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	require.NoError(t, cmd.Start())
	return func() string {
		require.NoError(t, cmd.Wait(), "%s", &said)
		return out.String()
	}
}

func jsonOf(t *testing.T, events []event.Event) string {
	t.Helper()
	var out bytes.Buffer
	for _, ev := range events {
		data, err := json.Marshal(ev)
		require.NoError(t, err)
		out.Write(append(data, '\n'))
	}
	return out.String()
}

// A client of the third system reads a session under its names, to the last word.
func TestR75TailThirdNames(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "TOOL bash: echo heard THEN SAY all of it").Err())
	var deltas, whole string
	count := map[string]int{}
	for line := range strings.Lines(sojourn(t, "tail", h.ID(), "--json", "--names", "v3")) {
		var ev struct {
			Type    string
			Payload struct {
				Delta   string
				Content struct{ Text string }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &ev))
		if count[ev.Type]++; ev.Type == "content_delta" {
			deltas += ev.Payload.Delta
		}
		if ev.Type == "content" {
			whole += ev.Payload.Content.Text
		}
	}
	require.Contains(t, whole, "all of it")
	require.Equal(t, whole, deltas)
	for _, name := range []string{"execution_start", "execution_end", "execution", "result", "tool_call_start", "tool_call_end", "tool_call", "tool_result"} {
		require.Equal(t, 1, count[name], name)
	}
	require.Positive(t, count["usage"])
	require.Positive(t, count["entry_committed"])
	require.Zero(t, count["block:upsert"])
}
