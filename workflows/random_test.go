package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
)

// wellFormed has a message of each kind; what any program may send begins as one of these.
var wellFormed = struct{ signals, updates map[string]string }{
	signals: map[string]string{
		session.SignalMessage:   `{"id": "m1", "text": "hello", "whenBusy": "queue", "parts": [{"type": "text", "text": "more"}]}`,
		session.SignalQueue:     `{"id": "m2", "text": "hello"}`,
		session.SignalInterrupt: `{"reason": "enough", "message": {"text": "instead"}, "clearQueue": true}`,
		session.SignalRespond:   `{"requestId": "r1", "allow": true, "message": "well", "input": {"command": "true"}, "by": "anna"}`,
	},
	updates: map[string]string{
		session.UpdateSend:       `{"id": "m3", "text": "hello", "whenBusy": "steer"}`,
		session.UpdateRender:     `{"options": {"model": "large", "systemPrompt": "be brief"}}`,
		session.UpdateInterrupt:  `{"reason": "enough", "executionId": "x1", "clearQueue": true}`,
		session.UpdateClearAbort: `{}`,
		session.UpdateSpawn:      `{"id": "child", "toolUseId": "t1", "options": {"agent": "codex", "permission": "ask"}, "message": {"text": "hello"}}`,
		session.UpdateRespond:    `{"requestId": "r1", "allow": false, "message": "no"}`,
		session.UpdateEditQueue:  `{"messageId": "m1", "cancel": true, "text": "other", "before": "m2"}`,
		session.UpdateConfigure:  `{"title": "t", "tags": ["a"], "metadata": {"k": "v"}, "limits": {"tokens": 1000, "costUSD": 1.5}, "permission": "deny"}`,
		session.UpdateEvict:      `{"reason": "drain", "sandboxId": "b1"}`,
	},
}

// garbled changes some JSON: one value in so many becomes another, some go, and at times it is
// no JSON.
func garbled(rnd *rand.Rand, oneIn int, text string) string {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	data, err := json.Marshal(garble(rnd, oneIn, v))
	if err != nil {
		panic(err)
	}
	switch rnd.IntN(3 * oneIn) {
	case 0:
		return string(data[:rnd.IntN(len(data)+1)])
	case 1:
		return string(data) + string(data)
	case 2:
		at := rnd.IntN(len(data))
		return string(data[:at]) + string(rune(rnd.IntN(0x300))) + string(data[at:])
	}
	return string(data)
}

func garble(rnd *rand.Rand, oneIn int, v any) any {
	if rnd.IntN(oneIn) == 0 {
		return anything(rnd, 0)
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if rnd.IntN(2*oneIn) > 0 {
				out[key] = garble(rnd, oneIn, v[key])
			}
		}
		if rnd.IntN(2*oneIn) == 0 {
			out[fmt.Sprintf("field%d", rnd.IntN(9))] = anything(rnd, 1)
		}
		return out
	case []any:
		for i := range v {
			v[i] = garble(rnd, oneIn, v[i])
		}
	}
	return v
}

func anything(rnd *rand.Rand, depth int) any {
	switch rnd.IntN(9 - min(depth, 2)) {
	case 0:
		return nil
	case 1:
		return rnd.IntN(2) == 0
	case 2:
		return rnd.Int64() - rnd.Int64()
	case 3:
		return rnd.NormFloat64() * 1e18
	case 4:
		return ""
	case 5:
		return strings.Repeat(string(rune(1+rnd.IntN(0x10000))), rnd.IntN(200))
	case 6:
		return fmt.Sprintf("m%d", rnd.IntN(5))
	case 7:
		return []any{anything(rnd, depth+1), anything(rnd, depth+1)}
	}
	return map[string]any{"text": anything(rnd, depth+1), "id": anything(rnd, depth+1)}
}

// TestRandomMessages sends a session a thousand messages that begin well and are garbled: it
// answers or refuses each, answers a plain one afterwards, and completes.
func TestRandomMessages(t *testing.T) {
	t.Parallel()
	const plays, messages = 25, 40
	for seed := range uint64(plays) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 2))
			p := newPlay(t)
			answers := map[string]*answer{}
			for i := range messages {
				encoding := []string{"json/plain", "json/plain", "json/plain", "binary/plain", "binary/null", ""}[rnd.IntN(6)]
				if rnd.IntN(2) == 0 {
					name := slices.Sorted(maps.Keys(wellFormed.signals))[rnd.IntN(len(wellFormed.signals))]
					data := garbled(rnd, 6, wellFormed.signals[name])
					p.then(func() { p.signal(name, encoding, data) })
					continue
				}
				name := slices.Sorted(maps.Keys(wellFormed.updates))[rnd.IntN(len(wellFormed.updates))]
				data := garbled(rnd, 6, wellFormed.updates[name])
				p.then(func() { answers[fmt.Sprintf("%d: %s %s", i, name, data)] = p.update(name, payload(encoding, data)) })
			}
			p.then(func() { p.update(session.UpdateClearAbort) }, func() {
				// One of them may have set a limit, which pauses the session.
				none, zero := 0.0, int64(0)
				p.update(session.UpdateConfigure, session.Configure{Limits: &limits.Change{CostUSD: &none, Tokens: &zero}})
			})
			p.after(time.Hour, func() { p.send("plain", "still here") })
			p.run()
			require.Equal(t, session.Completed, p.w.results("s1")["plain"].Outcome, "%+v", p.w.results("s1")["plain"].Error)
			for what, a := range answers {
				require.True(t, a.refused != nil || a.done, what)
			}
		})
	}
}

// TestRandomStarts starts hundreds of sessions with garbled inputs: each runs until it is
// closed, or its workflow ends with an error. None panics, except for a state of a newer build.
func TestRandomStarts(t *testing.T) {
	t.Parallel()
	const input = `{"sessionId": "s1", "version": 1, "options": {"agent": "claude", "model": "large", "permission": "ask", "title": "t", "tags": ["a"],
		"limits": {"turns": 3, "costUSD": 1.5}, "idleTimeoutMs": 1000, "sandbox": "own", "park": 1000}, "createdAt": "2026-01-02T03:04:05Z",
		"parent": {"sessionId": "p", "root": "p", "depth": 1, "toolUseId": "t1"}, "ephemeral": false, "first": {"id": "m1", "text": "hello"}}`
	const plays, starts = 10, 25
	for seed := range uint64(plays) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 3))
			for range starts {
				data := garbled(rnd, 40, input)
				p := newPlay(t)
				p.after(48*time.Hour, func() { p.env.CancelWorkflow() })
				p.env.ExecuteWorkflow(session.WorkflowType, payload("json/plain", data))
				require.True(t, p.env.IsWorkflowCompleted(), data)
				var panicked *temporal.PanicError
				if errors.As(p.env.GetWorkflowError(), &panicked) {
					// The one panic is deliberate: the task waits for a newer build.
					require.Contains(t, panicked.Error(), "run a worker of a newer build", data)
				}
			}
		})
	}
}
