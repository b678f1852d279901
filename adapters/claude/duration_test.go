package claude

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
)

const (
	bashCall   = `{"type":"assistant","uuid":"a","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}`
	bashResult = `{"type":"user","uuid":"r","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}}`
)

// A tool result has toolUseId, output, isError and durationMs: live the time
// between the two lines, also if the translator's state was restored in between.
func TestR52ToolResultDuration(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		started, ended time.Time
		want           *int64
	}{
		"both known":      {at, at.Add(1500 * time.Millisecond), ms(1500)},
		"at once":         {at, at, ms(0)},
		"begin not known": {time.Time{}, at, nil},
		"end not known":   {at, time.Time{}, nil},
		"clock set back":  {at, at.Add(-time.Second), nil},
		"past all dates":  {at.AddDate(20000, 0, 0), at.AddDate(20000, 0, 1), ms(24 * 60 * 60 * 1000)},
	} {
		before, err := New().Translator(adapters.Launch{}, nil)
		require.NoError(t, err)
		before.Step(traffic.Record{TS: c.started, Dir: event.DirOut, Line: bashCall})
		state, err := before.State()
		require.NoError(t, err)
		tr, err := New().Translator(adapters.Launch{}, state)
		require.NoError(t, err)
		got := resultOf(t, tr.Step(traffic.Record{TS: c.ended, Dir: event.DirOut, Line: bashResult}))
		require.Equal(t, c.want, got.DurationMS, name)
		require.Equal(t, "t", got.ToolUseID)
		require.JSONEq(t, `"ok"`, string(got.Output))
		require.False(t, *got.IsError)
		require.Empty(t, tr.(*translator).Tools, "nothing is kept of a call that is done")
	}
}

// Restored, it is the time between the transcript's lines.
func TestR52ToolResultDurationRestored(t *testing.T) {
	t.Parallel()
	stamped := func(line, ts string) string { return line[:len(line)-1] + `,"timestamp":"` + ts + `"}` + "\n" }
	for name, c := range map[string]struct {
		transcript string
		want       *int64
	}{
		"both known": {stamped(bashCall, "2026-01-02T03:04:05.000Z") + stamped(bashResult, "2026-01-02T03:04:06.500Z"), ms(1500)},
		"not known":  {bashCall + "\n" + bashResult, nil},
		"set back":   {stamped(bashCall, "2026-01-02T03:04:05.000Z") + stamped(bashResult, "2026-01-02T03:04:04.000Z"), nil},
	} {
		var events []event.Event
		for e, err := range New().Parse([]adapters.Source{memory(event.Main, c.transcript)}) {
			require.NoError(t, err)
			events = append(events, e)
		}
		require.Equal(t, c.want, resultOf(t, events).DurationMS, name)
	}
}

func ms(n int64) *int64 { return &n }

func resultOf(t *testing.T, events []event.Event) event.Block {
	t.Helper()
	for _, e := range events {
		if u, ok := e.Payload.(event.BlockUpsert); ok && u.Block.Type == event.BlockToolResult {
			return u.Block
		}
	}
	require.Fail(t, "no tool result")
	return event.Block{}
}

// A subagent's reference block and its state have the agent's own figure, and
// it is the same on both sides.
func TestR55SubagentDuration(t *testing.T) {
	t.Parallel()
	all := processes(t)
	figures := map[string][]int64{}
	for _, tr := range transcripts(t) {
		if strings.HasPrefix(tr.Name, "v2.0.0-") {
			continue // its stream has no native results, which have the figure
		}
		live, restored := foldLive(t, tr.live(all)), recorded.Parsed(t, tr.Sources...)
		want := durations(t, restored)
		require.Equal(t, want, durations(t, live), tr.Name)
		for _, sub := range restored.Subagents {
			if want[sub.ToolUseID] != nil {
				figures[recording(tr.Name)] = append(figures[recording(tr.Name)], *want[sub.ToolUseID])
			}
		}
	}
	for name, figure := range map[string]int64{
		"subagent": 319, "profile-files": 70,
		"permission-can_use_tool": 179, "mcp-sdk-inprocess-and-hooks": 174,
	} {
		require.Equal(t, []int64{figure}, figures[name], name)
	}
}

// durations returns those of the subagents that the main conversation refers to.
func durations(t *testing.T, s reducer.State) map[string]*int64 {
	t.Helper()
	shown := map[string]*int64{}
	for _, b := range s.Blocks {
		if b.Type == event.BlockSubagent {
			shown[b.ToolUseID] = b.DurationMS
		}
	}
	for _, sub := range s.Subagents {
		if d, direct := shown[sub.ToolUseID]; direct {
			require.Equal(t, d, sub.DurationMS, sub.ToolUseID)
		}
	}
	return shown
}

// A subagent's end has its duration, by the agent's own figure; an invalid figure
// costs only itself.
func TestR64SubagentCompletedDuration(t *testing.T) {
	t.Parallel()
	for native, want := range map[string]*int64{
		`{"agentId":"ag1","totalDurationMs":319}`:  ms(319),
		`{"agentId":"ag1","totalDurationMs":0.9}`:  ms(0),
		`{"agentId":"ag1","totalDurationMs":-5}`:   nil,
		`{"agentId":"ag1","totalDurationMs":1e30}`: nil,
		`{"agentId":"ag1","totalDurationMs":"x"}`:  nil,
		`{"agentId":"ag1"}`:                        nil,
		`"Error: it broke"`:                        nil,
		`null`:                                     nil,
	} {
		tr, err := New().Translator(adapters.Launch{}, nil)
		require.NoError(t, err)
		tr.Step(traffic.Record{Dir: event.DirOut, Line: `{"type":"assistant","uuid":"a","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Agent","input":{}}]}}`})
		events := tr.Step(traffic.Record{Dir: event.DirOut, Line: bashResult[:len(bashResult)-1] + `,"tool_use_result":` + native + `}`})
		last := events[len(events)-1].Payload.(event.SubagentCompleted)
		require.Equal(t, want, last.DurationMS, native)
		require.Equal(t, "ok", *last.Output, native)
		if native[0] == '{' {
			require.Equal(t, "ag1", last.AgentID, native)
		}
	}
}
