package activities

import (
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// A message whose host is lost before any agent streamed or persisted it is known only to
// the workflow: both conversations have it once, before the failure. The same holds if the
// stream has lost it.
func TestAnAbortedExecutionKeepsItsMessage(t *testing.T) {
	t.Parallel()
	const id = "s1"
	q := event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}}
	prompt := func(id, text string) event.Payload {
		return event.BlockUpsert{Block: event.Block{
			ID: id, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text, Source: event.SourceRunner,
		}}
	}
	for name, c := range map[string]struct {
		streamed []event.Payload
		deleted  bool
		want     []string
	}{
		"nothing was streamed":                   {nil, false, []string{"m2: two"}},
		"the agent was not asked":                {[]event.Payload{event.QueryStarted{Query: q}}, false, []string{"m2: two"}},
		"the stream is gone":                     {[]event.Payload{event.QueryStarted{Query: q}, prompt("m2", "two")}, true, []string{"m2: two"}},
		"the agent streamed it":                  {[]event.Payload{event.QueryStarted{Query: q}, prompt("m2", "two")}, false, []string{"m2: two"}},
		"the agent streamed it under its own id": {[]event.Payload{event.QueryStarted{Query: q}, prompt("native", "two")}, false, []string{"native: two"}},
		"another message was streamed":           {[]event.Payload{prompt("m1", "one"), event.QueryStarted{Query: q}}, false, []string{"m1: one", "m2: two"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, store := fresh(t)
			s := &Session{Stream: log, Archive: store, Agents: builtin.Registry()}
			begun, err := s.Begin(t.Context(), contract.BeginInput{Session: session.Input{SessionID: id, Options: session.Options{Agent: "claude"}}})
			require.NoError(t, err)
			in := contract.EmitInput{SessionID: id, Epoch: begun.Epoch, LastSeq: begun.LastSeq}
			if len(c.streamed) > 0 {
				w, err := log.Writer(t.Context(), id, stream.Fence{Epoch: begun.Epoch, Attempt: 1}, stream.WriterOptions{LastSeq: begun.LastSeq})
				require.NoError(t, err)
				var events []event.Event
				for _, p := range c.streamed {
					events = append(events, fromServer(p))
				}
				_, err = w.Append(t.Context(), events, stream.Position{})
				require.NoError(t, err)
			}
			if c.deleted {
				require.NoError(t, log.Purge(t.Context(), id))
			}
			info := event.ErrorInfo{Message: "its hosts were lost", Code: session.TypeHostLost}
			q := q
			q.Error = &info
			in.Key, in.TakeEpoch = "failed-x2", true
			in.Events = []event.Event{
				fromServer(event.BlockUpsert{Block: event.Block{ID: "failed", Type: event.BlockError, Status: event.StatusComplete, Source: event.SourceServer, Message: &info.Message}}),
				fromServer(event.QueryFailed{Query: q}),
			}
			in.Abort = &contract.Abort{
				Agent: "claude", ExecutionID: "x2", MessageID: "m2", Message: session.Message{ID: "m2", Text: "two"}, AfterSeq: begun.LastSeq,
			}
			_, err = s.Emit(t.Context(), in)
			require.NoError(t, err)

			live := reducer.NewBuilder(reducer.State{})
			require.NoError(t, eachAfter(t.Context(), log, id, 0, func(ev event.Event) bool { live.Add(ev); return true }))
			restored := reducer.NewBuilder(reducer.State{})
			adapter, err := builtin.Registry().Get("claude")
			require.NoError(t, err)
			for ev, err := range store.Events(t.Context(), id, adapter.Parse) {
				require.NoError(t, err)
				restored.Add(ev)
			}
			for side, state := range map[string]reducer.State{"live": live.State(), "restored": restored.State()} {
				var prompts []string
				for _, b := range state.Blocks {
					if b.Type == event.BlockUserMessage {
						prompts = append(prompts, b.ID+": "+*b.Content)
					}
				}
				require.Equal(t, c.want, prompts, side)
				require.Equal(t, "failed", state.Blocks[len(state.Blocks)-1].ID, "%s: %v", side, slices.Collect(idsOf(state)))
			}
		})
	}
}

// duringParse is an agent during whose reading of transcripts a test can act.
type duringParse struct {
	adapters.Adapter
	happen func()
}

func (d duringParse) Parse(sources []adapters.Source) iter.Seq2[event.Event, error] {
	d.happen()
	return d.Adapter.Parse(sources)
}

// A lost host may be about to write the execution's end, and write it while the execution
// is aborted: the execution still has one end.
func TestAnAbortedExecutionHasOneEnd(t *testing.T) {
	t.Parallel()
	const id = "s1"
	log, store := fresh(t)
	claude, err := builtin.Registry().Get("claude")
	require.NoError(t, err)
	s := &Session{Stream: log, Archive: store, Agents: builtin.Registry()}
	begun, err := s.Begin(t.Context(), contract.BeginInput{Session: session.Input{SessionID: id, Options: session.Options{Agent: "claude"}}})
	require.NoError(t, err)
	q := event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}}
	old, err := log.Writer(t.Context(), id, stream.Fence{Epoch: begun.Epoch, Attempt: 1}, stream.WriterOptions{LastSeq: begun.LastSeq})
	require.NoError(t, err)
	_, err = old.Append(t.Context(), []event.Event{fromServer(event.QueryStarted{Query: q})}, stream.Position{})
	require.NoError(t, err)
	var late error
	s.Agents = adapters.New(duringParse{claude, func() {
		_, late = old.Append(t.Context(), []event.Event{fromServer(event.QueryCompleted{Query: q})}, stream.Position{})
	}})
	_, err = s.Emit(t.Context(), contract.EmitInput{
		SessionID: id, Epoch: begun.Epoch, LastSeq: begun.LastSeq, Key: "failed-x2", TakeEpoch: true,
		Events: []event.Event{fromServer(event.QueryFailed{Query: q})},
		Abort: &contract.Abort{
			Agent: "claude", ExecutionID: "x2", MessageID: "m2", Message: session.Message{ID: "m2", Text: "two"}, AfterSeq: begun.LastSeq,
		},
	})
	require.NoError(t, err)
	require.ErrorIs(t, late, stream.ErrFenced)
	var ends []event.Type
	require.NoError(t, eachAfter(t.Context(), log, id, 0, func(ev event.Event) bool {
		if _, ended := session.ResultOf(ev, "m2"); ended {
			ends = append(ends, ev.Type())
		}
		return true
	}))
	require.Equal(t, []event.Type{event.TypeOf(event.QueryFailed{})}, ends)
}

// A call that waited for a person when its turn was parked did nothing. Without that its
// effect is unknown. Its request is withdrawn, once, before the execution's end.
func TestAnAbortedExecutionThatWasParked(t *testing.T) {
	t.Parallel()
	const id = "s1"
	for name, parked := range map[string]*permission.Parked{"parked": {Requests: []permission.Request{{ID: "r1", ToolUseID: "c1"}}}, "lost": nil} {
		log, store := fresh(t)
		s := &Session{Stream: log, Archive: store, Agents: builtin.Registry()}
		begun, err := s.Begin(t.Context(), contract.BeginInput{Session: session.Input{SessionID: id, Options: session.Options{Agent: "claude"}}})
		require.NoError(t, err)
		q := event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}}
		w, err := log.Writer(t.Context(), id, stream.Fence{Epoch: begun.Epoch, Attempt: 1}, stream.WriterOptions{LastSeq: begun.LastSeq})
		require.NoError(t, err)
		_, err = w.Append(t.Context(), []event.Event{
			fromServer(event.QueryStarted{Query: q}),
			fromServer(event.BlockUpsert{Block: event.Block{ID: "c1", Type: event.BlockToolUse, Status: event.StatusComplete, ToolName: "Bash", Source: event.SourceRunner}}),
			fromServer(event.PermissionRequested{RequestID: "r0", ToolName: "Bash"}),
			fromServer(event.PermissionResolved{RequestID: "r0", Decision: "deny"}),
			fromServer(event.PermissionRequested{RequestID: "r1", ToolName: "Bash", ToolUseID: "c1"}),
		}, stream.Position{})
		require.NoError(t, err)
		for range 2 { // the activity may be tried again
			_, err = s.Emit(t.Context(), contract.EmitInput{
				SessionID: id, Epoch: begun.Epoch, LastSeq: begun.LastSeq, Key: "interrupted-x2", Events: []event.Event{fromServer(event.QueryInterrupted{Query: q})},
				Abort: &contract.Abort{
					Agent: "claude", ExecutionID: "x2", MessageID: "m2", Message: session.Message{ID: "m2", Text: "two"}, AfterSeq: begun.LastSeq, Parked: parked,
				},
			})
			require.NoError(t, err, "no epoch has to be taken")
		}
		require.Equal(t, []string{"r0 requested", "r0 deny", "r1 requested", "r1 cancelled", "ended"}, requestsIn(t, log, id), name)
		live := reducer.NewBuilder(reducer.State{})
		require.NoError(t, eachAfter(t.Context(), log, id, 0, func(ev event.Event) bool { live.Add(ev); return true }))
		require.Equal(t, parked == nil, slices.ContainsFunc(live.State().Blocks, effects.Unknown), name)
	}
}

// An execution whose stream was deleted after its end, and whose host was lost then, has
// the end that the host's last heartbeat reported, and no other.
func TestAnEndThatOnlyAHeartbeatTold(t *testing.T) {
	t.Parallel()
	const id = "s1"
	log, store := fresh(t)
	s := &Session{Stream: log, Archive: store, Agents: builtin.Registry()}
	begun, err := s.Begin(t.Context(), contract.BeginInput{Session: session.Input{SessionID: id, Options: session.Options{Agent: "claude"}}})
	require.NoError(t, err)
	q := event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}}
	old, err := log.Writer(t.Context(), id, stream.Fence{Epoch: begun.Epoch, Attempt: 1}, stream.WriterOptions{LastSeq: begun.LastSeq})
	require.NoError(t, err)
	_, err = old.Append(t.Context(), []event.Event{fromServer(event.QueryStarted{Query: q}), fromServer(event.QueryCompleted{Query: q})}, stream.Position{})
	require.NoError(t, err)
	require.NoError(t, log.Purge(t.Context(), id))
	ended := session.Result{ExecutionID: "x2", MessageID: "m2", Outcome: session.Completed}
	out, err := s.Emit(t.Context(), contract.EmitInput{
		SessionID: id, Epoch: begun.Epoch, LastSeq: begun.LastSeq, Key: "failed-x2", TakeEpoch: true,
		Events: []event.Event{fromServer(event.QueryFailed{Query: q})},
		Abort: &contract.Abort{
			Agent: "claude", ExecutionID: "x2", MessageID: "m2", Message: session.Message{ID: "m2", Text: "two"}, AfterSeq: begun.LastSeq, Ended: &ended,
		},
	})
	require.NoError(t, err)
	require.Equal(t, &ended, out.Ended)
	require.NoError(t, eachAfter(t.Context(), log, id, 0, func(ev event.Event) bool {
		_, again := session.ResultOf(ev, "m2")
		require.False(t, again, "%s", ev.Type())
		return true
	}))
}

func idsOf(s reducer.State) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, b := range s.Blocks {
			if !yield(b.ID) {
				return
			}
		}
	}
}
