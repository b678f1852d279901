package session

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// heard returns what is called back of events.
func heard(events ...event.Event) (out []string) {
	l := listener{Callbacks: Callbacks{
		OnTickStart: func(tick int, execution string) { out = append(out, fmt.Sprintf("%s/%d", execution, tick)) },
		OnTickEnd: func(tick int, usage *event.Usage) {
			tokens := -1
			if usage != nil {
				tokens = int(usage.OutputTokens)
			}
			out = append(out, fmt.Sprintf("%d took %d", tick, tokens))
		},
		OnComplete: func(r Result) { out = append(out, r.ExecutionID+" "+string(r.Outcome)+" "+r.MessageID) },
		OnError:    func(err error) { out = append(out, err.Error()) },
	}}
	for _, ev := range events {
		l.add(ev)
	}
	return out
}

func TestTicksOfAListener(t *testing.T) {
	t.Parallel()
	begin := func(x string) event.Event { return of(event.QueryStarted{Query: event.Query{ExecutionID: x}}) }
	tick := of(event.MetadataUpdate{Calls: 1})
	took := func(block string, tokens int64) event.Event {
		return of(event.BlockUpsert{Block: event.Block{ID: block, Usage: &event.Usage{OutputTokens: tokens}}})
	}
	end := of(event.QueryCompleted{Query: event.Query{ExecutionID: "x1", MessageIDs: []string{"m1", "m2"}}})
	for name, c := range map[string]struct {
		events []event.Event
		want   []string
	}{
		"two calls":             {[]event.Event{begin("x1"), tick, took("a", 3), tick, end}, []string{"x1/1", "1 took 3", "x1/2", "2 took -1", "x1 completed m1"}},
		"said again":            {[]event.Event{begin("x1"), tick, took("a", 3), took("a", 4), took("b", 1), end}, []string{"x1/1", "1 took 5", "x1 completed m1"}},
		"resumed":               {[]event.Event{begin("x1"), tick, begin("x1"), tick, end}, []string{"x1/1", "1 took -1", "x1/2", "2 took -1", "x1 completed m1"}},
		"the beginning is past": {[]event.Event{tick, took("a", 3), tick, end}, []string{"x1 completed m1"}},
		"another is cancelled": {
			[]event.Event{begin("x1"), tick, of(event.QueryInterrupted{Query: event.Query{ExecutionID: "x2", MessageIDs: []string{"m3"}}}), tick, end},
			[]string{"x1/1", "x2 interrupted m3", "1 took -1", "x1/2", "2 took -1", "x1 completed m1"},
		},
		"no calls reported":    {[]event.Event{begin("x1"), took("a", 3), end}, []string{"x1 completed m1"}},
		"of a native subagent": {[]event.Event{begin("x1"), within("sub", tick.Payload), end}, []string{"x1 completed m1"}},
		"it never ran":         {[]event.Event{of(event.QueryInterrupted{Query: event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}}})}, []string{"x2 interrupted m2"}},
		"it failed": {
			[]event.Event{begin("x1"), tick, of(event.QueryFailed{Query: event.Query{ExecutionID: "x1", Error: &event.ErrorInfo{Message: "no"}}})},
			[]string{"x1/1", "1 took -1", "execution x1 failed: no"},
		},
		"a fault": {[]event.Event{of(event.Error{ErrorInfo: event.ErrorInfo{Message: "died"}})}, []string{"session s1: died"}},
	} {
		require.Equal(t, c.want, heard(c.events...), name)
	}
	listener := listener{}
	for _, ev := range []event.Event{begin("x1"), tick, took("a", 1), end} {
		listener.add(ev) // without callbacks nothing happens
	}
}

func of(p event.Payload) event.Event { return within(event.Main, p) }

func within(conversation string, p event.Payload) event.Event {
	return event.Event{Payload: p, Context: event.Context{SessionID: "s1", ConversationID: conversation}}
}
