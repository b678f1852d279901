package codex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/parity"
)

const ofTurn = `"threadId":"main","turnId":"one"`

// itemAtOnce is a command or a text: the two lines that are sent about it, and the one that
// is written.
type itemAtOnce struct{ starts, ends, written string }

func newItemAtOnce(rng *rand.Rand, n int) itemAtOnce {
	started := 10 + rng.IntN(4)
	ended := started + rng.IntN(4)
	begun := fmt.Sprintf(`"type":"commandExecution","id":"call-%d","processId":"7","command":"ls"`, n)
	done := begun + `,"status":"completed","aggregatedOutput":"a"`
	disk := fmt.Sprintf(`"type":"CommandExecution","id":"call-%d","process_id":"7","command":["ls"],"status":"completed","aggregated_output":"a"`, n)
	if rng.IntN(3) == 0 {
		begun = fmt.Sprintf(`"type":"agentMessage","id":"msg-%d"`, n)
		done = begun + `,"text":"said"`
		disk = fmt.Sprintf(`"type":"AgentMessage","id":"msg-%d","content":[{"type":"Text","text":"said"}]`, n)
	}
	return itemAtOnce{
		starts:  fmt.Sprintf(`{"method":"item/started","params":{"item":{%s,"startedAtMs":%d},%s}}`, begun, started, ofTurn),
		ends:    fmt.Sprintf(`{"method":"item/completed","params":{"item":{%s,"startedAtMs":%d,"completedAtMs":%d},%s}}`, done, started, ended, ofTurn),
		written: fmt.Sprintf(`"type":"item_completed","turn_id":"one","item":{%s},"started_at_ms":%d,"completed_at_ms":%d`, disk, started, ended),
	}
}

// turnAtOnce returns what is sent and written of a turn whose items have times from a few
// milliseconds: their starts and ends are in any order, but for each start before its end.
func turnAtOnce(seed uint64) (sent, written []string) {
	rng := rand.New(rand.NewPCG(seed, 0xc0de))
	sent = []string{`{"method":"turn/started","params":{"threadId":"main","turn":{"id":"one"}}}`}
	var waiting, open []itemAtOnce
	for n := range 2 + rng.IntN(5) {
		waiting = append(waiting, newItemAtOnce(rng, n))
	}
	for len(waiting)+len(open) > 0 {
		if len(open) == 0 || len(waiting) > 0 && rng.IntN(2) == 0 {
			sent, open, waiting = append(sent, waiting[0].starts), append(open, waiting[0]), waiting[1:]
			continue
		}
		i := rng.IntN(len(open))
		sent, written = append(sent, open[i].ends), append(written, open[i].written)
		open = slices.Delete(open, i, i+1)
	}
	rng.Shuffle(len(written), func(i, j int) { written[i], written[j] = written[j], written[i] })
	sent = append(sent, `{"method":"turn/completed","params":{"threadId":"main","turn":{"id":"one","status":"completed","durationMs":9}}}`)
	return sent, slices.Concat([]string{`"type":"task_started","turn_id":"one"`}, written, []string{`"type":"task_complete","turn_id":"one","duration_ms":9`})
}

// TestOrderOfWhatHappensAtOnce: of items that begin and end in the same milliseconds, or are
// sent later than others that end later, a restored conversation has the order that
// subscribers saw, since Sojourn keeps what the rollout lacks.
func TestOrderOfWhatHappensAtOnce(t *testing.T) {
	t.Parallel()
	differed := 0
	for seed := range uint64(500) {
		sent, written := turnAtOnce(seed)
		records := func(yield func(traffic.Record, error) bool) {
			for _, line := range sent {
				if !yield(traffic.Record{Dir: event.DirOut, Line: line}, nil) {
					return
				}
			}
		}
		server, live := loss.NewServerBlocks(""), reducer.State{}
		for ev, err := range adapters.Translate(New(), records, adapters.TranslateOptions{}) {
			require.NoError(t, err)
			server.Add(ev)
			live = reducer.Reduce(live, ev)
		}
		var rollout strings.Builder
		for _, line := range written {
			fmt.Fprintf(&rollout, `{"timestamp":"2026-01-02T03:04:05.678Z","type":"event_msg","payload":{%s}}`+"\n", line)
		}
		parse := func() reducer.State { return recorded.Parsed(t, memory(event.Main, rollout.String())) }
		restored, err := reducer.Fold(archive.Merge(New().Parse([]adapters.Source{memory(event.Main, rollout.String())}), adaptertest.ServerEntries(server)))
		require.NoError(t, err)
		differences, err := parity.Compare(live, restored, parity.Rules{})
		require.NoError(t, err)
		require.Empty(t, differences, "seed %d", seed)
		if alone, err := parity.Compare(live, parse(), parity.Rules{}); err != nil || len(alone) > 0 {
			differed++
		}
	}
	require.Greater(t, differed, 100, "the rollout alone has another order")
}
