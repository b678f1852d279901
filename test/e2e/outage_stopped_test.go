package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/skip"
)

// midTurn is a session in the middle of a turn: the model waits at the first gate, and
// there are tools between that and the second.
type midTurn struct {
	t            *testing.T
	h            *session.Handle
	receipt      session.Receipt
	text         string
	gateA, gateB string
}

// begin opens a session, runs a first turn, and brings the second one to its first
// gate.
func (w *world) begin(t *testing.T, agent string) *midTurn {
	t.Helper()
	ctx := testContext(t)
	h, err := w.client.Create(ctx, "", session.Options{Agent: agent})
	require.NoError(t, err)
	require.NoError(t, say(t, h, "SAY remember the word clementine").Err())
	m := &midTurn{t: t, h: h, gateA: "away-a-" + uuid.NewString(), gateB: "away-b-" + uuid.NewString()}
	m.text = "GATE " + m.gateA + " THEN TOOL bash: echo meanwhile THEN GATE " + m.gateB + " THEN TOOL bash: echo later THEN SAY whole"
	m.receipt, err = h.Send(ctx, session.Message{Text: m.text})
	require.NoError(t, err)
	require.NoError(t, spaceOf(t).Model.Waiting(ctx, m.gateA))
	heardUntil(t, h, m.receipt.AfterSeq, nth[event.BlockDelta](1))
	return m
}

// asked returns the number of requests for the turn, by step.
func (m *midTurn) asked() map[int]int {
	for _, s := range spaceOf(m.t).Model.Stats().Sessions {
		for _, p := range s.Prompts {
			if p.Text == cutRunes(m.text, 200) {
				return p.Steps
			}
		}
	}
	return nil
}

func cutRunes(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

// requireUndisturbed checks that a turn is as without an outage: answered, one model
// request per step, each event once and in order, and the archive equal to the stream.
func (w *world) requireUndisturbed(t *testing.T, m *midTurn) {
	t.Helper()
	res, err := m.h.Wait(testContext(t), m.receipt)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	require.Contains(t, res.Result.Response, "whole")
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1}, m.asked(), "what the model was asked of each step")
	require.Contains(t, say(t, m.h, "RECALL").Result.Response, "clementine", "and it continues")
	require.NoError(t, m.h.Close(testContext(t)))
	w.requireWhole(t, m.h, 3)
	for _, b := range fold(events(t, m.h)).Blocks {
		require.NotContains(t, b.Metadata, "lost")
	}
}

// requireWhole checks that every event is there once and in order, and that the
// restored conversation equals the live one.
func (w *world) requireWhole(t *testing.T, h *session.Handle, turns int) {
	t.Helper()
	deltas := map[string]string{}
	var started, ended int
	all := events(t, h)
	for i, ev := range all {
		require.Equal(t, uint64(i+1), ev.Context.Seq, "dense")
		switch p := ev.Payload.(type) {
		case event.BlockDelta:
			deltas[p.BlockID] += p.Delta
		case event.QueryStarted:
			started++
		case event.QueryCompleted:
			ended++
		}
	}
	require.Equal(t, turns, started)
	require.Equal(t, turns, ended)
	for _, b := range fold(all).Blocks {
		if d, streamed := deltas[b.ID]; streamed && b.Type == event.BlockAssistantText {
			require.Equal(t, *b.Content, d, "no delta lost or repeated")
		}
	}
	live, err := w.client.Show(testContext(t), h.ID(), session.FromStream)
	require.NoError(t, err)
	restored, err := w.client.Show(testContext(t), h.ID(), session.FromArchive)
	require.NoError(t, err)
	require.Empty(t, restored.Faults)
	require.NotEmpty(t, live.State.Blocks)
	differences, err := parity.Compare(live.State, restored.State, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, differences)
}

// outage returns how long services are unreachable. With Temporal unreachable the agent
// lives on its lease of 40 s, which the start of the server must not use up.
func outage(away []service) time.Duration {
	switch {
	case testing.Short():
		return 3 * time.Second
	case slices.ContainsFunc(away, func(s service) bool { return s.name == theTemporal.name }):
		return 20 * time.Second
	}
	return 30 * time.Second
}

// TestOutage kills servers, which the test has started for itself, during turns and
// starts them again. The turns end as without an outage.
func TestOutage(t *testing.T) {
	skip.InShort(t, "servers are away for half a minute")
	withClaude(t)
	inParallel(t)
	for name, away := range map[string][]service{
		"NATS": {theNATS}, "S3": {theS3}, "Temporal": {theTemporal}, "all": {theTemporal, theNATS, theS3},
	} {
		t.Run(name, func(t *testing.T) {
			inParallel(t)
			w := newWorld(t, away...)
			turns := []*midTurn{w.begin(t, "claude"), w.begin(t, "codex")}
			began := time.Now()
			for _, s := range away {
				(*s.of(w)).stop()
			}
			for _, m := range turns {
				spaceOf(t).Model.Open(m.gateA)
				require.NoError(t, spaceOf(t).Model.Waiting(testContext(t), m.gateB), "the agent continues")
			}
			pass(t, began, outage(away))
			for _, s := range away {
				(*s.of(w)).start()
			}
			for _, m := range turns {
				spaceOf(t).Model.Open(m.gateB)
				w.requireUndisturbed(t, m)
			}
		})
	}
}

// TestOutagePastTheLease: with Temporal unreachable for longer than a lease, no process
// of the turn's agent may survive. When Temporal is back the turn is resumed from the
// agent's transcript.
func TestOutagePastTheLease(t *testing.T) {
	skip.InShort(t, "servers are away for longer than a lease")
	inParallel(t)
	w := newWorld(t, theTemporal)
	m := w.begin(t, "claude")
	spaceOf(t).Model.Open(m.gateA)
	require.NoError(t, spaceOf(t).Model.Waiting(testContext(t), m.gateB))
	w.temporal.stop()
	require.Eventually(t, func() bool {
		alive, err := harness.Agents(w.worker.dataDir)
		return err == nil && len(alive) == 0
	}, patience, tick, "the lease ends runner and agent")
	w.temporal.start()
	spaceOf(t).Model.Open(m.gateB)
	res, err := m.h.Wait(testContext(t), m.receipt)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	require.Contains(t, res.Result.Response, "whole")
	require.Equal(t, map[int]int{0: 1, 1: 2, 2: 1}, m.asked(), "only what was cut off is asked again")
	told := ""
	for _, b := range fold(events(t, m.h)).Blocks {
		if b.Subtype == "resumed" {
			told += *b.Message
		}
	}
	require.Contains(t, told, "was told to go on")
	require.Contains(t, say(t, m.h, "RECALL").Result.Response, "clementine")
	require.NoError(t, m.h.Close(testContext(t)))
	w.requireWhole(t, m.h, 3)
}

// TestOutageStreamDeleted: the stream is deleted during turns. The worker creates it
// again and the turns are answered, without an operator. New events have the next
// numbers; reading deleted ones is an error.
func TestOutageStreamDeleted(t *testing.T) {
	skip.InShort(t, "it deletes the stream of all")
	inParallel(t)
	w := newWorld(t, theNATS)
	m := w.begin(t, "claude")
	before, err := m.h.Inspect(testContext(t))
	require.NoError(t, err)
	tail, err := w.log(t).Tail(testContext(t), m.h.ID())
	require.NoError(t, err)
	l := follow(t, m.h)
	l.until(t, 0, func(ev event.Event) bool { return ev.Context.Seq == tail.LastSeq })
	w.deleteStream(t) // by then the turn may have appended that a transcript has grown
	spaceOf(t).Model.Open(m.gateA)
	require.NoError(t, spaceOf(t).Model.Waiting(testContext(t), m.gateB))
	spaceOf(t).Model.Open(m.gateB)
	<-l.done
	gap, told := errors.AsType[*stream.GapError](l.err)
	require.True(t, told, "subscribers get an error: %v", l.err)
	require.ErrorIs(t, gap, stream.ErrPurged)
	require.Equal(t, last(l.all()).Context.Seq+1, gap.Want)
	require.Greater(t, gap.Want, tail.LastSeq)
	l = followAfter(t, m.h, gap.Have-1)
	l.until(t, 0, nth[event.QueryCompleted](1))
	for i, ev := range l.all() {
		require.Equal(t, gap.Have+uint64(i), ev.Context.Seq, "from there on it is dense")
	}
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1}, m.asked(), "what the model was asked of each step")
	require.True(t, slices.ContainsFunc(payloads[event.Log](l.all()), func(e event.Log) bool {
		return strings.Contains(e.Message, "the stream was deleted or emptied in the middle of the turn")
	}), "the session's events say what happened")
	require.Eventually(t, func() bool {
		return strings.Contains(w.worker.Said(), "the stream was deleted: it is made anew")
	}, patience, tick, "an event may be published, and arrive, before the line that the worker prints")
	res, err := m.h.Wait(testContext(t), m.receipt)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	for _, err := range m.h.Events(testContext(t), before.LastSeq, false) {
		require.ErrorIs(t, err, stream.ErrPurged)
		break
	}
	require.Contains(t, say(t, m.h, "RECALL").Result.Response, "clementine", "and it continues")
	require.NoError(t, m.h.Close(testContext(t)))
	conv, err := w.client.Show(testContext(t), m.h.ID(), session.FromAuto)
	require.NoError(t, err)
	require.Equal(t, session.FromArchive, conv.From)
	require.Empty(t, conv.Faults)
}

// log returns a client of the world's stream.
func (w *world) log(t *testing.T) *stream.Log {
	t.Helper()
	log, err := stream.Dial(testContext(t), w.env["NATS_URL"], stream.Options{Access: accessOf(w.env)})
	require.NoError(t, err)
	t.Cleanup(log.Close)
	return log
}

func (w *world) deleteStream(t *testing.T) {
	t.Helper()
	nc, err := stream.Connect(w.env["NATS_URL"], accessOf(w.env))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(testContext(t), "SOJOURN"))
}
