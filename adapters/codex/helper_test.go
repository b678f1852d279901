package codex

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/replay"
)

// The helper that runs the model's scripts is started by the first of them and is
// part of the agent: when that turn is interrupted, its tools end, and the next
// turn's script runs at once.
func TestInterruptSparesWhatRunsScripts(t *testing.T) {
	t.Parallel()
	r := adaptertest.New(t, ownModel(), adaptertest.Options{})
	r.Start()
	r.Send("TOOL bash: sleep 3000 & sleep 3001 & touch begun; sleep 3002")
	r.AwaitFile("begun")
	require.NotEmpty(t, r.Left())
	idle := r.Interrupt()
	require.True(t, idle.Interrupted)
	require.Empty(t, r.Left())
	requests := r.Model.Stats().Total
	require.Nil(t, r.Ask("TOOL bash: echo goes on > after; cat after").Error)
	require.FileExists(t, filepath.Join(r.Workspace(), "after"))
	require.Equal(t, requests+2, r.Model.Stats().Total, "one request has the script run, the other hears of it")
	for _, q := range r.Model.Recorded() {
		require.NotContains(t, string(q.Body), "exec runtime was replaced", "what runs scripts was gone")
	}
	results := r.Blocks(event.BlockToolResult)
	require.Contains(t, string(results[len(results)-1].Output), "goes on")
	r.Finish()
}

// An interrupt right behind its prompt is obeyed: it waits until the program has begun the
// turn, and would refuse it before.
func TestInterruptOfATurnThatBegins(t *testing.T) {
	t.Parallel()
	r := adaptertest.New(t, ownModel(), adaptertest.Options{})
	r.Start()
	require.Nil(t, r.Ask("SAY hello").Error)
	for range 5 {
		r.Send("SLOW 3000")
		require.True(t, r.Interrupt().Interrupted)
	}
	require.Nil(t, r.Ask("SAY it is the same program").Error)
}

// A call that an interrupt cuts off is emitted with the exact bytes of its input,
// even if the state was stored in between.
func TestInputsPassThroughStateAsTheyAre(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(replay.ReadStory(t, "scripts_interrupted").Section("records"), "touch x", "touch x & wait")
	records := strings.Split(strings.TrimSpace(text), "\n")
	records = slices.DeleteFunc(records, func(l string) bool { // so that the call is open at the end
		return strings.Contains(l, `"item/completed"`) && strings.Contains(l, `"commandExecution"`)
	})
	play := func(split bool) []byte {
		var out []byte
		var state json.RawMessage
		tr, err := New().Translator(adapters.Launch{}, nil)
		require.NoError(t, err)
		for _, l := range records {
			dir, line, _ := strings.Cut(l, " ")
			for _, e := range tr.Step(traffic.Record{Dir: event.Dir(dir), Line: line}) {
				out, err = event.AppendEvent(out, e)
				require.NoError(t, err)
				out = append(out, '\n')
			}
			if split {
				state, err = tr.State()
				require.NoError(t, err)
				tr, err = New().Translator(adapters.Launch{}, state)
				require.NoError(t, err)
			}
		}
		return out
	}
	whole := play(false)
	require.Contains(t, string(whole), "touch x & wait")
	require.Equal(t, string(whole), string(play(true)))
}
