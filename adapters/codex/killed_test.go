package codex

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// What the model was given, or has given, was sent before: it is not lost with the
// agent. The item in the last line of all may not have been sent.
func TestKilledBehindAnItem(t *testing.T) {
	t.Parallel()
	const deltas = 3
	records, rollout := syntheticTurn(1, deltas)
	lines := strings.SplitAfter(rollout, "\n")
	tokens := `{"timestamp":"2026-01-02T03:04:05.678Z","type":"event_msg","payload":{"type":"token_count","info":null}}` + "\n"
	for name, c := range map[string]struct {
		written   string
		sent      int
		permanent []string
	}{
		"the call's item":        {strings.Join(lines[:6], ""), 4, []string{"user-1"}},
		"the call's output":      {strings.Join(lines[:7], ""), 5, []string{"user-1", "call-1", "call-1:result"}},
		"and the model thinks":   {strings.Join(lines[:7], "") + tokens, 5, []string{"user-1", "call-1", "call-1:result"}},
		"the text's item":        {strings.Join(lines[:8], ""), 6 + deltas, []string{"user-1", "call-1", "call-1:result"}},
		"the text for the model": {strings.Join(lines[:9], ""), 7 + deltas, []string{"user-1", "call-1", "call-1:result", "msg-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := recorded.Live(t, replay.Run{Records: records[:c.sent], End: "signal killed"}.Spool())
			restored := recorded.Parsed(t, memory(event.Main, c.written))
			var ids []string
			for _, b := range restored.Blocks {
				ids = append(ids, b.ID)
			}
			require.Equal(t, c.permanent, ids)
			replay.Same(t, live, restored, parity.Rules{})
		})
	}
}

// A text that the program wrote and was stopped before it sent is not the agent's: neither
// subscribers nor the model have it. One that the model has was sent.
func TestInterruptedBehindAText(t *testing.T) {
	t.Parallel()
	_, rollout := syntheticTurn(1, 3)
	lines := strings.SplitAfter(rollout, "\n")
	abort := `{"timestamp":"2026-01-02T03:04:05.678Z","type":"response_item","payload":{"type":"message","role":"developer","id":"d","content":[{"type":"input_text","text":"<turn_aborted>"}]}}` + "\n" +
		`{"timestamp":"2026-01-02T03:04:05.678Z","type":"event_msg","payload":{"type":"turn_aborted","turn_id":"turn-1","reason":"interrupted","duration_ms":5000}}` + "\n"
	for name, c := range map[string]struct {
		written []string
		want    []string
	}{
		"the call's item":        {lines[:6], []string{"user-1", "call-1", "call-1:result"}},
		"the text's item":        {lines[:8], []string{"user-1", "call-1", "call-1:result"}},
		"the text for the model": {lines[:9], []string{"user-1", "call-1", "call-1:result", "msg-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ids []string
			for _, b := range recorded.Parsed(t, memory(event.Main, strings.Join(c.written, "")+abort)).Blocks {
				ids = append(ids, b.ID)
			}
			require.Equal(t, c.want, ids)
		})
	}
}

// A prompt that the program has not taken when its turn is interrupted is in no rollout: the
// host keeps it.
func TestInterruptedBeforeThePrompt(t *testing.T) {
	t.Parallel()
	var records []traffic.Record
	add := func(dir event.Dir, line string) {
		records = append(records, traffic.Record{Dir: dir, Line: line})
	}
	add(event.DirOut, `{"method":"thread/started","params":{"thread":{"id":"main"}}}`)
	add(event.DirIn, `{"id":"1","method":"turn/start","params":{"threadId":"main","clientUserMessageId":"asked","input":[{"type":"text","text":"hello"}]}}`)
	add(event.DirOut, `{"id":"1","result":{"turn":{"id":"one"}}}`)
	add(event.DirOut, `{"method":"turn/started","params":{"threadId":"main","turn":{"id":"one"}}}`)
	taken := `{"method":"item/started","params":{"threadId":"main","turnId":"one","item":{"type":"userMessage","id":"u","clientId":"asked","content":[{"type":"text","text":"hello"}]}}}`
	end := `{"method":"turn/completed","params":{"threadId":"main","turn":{"id":"one","status":"interrupted"}}}`
	for name, c := range map[string]struct {
		lines []string
		kept  bool
	}{
		"not taken": {[]string{end}, true},
		"taken":     {[]string{taken, end}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := slices.Clone(records)
			for _, line := range c.lines {
				all = append(all, traffic.Record{Dir: event.DirOut, Line: line})
			}
			state := recorded.Live(t, replay.Run{Records: all}.Spool())
			require.Len(t, state.Blocks, 1)
			require.Equal(t, "asked", state.Blocks[0].ID)
			require.Equal(t, c.kept, state.Blocks[0].Source == event.SourceServer)
		})
	}
}
