package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/agenttools"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/tools"
)

type findOrder struct {
	Number string `json:"number" jsonschema:"The order's number."`
}

type order struct {
	Number string `json:"number"`
	State  string `json:"state"`
}

// shop is a program with tools.
type shop struct {
	mu    sync.Mutex
	calls []tools.Call
	// gate, if set, holds each call.
	gate chan struct{}
}

func (s *shop) find(ctx context.Context, call tools.Call, in findOrder) (order, error) {
	s.mu.Lock()
	s.calls = append(s.calls, call)
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return order{}, ctx.Err()
		}
	}
	if in.Number == "0" {
		return order{}, errors.New("there is no order 0")
	}
	return order{in.Number, "shipped"}, nil
}

func (s *shop) made() []tools.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]tools.Call(nil), s.calls...)
}

// open starts the program, and returns its tools: one to find orders, and one to greet.
func (s *shop) open(t *testing.T, queue string, around ...tools.Middleware) []tools.Tool {
	t.Helper()
	find, err := tools.New("find_order", "Finds an order by its number.", s.find)
	require.NoError(t, err)
	greet, err := tools.New("greet", "Greets.", func(_ context.Context, call tools.Call, _ struct{}) (string, error) {
		return "hello " + call.SessionID, nil
	})
	require.NoError(t, err)
	// A client like any other: it knows nothing of the archive.
	c, err := client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS"), Namespace: spaceOf(t).Namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w := sdkworker.New(c, queue, sdkworker.Options{})
	tools.Register(w, around, find, greet)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return []tools.Tool{find, greet}
}

// The agent of a session calls tools whose handlers are in a program: shared by all sessions of a
// client, and a session's own.
func TestR132HostDefinedTools(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	ctx := testContext(t)
	var s shop
	queue := "shop-" + uuid.NewString()
	all := s.open(t, queue)
	sp := spaceOf(t)
	sharing, err := session.NewClient(session.ClientOptions{
		Temporal: sp.Temporal, Namespace: sp.Namespace, Stream: sp.Log, Archive: sp.Archive, Agents: builtin.Registry(),
		Tools: tools.Offer(queue, all[1]),
	})
	require.NoError(t, err)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		name := a.Info().Name
		h, err := sharing.Create(ctx, "", session.Options{Agent: name, Tools: tools.Offer(queue, all[0])})
		require.NoError(t, err)
		require.JSONEq(t, `{"number":"17","state":"shipped"}`, useTool(t, h, name, "find_order", findOrder{"17"}))
		require.Equal(t, "hello "+h.ID(), useTool(t, h, name, "greet", struct{}{}))
		require.Contains(t, useTool(t, h, name, "find_order", findOrder{"0"}), "there is no order 0")
		useTool(t, h, name, "find_order", map[string]any{"number": "1", "colour": "red"}) // refused: it does not match the schema

		var mine []tools.Call
		for _, call := range s.made() {
			if call.SessionID == h.ID() {
				mine = append(mine, call)
			}
		}
		require.Len(t, mine, 2, "what is refused is not called")
		require.NotEqual(t, mine[0].CallID, mine[1].CallID)
		require.NoError(t, h.Close(ctx))
		requireParity(t, h.ID())

		other := open(t, session.Options{Agent: name})
		say(t, other, "CALL "+spawning(name, "greet")+" {}")
		conv, err := spaceOf(t).Client.Show(ctx, other.ID(), session.FromStream)
		require.NoError(t, err)
		require.False(t, toolSaid(conv.State.Blocks, "hello "+other.ID()), "a session of another client has no such tool")
	})
	for _, bad := range []session.Tool{
		{Name: "a b", Description: "d", TaskQueue: queue},
		{Name: agenttools.SpawnAgent, Description: "d", TaskQueue: queue},
		{Name: "x", TaskQueue: queue},
		{Name: "x", Description: "d"},
		{Name: "x", Description: "d", TaskQueue: session.TaskQueue},
		{Name: "x", Description: "d", TaskQueue: queue, Input: json.RawMessage(`{"type":"array"}`)},
		{Name: "x", Description: "d", TaskQueue: queue, TimeoutMS: -1},
	} {
		_, err := sharing.Create(ctx, "", session.Options{Agent: "codex", Tools: []session.Tool{bad}})
		require.ErrorAs(t, err, new(*session.InvalidError), "%+v", bad)
	}
}

// A call is made once, although the worker is killed while it runs, and its result is asked for when
// it takes longer than the agent may wait.
func TestToolCallOutlivesTheWorker(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	ctx := testContext(t)
	s := shop{gate: make(chan struct{})}
	queue := "shop-" + uuid.NewString()
	all := s.open(t, queue)
	name := anyAgent(t)
	h := open(t, session.Options{Agent: name, Tools: tools.Offer(queue, all...)})
	sent, err := h.Send(ctx, session.Message{Text: "CALL " + spawning(name, "find_order") + ` {"number":"18"}`})
	require.NoError(t, err)
	eventually(t, func(c *assert.CollectT) bool { return assert.Len(c, s.made(), 1) }, time.Minute, tick)
	require.NoError(t, w.Kill())
	startWorkerIn(t, w.dataDir)
	close(s.gate)
	res, err := h.Wait(ctx, sent)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	out := lastOutput(t, h)
	var pending agenttools.Pending
	if json.Unmarshal([]byte(out), &pending) == nil && pending.CallID != "" {
		// On a busy machine the new worker came later than the tool waits.
		out = useTool(t, h, name, agenttools.WaitTool, agenttools.WaitProgram{CallID: pending.CallID})
	}
	require.JSONEq(t, `{"number":"18","state":"shipped"}`, out)
	require.Len(t, s.made(), 1)
}
