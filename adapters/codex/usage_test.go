package codex

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/replay"
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

// TestUsageBehindATurnWithoutAny: a turn was interrupted before its call's usage was known.
// What the next turn's call took is that call's, live and restored.
func TestUsageBehindATurnWithoutAny(t *testing.T) {
	t.Parallel()
	const interrupted, answered = "one", "two"
	var records []traffic.Record
	var rollout strings.Builder
	say := func(format string, args ...any) {
		records = append(records, traffic.Record{Dir: event.DirOut, Line: fmt.Sprintf(format, args...)})
	}
	write := func(format string, args ...any) {
		fmt.Fprintf(&rollout, `{"timestamp":"2026-01-02T03:04:05.678Z","type":"event_msg","payload":{`+format+"}}\n", args...)
	}
	for _, turn := range []string{interrupted, answered} {
		say(`{"method":"turn/started","params":{"threadId":"main","turn":{"id":%q}}}`, turn)
		write(`"type":"task_started","turn_id":%q`, turn)
		say(`{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"msg-%s","text":"said"},"threadId":"main","turnId":%q}}`, turn, turn)
		write(`"type":"item_completed","turn_id":%q,"item":{"type":"AgentMessage","id":"msg-%s","content":[{"type":"Text","text":"said"}]}`, turn, turn)
		if turn == interrupted {
			say(`{"method":"turn/completed","params":{"threadId":"main","turn":{"id":%q,"status":"interrupted"}}}`, turn)
			write(`"type":"turn_aborted","turn_id":%q,"reason":"interrupted"`, turn)
		}
	}
	say(`{"method":"thread/tokenUsage/updated","params":{"threadId":"main","turnId":"two","tokenUsage":{"total":{"totalTokens":120},"last":{"inputTokens":100,"outputTokens":20}}}}`)
	write(`"type":"token_count","info":{"total_token_usage":{"total_tokens":120},"last_token_usage":{"input_tokens":100,"output_tokens":20}}`)
	say(`{"method":"turn/completed","params":{"threadId":"main","turn":{"id":"two","status":"completed"}}}`)
	write(`"type":"task_complete","turn_id":"two"`)

	for from, s := range map[string]reducer.State{
		"live": recorded.Live(t, replay.Run{Records: records}.Spool()), "restored": recorded.Parsed(t, memory(event.Main, rollout.String())),
	} {
		used := map[string]event.Usage{}
		for _, b := range s.Blocks {
			if b.Usage != nil {
				used[b.ID] = *b.Usage
			}
		}
		require.Equal(t, map[string]event.Usage{"msg-two": {InputTokens: 100, OutputTokens: 20}}, used, from)
	}
}
