package starter

import (
	"bytes"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// retained reads a stream as [stream.Log.Read] does. Its first events are purged; firsts are
// the first ones that are left, one for each read, since retention continues meanwhile.
func retained(events []event.Event, firsts ...uint64) func(uint64) iter.Seq2[event.Event, error] {
	return func(after uint64) iter.Seq2[event.Event, error] {
		return func(yield func(event.Event, error) bool) {
			first := firsts[0]
			firsts = firsts[min(1, len(firsts)-1):]
			if after+1 < first {
				yield(event.Event{}, &stream.GapError{SessionID: "s1", Want: after + 1, Have: first, Purged: true})
				return
			}
			for _, e := range events[after:] {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func numbered(payloads ...event.Payload) (events []event.Event) {
	for i, p := range payloads {
		events = append(events, event.Event{Payload: p, Context: event.Context{SessionID: "s1", Seq: uint64(i + 1)}})
	}
	return events
}

func oldSession() []event.Event {
	text := "Run it"
	return numbered(
		event.SessionInitialized{Agent: "claude"}, event.SessionIdle{}, event.QueryStarted{Query: event.Query{ExecutionID: "x1"}},
		event.BlockUpsert{Block: event.Block{ID: "u", Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text}},
		event.PermissionRequested{RequestID: "r1", ToolName: "Bash"},
	)
}

// A chat with a session whose first events are past retention shows the remaining events, and a line answers the request.
func TestChatWithAnOldSession(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}).newTalk(&session.Handle{}, "")
	after, err := talk.replay(retained(oldSession(), 3))
	require.NoError(t, err)
	require.Equal(t, uint64(5), after)
	require.Equal(t, "r1", talk.firstAsk().request)
	require.Contains(t, out.String(), "› Run it")
	require.Contains(t, out.String(), "? may it run  Bash")
	require.Equal(t, "sojourn: events 1 to 2 are past the stream's retention; sojourn show has the whole conversation\n", errs.String())
}
