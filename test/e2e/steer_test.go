package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// steered is a turn that gets a second message while it runs.
type steered struct {
	*staged
	// can reports whether the agent can be steered.
	can  bool
	next session.Receipt
	word string
}

// text returns the steered message. Its answer begins with a gate, since Codex does not
// wait for its tool and may be done with both messages at once. RECALL shows its end.
func (s *steered) text() string { return "GATE " + s.gates[1] + " THEN SAY " + s.word }

// steerInTool starts a turn and sends a message while its tool runs. On a machine that is
// too busy to answer the offer in time the receipt can't say that it was handed over: then
// it tries with another session.
func steerInTool(t *testing.T, dir string, a adapters.Adapter) (s *steered, letGo func()) {
	t.Helper()
	for try := 1; ; try++ {
		if s, letGo = trySteerInTool(t, dir, a); s.can == (s.next.Handling == session.HandlingHanded) {
			return s, letGo
		}
		_, err := s.h.EditQueue(testContext(t), session.QueueEdit{MessageID: s.next.MessageID, Place: new(0)})
		require.ErrorContains(t, err, "was handed to the running turn", "the receipt says %s, and not for want of an answer", s.next.Handling)
		require.Less(t, try, 3, "the agent is never asked in time")
		letGo()
		s.openGate(1)
		s.openGate(2)
		s.ends()
	}
}

func trySteerInTool(t *testing.T, dir string, a adapters.Adapter) (s *steered, letGo func()) {
	t.Helper()
	s = &steered{
		staged: stageThen(t, dir, a.Info().Name, func(*staged) string { return "" }), can: a.Info().Capabilities.Steer,
		word: "steered-" + uuid.NewString()[:8],
	}
	s.openGate(0)
	letGo = s.inTool()
	var err error
	s.next, err = s.h.Send(testContext(t), session.Message{Text: s.text(), WhenBusy: session.BusySteer})
	require.NoError(t, err)
	return s, letGo
}

// ends waits for the ends of both messages.
func (s *steered) ends() (first, next session.Result) {
	s.t.Helper()
	ctx := testContext(s.t)
	first, err := s.h.Wait(ctx, s.r)
	require.NoError(s.t, err)
	s.openGate(1)
	next, err = s.h.Wait(ctx, s.next)
	require.NoError(s.t, err)
	return first, next
}

// settled checks that each message has one end, that the agent remembers the steered
// one once, and that the live conversation equals the archived one.
func (s *steered) settled() {
	s.t.Helper()
	s.endedOnce()
	requireSame(s.t, s.h.ID())
}

func (s *steered) endedOnce() {
	s.t.Helper()
	again := say(s.t, s.h, "RECALL")
	require.NoError(s.t, again.Err())
	require.Equal(s.t, 1, strings.Count(again.Result.Response, s.word), "the agent was asked once: %s", again.Result.Response)
	require.NoError(s.t, s.h.Close(testContext(s.t)))
	heard := s.l.closed(s.t)
	for _, r := range []session.Receipt{s.r, s.next} {
		ends := 0
		for _, ev := range heard {
			if _, ended := session.ResultOf(ev, r.MessageID); ended {
				ends++
			}
		}
		require.Equal(s.t, 1, ends, "message %s ends once", r.MessageID)
	}
}

// TestR24Steering: an agent that supports it folds a message that arrives during a turn
// into the turn, and both messages have its result. Otherwise the message is queued,
// which the receipt says. In an idle session it starts a new execution.
func TestR24Steering(t *testing.T) {
	inOwnNamespace(t)
	w := startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx := testContext(t)
		s, letGo := steerInTool(t, w.dataDir, a)
		again, err := s.h.Send(ctx, session.Message{ID: s.next.MessageID, Text: s.text(), WhenBusy: session.BusySteer})
		require.NoError(t, err)
		require.Equal(t, s.next, again, "a known id has its first receipt")
		_, err = s.h.EditQueue(ctx, session.QueueEdit{MessageID: s.next.MessageID, Place: new(0)})
		if s.can {
			require.ErrorContains(t, err, "was handed to the running turn")
		} else {
			require.NoError(t, err)
		}
		letGo()
		s.openGate(1)
		s.openGate(2)
		first, next := s.ends()
		require.NoError(t, first.Err())
		require.NoError(t, next.Err())
		byID, err := s.h.Result(ctx, s.next.ExecutionID)
		require.NoError(t, err)
		require.Equal(t, next.ExecutionID, byID.ExecutionID)
		require.Equal(t, s.next.MessageID, byID.MessageID)
		heard := events(t, s.h)
		if s.can {
			require.Equal(t, s.r.ExecutionID, next.ExecutionID)
			require.Equal(t, []string{s.r.MessageID, s.next.MessageID}, first.MessageIDs)
			require.Len(t, payloads[event.QueryStarted](heard), 1)
			folded := payloads[event.MessageFolded](heard)
			require.Len(t, folded, 1)
			require.Equal(t, s.next.MessageID, folded[0].MessageID)
		} else {
			require.Equal(t, s.next.ExecutionID, next.ExecutionID)
			require.Len(t, payloads[event.QueryStarted](heard), 2)
		}
		awaitIdle(t, s.h)
		var late session.Receipt
		out := sojourn(t, "send", s.h.ID(), "SAY at the end", "--when-busy", "steer", "--no-wait", "--json")
		require.NoError(t, json.Unmarshal([]byte(out), &late))
		require.Equal(t, session.HandlingQueued, late.Handling)
		require.Equal(t, late.ExecutionID, answeredWell(ctx, t, s.h, late).ExecutionID)
		s.settled()
	})
}

// TestSteeringIntoTheLastAnswer: a message that arrives during the agent's last text is
// answered too, in another turn.
func TestSteeringIntoTheLastAnswer(t *testing.T) {
	skip.InShort(t, "TestR24Steering steers every agent")
	withClaude(t)
	inOwnNamespace(t)
	startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		ctx := testContext(t)
		h := open(t, session.Options{Agent: a.Info().Name})
		r, gate := sendToGate(ctx, t, h, "")
		var receipts []session.Receipt
		for _, text := range []string{"SAY steered one", "SAY steered two"} {
			next, err := h.Send(ctx, session.Message{Text: text, WhenBusy: session.BusySteer})
			require.NoError(t, err)
			receipts = append(receipts, next)
		}
		spaceOf(t).Model.Open(gate)
		for _, next := range append(receipts, r) {
			require.NoError(t, answeredWell(ctx, t, h, next).Err())
		}
		again := say(t, h, "RECALL")
		require.Contains(t, again.Result.Response, "steered one")
		require.Contains(t, again.Result.Response, "steered two")
		require.NoError(t, h.Close(ctx))
		requireSame(t, h.ID())
	})
}

// TestSteeredAndInterrupted: an interrupt stops the turn, and a message that the agent
// was sent but had not taken up runs next.
func TestSteeredAndInterrupted(t *testing.T) {
	skip.InShort(t, "with every agent")
	withClaude(t)
	inOwnNamespace(t)
	w := startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		s, _ := steerInTool(t, w.dataDir, a)
		_, err := s.h.Interrupt(testContext(t), session.InterruptRequest{Reason: "enough"})
		require.NoError(t, err)
		first, next := s.ends()
		require.Equal(t, session.Interrupted, first.Outcome)
		t.Logf("%s: the steered message %s in %s, the first was %s", a.Info().Name, next.Outcome, next.ExecutionID, first.ExecutionID)
		if next.ExecutionID != first.ExecutionID {
			require.NoError(t, next.Err())
		}
		s.settled()
	})
}

// TestKillSteered: the worker, the agent or the runner is killed right after the agent
// was sent the message, with every agent that can be steered. The message is neither
// lost nor run twice.
func TestKillSteered(t *testing.T) {
	skip.InShort(t, "TestR24Steering steers, and TestKillWorkerInATurn, TestKillAgentInATool and TestKillRunner kill each part")
	withClaude(t)
	inOwnNamespace(t)
	k := startKillable(t)
	for _, part := range []string{"worker", "agent", "runner"} {
		t.Run(part, func(t *testing.T) {
			eachAgent(t, func(t *testing.T, a adapters.Adapter) {
				if !a.Info().Capabilities.Steer {
					return
				}
				var s *steered
				var letGo func()
				k.undisturbed(func() { s, letGo = steerInTool(t, k.dir, a) }) // a killed worker sends nothing to the agent
				switch part {
				case "worker":
					k.kill()
				case "agent":
					s.endAgent(syscall.SIGKILL)
				case "runner":
					s.endRunner()
				}
				letGo()
				s.openGate(1)
				s.openGate(2)
				first, next := s.ends()
				t.Logf("%s: %s %s, %s %s", a.Info().Name, first.ExecutionID, first.Outcome, next.ExecutionID, next.Outcome)
				require.Equal(t, part == "agent", first.Outcome == session.Failed)
				if next.ExecutionID != first.ExecutionID {
					require.NoError(t, next.Err())
				}
				switch {
				case part == "worker":
					require.Equal(t, first.ExecutionID, next.ExecutionID)
				case a.Info().Name == "claude": // takes up nothing before its tool has ended
					require.Equal(t, s.next.ExecutionID, next.ExecutionID)
				}
				s.settled()
			})
		})
	}
}

// TestKillHostOfASteered: the message is lost with its host, and is run on another.
func TestKillHostOfASteered(t *testing.T) {
	skip.InShort(t, "TestKillHost loses hosts too")
	inOwnNamespace(t)
	k := startKillable(t)
	a, err := builtin.Registry().Get("claude")
	require.NoError(t, err)
	s, _ := steerInTool(t, k.dir, a)
	k.lose()
	k.start()
	s.goOn()
	first, next := s.ends()
	require.NoError(t, first.Err())
	require.NoError(t, next.Err())
	require.Equal(t, s.next.ExecutionID, next.ExecutionID)
	s.settled()
}
