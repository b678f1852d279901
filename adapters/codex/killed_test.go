package codex

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
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
