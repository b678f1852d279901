package overview

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

var textBlock = event.BlockUpsert{Block: event.Block{ID: "b", Type: event.BlockAssistantText}}

func pick[T any](g *rand.Rand, of ...T) T { return of[g.IntN(len(of))] }

func maybe[T any](g *rand.Rand, v T) *T {
	if g.IntN(2) == 0 {
		return nil
	}
	return &v
}

// sessionEvents returns hostile sequences of the events that Session folds.
func sessionEvents(g *rand.Rand, n int) []event.Event {
	out := make([]event.Event, n)
	for i := range out {
		e := event.Event{Payload: sessionPayload(g), Context: event.Context{
			SessionID: pick(g, "s1", "s1", "s1", "", "s2"), Seq: uint64(pick(g, 0, i, i+1, 1)),
		}}
		if g.IntN(3) > 0 {
			e.Context.Timestamp = time.UnixMilli(1_700_000_000_000 + g.Int64N(1000)).UTC()
		}
		out[i] = e
	}
	return out
}

func sessionPayload(g *rand.Rand) event.Payload {
	env := event.Environment{SandboxID: pick(g, "", "sb1", "sb2"), Status: pick(g, "", "", "ready", "odd"), RestartCount: g.IntN(3), Reason: pick(g, "", "idle")}
	query := event.Query{ExecutionID: pick(g, "", "x1", "x2"), MessageIDs: pick(g, nil, []string{}, []string{"m"}), Error: pick(g, nil, &event.ErrorInfo{Message: "m", Data: json.RawMessage(`{ "a": 1 }`)})}
	file := event.File{Path: pick(g, "", "a", "b"), Size: g.Int64N(5)}
	ids := pick(g, "", "r1", "r2")
	switch g.IntN(10) {
	case 0:
		return pick[event.Payload](g, event.EECreating{Environment: env}, event.EEReady{Environment: env}, event.EETerminated{Environment: env}, event.EEError{Environment: env}, event.EEHealthCheck{Environment: env})
	case 1:
		return pick[event.Payload](g, event.QueryStarted{Query: query}, event.QueryCompleted{Query: query}, event.QueryFailed{Query: query}, event.QueryInterrupted{Query: query})
	case 2:
		return pick[event.Payload](g, event.FileCreated{File: file}, event.FileModified{File: file}, event.FileDeleted{File: file})
	case 3:
		return pick[event.Payload](g, event.TranscriptChanged{Transcript: event.Transcript{ID: ids, Offset: 4}}, event.TranscriptWritten{})
	case 4, 5:
		return event.MetadataUpdate{Total: g.IntN(2) == 0, Usage: maybe(g, event.Usage{InputTokens: g.Int64N(9) - 2, OutputTokens: g.Int64N(9)}), CostUSD: maybe(g, pick(g, 0.5, -1, 1e308)), Model: pick(g, "", "m")}
	case 6:
		return pick[event.Payload](g, event.PermissionRequested{RequestID: ids, Input: json.RawMessage(`{"torn`)}, event.PermissionResolved{RequestID: ids})
	case 7:
		return event.OptionsUpdate{Title: maybe(g, pick(g, "", "T")), Tags: pick(g, nil, []string{"a"}), Metadata: pick(g, nil, map[string]json.RawMessage{ids: nil})}
	case 8:
		return pick[event.Payload](g, event.Status{State: "idle", Runtime: pick(g, nil, &event.Runtime{}, &event.Runtime{Sandbox: &env})}, event.Error{ErrorInfo: event.ErrorInfo{Message: "e"}}, event.SessionIdle{})
	default:
		return pick[event.Payload](g, event.SessionInitialized{Agent: "claude", Reopened: g.IntN(2) == 0}, event.SessionClosed{}, textBlock, nil)
	}
}

func encodeSession(t *testing.T, s Session) string {
	t.Helper()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	return string(data)
}

// The laws of the conversation hold for the session as well: total, pure, a split
// fold is the whole fold (also through JSON), Next agrees with the builder, and a
// returned value never changes.
func TestSessionLaws(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		g := rand.New(rand.NewPCG(seed, 0x50_4a))
		events := sessionEvents(g, 60)
		cut := g.IntN(len(events))
		var (
			next    Session
			states  []Session
			texts   []string
			builder Builder
		)
		for i, e := range events {
			next = next.Next(e)
			builder.Add(e)
			if i%3 == 0 || i == cut {
				states = append(states, next, builder.Session())
				texts = append(texts, encodeSession(t, next), encodeSession(t, builder.Session()))
			}
			if i == cut {
				var stored Session
				require.NoError(t, json.Unmarshal([]byte(encodeSession(t, next)), &stored))
				builder = *New(stored)
			}
		}
		require.Equal(t, encodeSession(t, next), encodeSession(t, builder.Session()), "seed %d", seed)
		for i := range states {
			require.Equal(t, texts[i], encodeSession(t, states[i]), "seed %d: state %d", seed, i)
		}
	}
}

func feed(payloads ...event.Payload) Session {
	var b Builder
	for i, p := range payloads {
		b.Add(event.Event{Payload: p, Context: event.Context{SessionID: "s1", Seq: uint64(i + 1), Timestamp: time.UnixMilli(int64(i)).UTC()}})
	}
	return b.Session()
}

func TestSessionIgnoresRepeatedDelivery(t *testing.T) {
	t.Parallel()
	e := event.Event{Payload: event.MetadataUpdate{CostUSD: new(1.5)}, Context: event.Context{SessionID: "s1", Seq: 4}}
	once := Session{}.Next(e)
	require.Equal(t, once, once.Next(e))
	require.Equal(t, 1.5, once.Totals.CostUSD)
}

func TestR66MetadataUpdate(t *testing.T) {
	t.Parallel()
	turn := event.MetadataUpdate{Usage: &event.Usage{InputTokens: 10, OutputTokens: 5}, CostUSD: new(0.25), Model: "opus"}
	s := feed(turn, turn)
	require.Equal(t, Totals{event.Usage{InputTokens: 20, OutputTokens: 10}, 0.5}, s.Totals)
	require.Equal(t, "opus", s.Model)
}

func TestR66TotalsReplaceTheIncrementsTheyCover(t *testing.T) {
	t.Parallel()
	turn := event.MetadataUpdate{CostUSD: new(0.25)}
	total := func(usd float64) event.MetadataUpdate { return event.MetadataUpdate{Total: true, CostUSD: &usd} }
	require.Equal(t, 0.5, feed(turn, turn, total(0.5)).Totals.CostUSD)
	require.Equal(t, 1.5, feed(total(0.5), turn, total(1.5)).Totals.CostUSD)
	require.Equal(t, 1.75, feed(total(1.5), total(0.25)).Totals.CostUSD, "a total that went back is a new process's")
	require.Equal(t, 2.0, feed(total(0.5), event.EECreating{}, total(1.5)).Totals.CostUSD, "and so is one in a new sandbox")
	require.Equal(t, 0.75, feed(turn, event.EECreating{}, total(0.5)).Totals.CostUSD, "what a dead process left open is kept")
}

func TestR67QueryStartedCompletedFailed(t *testing.T) {
	t.Parallel()
	started := event.QueryStarted{Query: event.Query{ExecutionID: "x", MessageIDs: []string{"m"}, Message: "hi"}}
	s := feed(started)
	require.Equal(t, QueryRunning, s.Current.Status)
	require.Equal(t, "hi", s.Current.Message)
	s = feed(started, event.QueryCompleted{Query: event.Query{ExecutionID: "x", DurationMS: 7}})
	require.Nil(t, s.Current)
	require.Equal(t, "completed 7 hi", fmt.Sprint(s.Last.Status, " ", s.Last.DurationMS, " ", s.Last.Message))
	s = feed(started, event.QueryFailed{Query: event.Query{ExecutionID: "x", Error: &event.ErrorInfo{Message: "crashed"}}})
	require.Equal(t, QueryFailed, s.Last.Status)
	require.Equal(t, "crashed", s.LastError.Message)
	s = feed(started, event.QueryInterrupted{Query: event.Query{ExecutionID: "x"}})
	require.Equal(t, QueryInterrupted, s.Last.Status)
}

func TestR68EnvironmentEvents(t *testing.T) {
	t.Parallel()
	env := event.Environment{SandboxID: "sb"}
	payloads := []event.Payload{}
	for _, step := range []struct {
		event  event.Payload
		status string
	}{
		{event.EECreating{Environment: env}, "starting"},
		{event.EEReady{Environment: env}, "ready"},
		{event.EEHealthCheck{}, "ready"},
		{event.EEHealthCheck{Environment: event.Environment{Status: "unhealthy"}}, "unhealthy"},
		{event.EEError{}, "unhealthy"},
		{event.EETerminated{Environment: event.Environment{Reason: "idle"}}, "terminated"},
	} {
		payloads = append(payloads, step.event)
		require.Equal(t, step.status, feed(payloads...).Environment.Status, "%T", step.event)
	}
	s := feed(payloads...)
	require.Equal(t, "idle", s.Environment.Reason)
	require.Equal(t, time.UnixMilli(3).UTC(), s.Environment.LastHealthCheck)
}

func TestR69FileEvents(t *testing.T) {
	t.Parallel()
	f := func(size int64) event.File { return event.File{Path: "a.txt", Size: size, Content: new("x")} }
	s := feed(event.FileCreated{File: f(1)}, event.FileModified{File: f(2)})
	require.Equal(t, FileChange{Change: "modified", Size: 2, At: time.UnixMilli(1).UTC()}, s.Files["a.txt"])
	s = s.Next(event.Event{Payload: event.FileDeleted{File: event.File{Path: "a.txt"}}})
	require.Equal(t, "deleted", s.Files["a.txt"].Change)
}

func TestR70TranscriptEvents(t *testing.T) {
	t.Parallel()
	s := feed(event.TranscriptChanged{Transcript: event.Transcript{ID: "main", Offset: 10}},
		event.TranscriptChanged{Transcript: event.Transcript{ID: "main", Offset: 25, SHA256: "ab"}},
		event.TranscriptWritten{Transcript: event.Transcript{ID: "a1", Offset: 5}})
	require.Equal(t, map[string]event.Transcript{"main": {ID: "main", Offset: 25, SHA256: "ab"}, "a1": {ID: "a1", Offset: 5}}, s.Transcripts)
}

func TestR71StatusEvent(t *testing.T) {
	t.Parallel()
	s := feed(event.SessionInitialized{Agent: "claude"})
	require.Equal(t, event.Runtime{IsLoaded: true}, s.Runtime())
	s = feed(event.SessionInitialized{}, event.Status{Runtime: &event.Runtime{IsLoaded: true, Sandbox: &event.Environment{SandboxID: "sb", Status: "ready"}}})
	require.Equal(t, "ready", s.Runtime().Sandbox.Status)
	s = s.Next(event.Event{Payload: event.Status{Runtime: &event.Runtime{}}})
	require.Nil(t, s.Runtime().Sandbox)
	s = s.Next(event.Event{Payload: event.SessionClosed{}})
	require.Equal(t, event.Runtime{}, s.Runtime())
}

func TestR73OptionsLogError(t *testing.T) {
	t.Parallel()
	s := feed(event.OptionsUpdate{Model: new("opus"), Title: new("T")}, event.OptionsUpdate{Model: new("haiku")})
	require.Equal(t, "haiku T", s.Model+" "+s.Title, "a model switch leaves the rest alone")
	fault := event.ErrorInfo{Message: "m", Code: "c", Data: json.RawMessage(`{"a":1}`)}
	logged := feed(event.Error{ErrorInfo: fault}, event.Log{Level: "warn", Message: "w"})
	require.Equal(t, &fault, logged.LastError)
}

// A conversation's state and the rest are two folds of one stream that share nothing.
func TestR84OtherStateStandsOutsideTheConversation(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		g := rand.New(rand.NewPCG(seed, 0x50_4a))
		for _, e := range sessionEvents(g, 20) {
			_, isBlock := e.Payload.(event.BlockUpsert)
			_, isIdle := e.Payload.(event.SessionIdle)
			require.True(t, isBlock || isIdle || reducer.State{}.Same(reducer.Reduce(reducer.State{}, e)), "%s", e.Type())
		}
		s := Session{SessionID: "s1"}
		require.Equal(t, encodeSession(t, s), encodeSession(t, s.Next(event.Event{Payload: textBlock})))
	}
}

// BenchmarkBuilderFiles: the cost of a file must not grow with their number.
func BenchmarkBuilderFiles(b *testing.B) {
	for _, n := range []int{10, 20_000} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			var builder Builder
			events := make([]event.Event, n)
			for i := range events {
				events[i] = event.Event{Payload: event.FileModified{File: event.File{Path: fmt.Sprintf("dir/file-%06d", i)}}}
				builder.Add(events[i])
			}
			b.ResetTimer()
			for i := range b.N {
				builder.Add(events[i%n])
			}
		})
	}
}

// The requests of a turn end with it, answered or not: those of a lost host never get an
// answer.
func TestRequestsEndWithTheirTurn(t *testing.T) {
	t.Parallel()
	q := event.Query{ExecutionID: "x1"}
	for _, end := range []event.Payload{event.QueryCompleted{Query: q}, event.QueryFailed{Query: q}, event.QueryInterrupted{Query: q}} {
		var s Session
		for _, p := range []event.Payload{event.QueryStarted{Query: q}, event.PermissionRequested{RequestID: "r1"}, event.Status{State: "waiting"}} {
			s = s.Next(event.Event{Payload: p})
		}
		require.Len(t, s.Permissions, 1, "a parked turn has not ended")
		require.Empty(t, s.Next(event.Event{Payload: end}).Permissions, "%T", end)
	}
}
