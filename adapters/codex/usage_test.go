package codex

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// TestUsageBehindAnInterrupt: what a model call took is reported after the end of its
// turn, which was interrupted. Its block has it, and a report that is repeated adds nothing.
func TestUsageBehindAnInterrupt(t *testing.T) {
	t.Parallel()
	at := `"threadId":"main","turnId":"one"`
	report := `{"method":"thread/tokenUsage/updated","params":{` + at + `,"tokenUsage":{"total":{"totalTokens":120},"last":{"inputTokens":100,"outputTokens":20}}}}`
	lines := []string{
		`{"method":"turn/started","params":{"threadId":"main","turn":{"id":"one"}}}`,
		`{"method":"item/started","params":{"item":{"type":"commandExecution","status":"inProgress","id":"call","command":"sleep 600"},` + at + `}}`,
		`{"method":"turn/completed","params":{"threadId":"main","turn":{"id":"one","status":"interrupted"}}}`,
		report, report,
	}
	records := func(yield func(traffic.Record, error) bool) {
		for _, line := range lines {
			if !yield(traffic.Record{Dir: event.DirOut, Line: line}, nil) {
				return
			}
		}
	}
	var used []event.Block
	for ev, err := range adapters.Translate(New(), records, adapters.TranslateOptions{}) {
		require.NoError(t, err)
		if p, ok := ev.Payload.(event.BlockUpsert); ok && p.Block.Usage != nil {
			used = append(used, p.Block)
		}
	}
	require.Len(t, used, 1)
	require.Equal(t, "call", used[0].ID)
	require.Equal(t, event.Usage{InputTokens: 100, OutputTokens: 20}, *used[0].Usage)
}
