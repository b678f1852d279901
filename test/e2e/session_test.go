package e2e

import (
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/harness"
)

func TestR1SessionRecord(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{Title: "a record", Metadata: map[string]json.RawMessage{"team": json.RawMessage(`"core"`)}})
	require.NoError(t, say(t, h, "SAY kept").Err())
	require.NoError(t, h.Close(testContext(t)))

	rec, err := spaceOf(t).Archive.Session(testContext(t), h.ID())
	require.NoError(t, err)
	require.Equal(t, h.ID(), rec.ID)
	require.Equal(t, "a record", rec.Title)
	require.JSONEq(t, `"core"`, string(rec.Metadata["team"]))
	require.False(t, rec.CreatedAt.IsZero())
	require.True(t, rec.UpdatedAt.After(rec.CreatedAt))
	data, err := json.Marshal(rec)
	require.NoError(t, err)
	var again archive.ListData
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, rec, again, "pure JSON-serialisable data")
	require.Zero(t, reflect.TypeFor[archive.ListData]().NumMethod(), "no methods")

	var shown session.SessionRecord
	require.NoError(t, json.Unmarshal([]byte(sojourn(t, "show", h.ID(), "--messages")), &shown))
	conv, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromArchive)
	require.NoError(t, err)
	require.Equal(t, conv.Record(), shown, "and back")
	require.Zero(t, reflect.TypeFor[session.SessionRecord]().NumMethod(), "no methods")
	require.Equal(t, "a record", shown.Title)
	require.JSONEq(t, `"core"`, string(shown.Metadata["team"]))
	require.True(t, rec.CreatedAt.Equal(shown.CreatedAt) && rec.UpdatedAt.Equal(shown.UpdatedAt))
	var said []string
	for _, m := range shown.Messages {
		said = append(said, string(m.Role)+": "+m.Content)
	}
	require.Equal(t, []string{"user: SAY kept", "assistant: kept"}, said)
}

func TestR2MessageRecord(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{Agent: "claude"})
	first, second := say(t, h, "SAY one"), say(t, h, "SAY two")
	require.NoError(t, h.Close(testContext(t)))
	conv, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromArchive)
	require.NoError(t, err)
	var roles, texts []string
	for _, b := range conv.State.Blocks {
		require.NotEmpty(t, b.ID)
		require.False(t, b.Timestamp.IsZero(), b.ID)
		roles, texts = append(roles, string(b.Type)), append(texts, *b.Content)
	}
	require.Equal(t, []string{"user_message", "assistant_text", "user_message", "assistant_text"}, roles)
	require.Equal(t, []string{"SAY one", "one", "SAY two", "two"}, texts)
	var withUsage []session.Role
	for i, m := range conv.Messages() {
		require.Equal(t, conv.State.Blocks[i].ID, m.ID)
		require.Equal(t, []session.Role{session.RoleUser, session.RoleAssistant}[i%2], m.Role)
		require.Equal(t, texts[i], m.Content)
		require.Equal(t, conv.State.Blocks[i].Timestamp, m.Timestamp)
		if m.Usage != nil { // never for a prompt, and for an answer unless the agent wrote it too early
			require.Equal(t, session.MessageUsage{Input: 100, Output: 20}, *m.Usage)
			withUsage = append(withUsage, m.Role)
		}
	}
	require.Contains(t, withUsage, session.RoleAssistant)
	require.NotContains(t, withUsage, session.RoleUser)
	require.Equal(t, event.Usage{InputTokens: 100, OutputTokens: 20}, first.Result.Usage)
	require.Equal(t, event.Usage{InputTokens: 100, OutputTokens: 20}, second.Result.Usage, "a turn's usage, not the process's")
	require.InDelta(t, *first.Result.CostUSD, *second.Result.CostUSD, 1e-9, "a turn's cost, not the process's")
}

func TestR3CreateMakesNoSandbox(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	changes := make(chan stream.Change, 16)
	listening := make(chan struct{})
	ready := sync.OnceFunc(func() { close(listening) }) // it is said again after each new connection
	go func() {
		for c, err := range spaceOf(t).Client.Changes(ctx) {
			if err != nil {
				return
			}
			if c.Kind == stream.ChangeMissed {
				ready()
				continue
			}
			changes <- c
		}
	}()
	<-listening
	h := open(t, session.Options{Title: "lazy"})
	for c := range changes {
		if c.SessionID == h.ID() {
			require.Equal(t, stream.ChangeCreated, c.Kind)
			break
		}
	}
	got := events(t, h)
	require.IsType(t, event.SessionInitialized{}, got[0].Payload, "session:created is before the list's change")
	_, err := spaceOf(t).Archive.Session(ctx, h.ID())
	require.NoError(t, err, "the list record is written")
	require.Empty(t, sandboxes(t, w), "no sandbox is made")

	_, err = spaceOf(t).Client.Create(ctx, "", session.Options{Agent: "claude", Profile: "no-such-profile"})
	var invalid *session.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "profile", invalid.Field)
}

func TestR4GetUnknown(t *testing.T) {
	onSharedHost(t)
	_, err := spaceOf(t).Client.Get(testContext(t), "never-was")
	require.ErrorIs(t, err, session.ErrNotFound)
	h := open(t, session.Options{})
	require.NoError(t, h.Close(testContext(t)))
	known, err := spaceOf(t).Client.Get(testContext(t), h.ID())
	require.NoError(t, err, "a closed session is still known")
	require.Equal(t, h.ID(), known.ID())
}

func TestR5UpdateReturnsTheSession(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{Title: "before"})
	title := "after"
	got, err := h.Configure(testContext(t), session.Configure{Title: &title, Tags: []string{"x"}})
	require.NoError(t, err)
	require.Equal(t, "after", got.Title)
	again, err := h.Snapshot(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "after", again.Title)
	require.NoError(t, h.Close(testContext(t)))
	rec, err := spaceOf(t).Archive.Session(testContext(t), h.ID())
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, rec.Tags)
}

func TestR10MetadataIsABagOfAnyValues(t *testing.T) {
	onSharedHost(t)
	bag := map[string]json.RawMessage{
		"userId": json.RawMessage(`"u1"`), "priority": json.RawMessage(`3`), "isArchived": json.RawMessage(`false`),
		"nested": json.RawMessage(`{"a":[1,null,"x"]}`),
	}
	h := open(t, session.Options{Metadata: bag})
	_, err := h.Configure(testContext(t), session.Configure{Metadata: map[string]json.RawMessage{
		"priority": json.RawMessage(`4`), "isArchived": json.RawMessage(`null`),
	}})
	require.NoError(t, err)
	require.NoError(t, h.Close(testContext(t)))
	rec, err := spaceOf(t).Archive.Session(testContext(t), h.ID())
	require.NoError(t, err)
	data, err := json.Marshal(rec.Metadata)
	require.NoError(t, err)
	require.JSONEq(t, `{"userId":"u1","priority":4,"nested":{"a":[1,null,"x"]}}`, string(data))
}

func TestR15GetOrCreate(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	made, err := spaceOf(t).Client.Open(ctx, "", session.Options{Agent: "claude"})
	require.NoError(t, err)
	_, err = uuid.Parse(made.ID())
	require.NoError(t, err, "without an id a UUID is generated")

	id := "own-" + uuid.NewString()
	h, err := spaceOf(t).Client.Open(ctx, id, session.Options{Agent: "claude", Title: "mine"})
	require.NoError(t, err)
	require.NoError(t, say(t, h, "SAY remember the word tangerine").Err())
	same, err := spaceOf(t).Client.Open(ctx, id, session.Options{Agent: "claude"})
	require.NoError(t, err)
	s, err := same.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, "mine", s.Title, "a known id is attached to")

	require.NoError(t, h.Close(ctx))
	back, err := spaceOf(t).Client.Open(ctx, id, session.Options{})
	require.NoError(t, err)
	res := say(t, back, "RECALL")
	require.NoError(t, res.Err())
	require.Contains(t, res.Result.Response, "tangerine", "a known id that is not open is restored")
	awaitIdle(t, back)
	s, err = back.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, "mine", s.Title)
	require.Equal(t, 2, s.Turns)
	require.NoError(t, back.Close(ctx))
	requireParity(t, id)
}

func TestR16RunIsEphemeral(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h, r, err := spaceOf(t).Client.Run(ctx, session.Options{Agent: "claude"}, session.Message{Text: "SAY once"})
	require.NoError(t, err)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, "once", res.Result.Response)
	require.NoError(t, h.Close(ctx))
	require.Eventually(t, func() bool { return contains(listed(t, session.ListOptions{Children: true}), h.ID()) }, patience, tick)
	require.NotContains(t, listed(t, session.ListOptions{}), h.ID(), "not registered")
	closed, _, err := spaceOf(t).Archive.ListClosed(ctx, 1000, "")
	require.NoError(t, err)
	for _, c := range closed {
		require.NotEqual(t, h.ID(), c.ID)
	}
}

func TestR17SessionProperties(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, h.Queue(ctx, session.Message{ID: "m1", Text: "SAY later"}))
	var s session.Snapshot
	eventually(t, func(c *assert.CollectT) bool {
		var err error
		s, err = h.Snapshot(ctx)
		require.NoError(c, err)
		return len(s.Queued) == 1
	}, patience, tick)
	require.Equal(t, h.ID(), s.SessionID)
	require.Equal(t, session.StatusIdle, s.Status)
	require.Nil(t, s.Parent)
	require.Empty(t, s.Children)
	require.False(t, s.Aborted)
	require.Equal(t, "m1", s.Queued[0].ID)

	gate := "r17-" + uuid.NewString()
	_, err := h.Send(ctx, session.Message{Text: "GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	child, _ := spawnGated(t, h)
	s, err = h.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, session.StatusRunning, s.Status)
	require.Len(t, s.Children, 1)
	require.Equal(t, child.ID(), s.Children[0].SessionID)
	c, err := child.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, h.ID(), c.Parent.SessionID)
	require.NoError(t, h.Close(ctx))
	s, err = h.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, session.StatusClosed, s.Status)
	require.Empty(t, s.Children, "active only")
}

func TestR18ClosedIsFinal(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY hi").Err())
	require.NoError(t, h.Close(ctx))
	require.NoError(t, h.Close(ctx), "close is idempotent")
	operations := map[string]func() error{
		"send":        func() error { _, err := h.Send(ctx, session.Message{Text: "SAY no"}); return err },
		"queue":       func() error { return h.Queue(ctx, session.Message{Text: "SAY no"}) },
		"render":      func() error { _, err := h.Render(ctx, session.Configure{}); return err },
		"interrupt":   func() error { _, err := h.Interrupt(ctx, session.InterruptRequest{}); return err },
		"clear-abort": func() error { return h.ClearAbort(ctx) },
		"configure":   func() error { _, err := h.Configure(ctx, session.Configure{Tags: []string{"x"}}); return err },
		"spawn": func() error {
			_, err := h.Spawn(ctx, session.SpawnRequest{Message: session.Message{Text: "SAY no"}})
			return err
		},
		"respond": func() error { return h.Respond(ctx, session.RespondRequest{RequestID: "r"}) },
		"evict":   func() error { return h.Evict(ctx) },
	}
	for name, op := range operations {
		require.ErrorIs(t, op(), session.ErrClosed, name)
	}
	reopened, err := spaceOf(t).Client.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	require.NoError(t, say(t, reopened, "SAY again").Err())
	for name, op := range operations {
		require.ErrorIs(t, op(), session.ErrClosed, "%s: another life is not this handle's", name)
	}
	ids := slices.DeleteFunc(listed(t, session.ListOptions{}), func(id string) bool { return id != h.ID() })
	require.Len(t, ids, 1, "a reopened session is one entry of the list")
	got := events(t, reopened)
	require.True(t, slices.ContainsFunc(got, func(ev event.Event) bool {
		p, ok := ev.Payload.(event.SessionInitialized)
		return ok && p.Reopened
	}))
	for i, ev := range got {
		require.Equal(t, uint64(i+1), ev.Context.Seq, "dense across runs")
	}
	require.NoError(t, reopened.Close(ctx))
}

func TestR19SendQueuesAndRuns(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	gate := "r19-" + uuid.NewString()
	first, err := h.Send(ctx, session.Message{Text: "GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	second, err := h.Send(ctx, session.Message{Text: "SAY second"})
	require.NoError(t, err)
	again, err := h.Send(ctx, session.Message{ID: second.MessageID, Text: "SAY second"})
	require.NoError(t, err)
	require.Equal(t, second, again, "a repeated message returns the first receipt")
	require.NotEqual(t, first.ExecutionID, second.ExecutionID, "an execution of its own")
	spaceOf(t).Model.Open(gate)
	res, err := h.Wait(ctx, first)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	res, err = h.Wait(ctx, second)
	require.NoError(t, err)
	require.Equal(t, "second", res.Result.Response)
	awaitIdle(t, h)
	s, err := h.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, s.Turns, "one execution each")
	require.NoError(t, h.Close(testContext(t)))
}

func TestR22RenderRunsWithoutQueueing(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	empty, err := h.Render(ctx, session.Configure{})
	require.NoError(t, err)
	require.False(t, empty.Changed)
	require.Empty(t, empty.Receipts, "nothing queued and nothing changed: no turn")
	require.NoError(t, h.Queue(ctx, session.Message{Text: "SAY was queued"}))
	title := "rendered"
	reply := session.RenderReply{}
	eventually(t, func(c *assert.CollectT) bool {
		reply, err = h.Render(ctx, session.Configure{Title: &title})
		require.NoError(c, err)
		return len(reply.Receipts) == 1
	}, patience, tick)
	res, err := h.Wait(ctx, reply.Receipts[0])
	require.NoError(t, err)
	require.Equal(t, "was queued", res.Result.Response)
	s, err := h.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, "rendered", s.Title)
	title = "rendered again"
	reply, err = h.Render(ctx, session.Configure{Title: &title})
	require.NoError(t, err)
	require.Len(t, reply.Receipts, 1, "changed, with nothing queued: an execution of its own")
	answeredWell(ctx, t, h, reply.Receipts[0])
	require.NoError(t, h.Close(testContext(t)))
}

// TestR22RenderWhileRunningIsAHotUpdate: the reply has the running execution, and its
// agent continues with the changed options.
func TestR22RenderWhileRunningIsAHotUpdate(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude", Permission: adapters.PermissionAsk})
	gate := "r22-" + uuid.NewString()
	r, err := h.Send(ctx, session.Message{Text: "GATE " + gate + " THEN TOOL bash: echo nobody is asked"})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	allow := adapters.PermissionAllow
	reply, err := h.Render(ctx, session.Configure{Permission: &allow})
	require.NoError(t, err)
	require.Equal(t, session.RenderReply{Changed: true, Receipts: []session.Receipt{r}}, reply)
	heardUntil(t, h, r.AfterSeq, first(func(p event.OptionsUpdate) bool { return p.PermissionMode != nil && *p.PermissionMode == string(allow) }))
	spaceOf(t).Model.Open(gate)
	answeredWell(ctx, t, h, r)
	all := events(t, h)
	require.True(t, toldByATool(all, "nobody is asked"))
	require.Empty(t, payloads[event.PermissionRequested](all))
	require.Len(t, payloads[event.QueryStarted](all), 1, "one execution")
	require.NoError(t, h.Close(ctx))
}

func TestR23QueueDoesNotRun(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, h.Queue(ctx, session.Message{ID: "q1", Text: "SAY first in line"}))
	require.NoError(t, h.Queue(ctx, session.Message{ID: "q2", Text: "SAY second in line"}))
	eventually(t, func(c *assert.CollectT) bool {
		s, err := h.Snapshot(ctx)
		require.NoError(c, err)
		return len(s.Queued) == 2 && s.Queued[0].ID == "q1"
	}, patience, tick, "visible in queuedMessages")
	require.Empty(t, sandboxes(t, w), "nothing ran")
	r, err := h.Send(ctx, session.Message{Text: "SAY third"})
	require.NoError(t, err)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	require.Equal(t, []string{"q1", "q2", r.MessageID}, answered(t, h), "in order")
}

func TestR26Interrupt(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	idle, err := h.Interrupt(ctx, session.InterruptRequest{Message: &session.Message{ID: "only-queued", Text: "SAY queued by an idle interrupt"}})
	require.NoError(t, err)
	require.False(t, idle.Running)
	gate := "r26-" + uuid.NewString()
	r, err := h.Send(ctx, session.Message{Text: "GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	reply, err := h.Interrupt(ctx, session.InterruptRequest{Reason: "enough", Message: &session.Message{Text: "SAY went next"}})
	require.NoError(t, err)
	require.True(t, reply.Running)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome)
	require.Equal(t, "enough", res.Reason)
	next, err := h.Wait(ctx, *reply.Receipt)
	require.NoError(t, err)
	require.Equal(t, "went next", next.Result.Response)
	s, err := h.Snapshot(ctx)
	require.NoError(t, err)
	require.True(t, s.Aborted)
	require.Equal(t, "only-queued", answered(t, h)[0], "idle, an interrupt only queues")
	require.NoError(t, h.Close(ctx))
	_, err = h.Interrupt(ctx, session.InterruptRequest{})
	require.ErrorIs(t, err, session.ErrClosed)
	requireParity(t, h.ID())
}

func TestR27ClearAbortOnlyTakesBackTheMark(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	gate := "r27-" + uuid.NewString()
	r, err := h.Send(ctx, session.Message{Text: "GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	_, err = h.Interrupt(ctx, session.InterruptRequest{})
	require.NoError(t, err)
	_, err = h.Wait(ctx, r)
	require.NoError(t, err)
	awaitIdle(t, h)
	before, err := h.Snapshot(ctx)
	require.NoError(t, err)
	require.True(t, before.Aborted)
	require.NoError(t, h.ClearAbort(ctx))
	after, err := h.Snapshot(ctx)
	require.NoError(t, err)
	before.Aborted, before.Timestamp = false, after.Timestamp
	require.Equal(t, before, after)
	require.NoError(t, h.Close(testContext(t)))
}

func TestR28Close(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY alive").Err())
	gate := "r28-" + uuid.NewString()
	running, err := h.Send(ctx, session.Message{Text: "GATE " + gate})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, gate))
	waiting, err := h.Send(ctx, session.Message{Text: "SAY never"})
	require.NoError(t, err)
	require.NoError(t, h.Close(ctx))
	res, err := h.Wait(ctx, running)
	require.NoError(t, err)
	require.Equal(t, session.Interrupted, res.Outcome, "the execution is aborted")
	res, err = h.Wait(ctx, waiting)
	require.NoError(t, err)
	require.Equal(t, session.Failed, res.Outcome, "what waited is recorded as failed")
	require.Empty(t, sandboxes(t, w))
	last := events(t, h)
	require.IsType(t, event.SessionClosed{}, last[len(last)-1].Payload, "readers end")
	requireParity(t, h.ID())
	left, err := harness.Agents(w.dataDir)
	require.NoError(t, err)
	require.Empty(t, left, "no process is left")
}

func TestR29Snapshot(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY counted").Err())
	awaitIdle(t, h)
	s, err := h.Snapshot(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "1.0", s.Version)
	require.Equal(t, h.ID(), s.SessionID)
	require.Equal(t, 1, s.Turns)
	require.Equal(t, event.Usage{InputTokens: 100, OutputTokens: 20}, s.Usage)
	require.False(t, s.Timestamp.IsZero())
	require.Positive(t, s.LastSeq)
	require.NoError(t, h.Close(testContext(t)))
}

// TestR29SnapshotWithTimeline: one read has a session's snapshot, its timeline and its open
// requests, also of a closed session.
func TestR29SnapshotWithTimeline(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude", Title: "one read", Permission: adapters.PermissionAsk})
	r, asked := asksFor(t, h, "TOOL bash: touch asked.txt")
	require.Eventually(t, func() bool {
		i := inspection(t, h)
		return i.Status == session.StatusWaiting && i.CurrentTick != nil
	}, patience, tick)
	read := func() (whole session.RuntimeData) {
		sojournJSON(t, &whole, "show", h.ID(), "--whole")
		require.Equal(t, "1.0", whole.Inspection.Version)
		require.Equal(t, h.ID(), whole.Inspection.SessionID)
		require.Equal(t, "one read", whole.Inspection.Title)
		require.False(t, whole.Inspection.Timestamp.IsZero())
		return whole
	}
	waiting := read()
	require.Equal(t, session.StatusWaiting, waiting.Inspection.Status)
	require.Equal(t, 1, *waiting.Inspection.CurrentTick)
	require.Equal(t, []string{asked.RequestID}, waiting.Inspection.Pending)
	require.Len(t, waiting.Asks, 1)
	require.Equal(t, asked, waiting.Asks[0].Payload)
	require.NoError(t, h.Respond(ctx, session.RespondRequest{RequestID: asked.RequestID, Allow: true}))
	answeredWell(ctx, t, h, r)
	awaitIdle(t, h)

	idle := read()
	require.Equal(t, session.StatusIdle, idle.Inspection.Status)
	require.Empty(t, idle.Asks)
	require.Equal(t, 1, idle.Inspection.Turns)
	require.Equal(t, 2, *idle.Inspection.TickCount)
	require.Equal(t, event.Usage{InputTokens: 200, OutputTokens: 40}, idle.Inspection.Usage)
	require.Equal(t, "TOOL bash: touch asked.txt", *idle.Blocks[0].Content)
	require.NoError(t, h.Close(ctx))

	closed := read()
	require.Equal(t, session.StatusClosed, closed.Inspection.Status)
	require.Equal(t, idsOf(idle.Blocks), idsOf(closed.Blocks))
	require.Equal(t, idle.Inspection.Turns, closed.Inspection.Turns)
	require.Equal(t, idle.Inspection.TickCount, closed.Inspection.TickCount)
	require.Equal(t, idle.Inspection.Usage, closed.Inspection.Usage)
	require.Equal(t, 2, program(t, "show", h.ID(), "--whole", "--tree").code)
}
