package activities

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/test/teststack"
	"github.com/sojourn-run/sojourn/test/turns"
)

// grower is a session of an agent whose transcript grows turn by turn.
type grower struct {
	turns.File

	n        int
	text     string
	since    json.RawMessage
	archiver *archiver
	sb       *memory
	store    *teststack.Wire
}

// costs are the costs of turns at their end: bytes read of the home, requests to S3 and
// bytes sent there.
type costs struct{ read, requests, sent int64 }

// countedTurns is how many turns are counted together: the archive merges small pieces from
// time to time.
const countedTurns = 16

// cost runs the session up to turn last, and returns the costs of the last turns: the agent
// writes its answer in two pieces, the turn waits for it, and the transcripts are archived.
func (g *grower) cost(t *testing.T, last int) (c costs) {
	t.Helper()
	for g.n < last {
		g.n++
		if g.n == last-countedTurns+1 {
			c.read = -g.sb.read.Load()
			g.store.Asked()
		}
		lines := g.Turn(g.n)
		for _, piece := range []string{lines[:len(lines)/2], lines[len(lines)/2:]} {
			g.text += piece
			g.sb.put(g.Path, g.text)
			found, err := hasWritten(t.Context(), g.archiver.agent, &g.since, g.Answer(g.n))
			require.NoError(t, err)
			require.Equal(t, strings.HasSuffix(lines, piece), found, "turn %d", g.n)
		}
		_, err := g.archiver.sync(t.Context())
		require.NoError(t, err)
	}
	c.read += g.sb.read.Load()
	c.requests, c.sent = g.store.Asked()
	return c
}

// linear checks that the turns up to 400 cost at most 15 % more than those up to 32.
func (g *grower) linear(t *testing.T) {
	t.Helper()
	g.store = &teststack.Wire{}
	var err error
	g.archiver, g.sb, _ = archiving(t)
	g.archiver.store, err = archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-activities-test", Prefix: "linear", Namespace: strings.ToLower(rand.Text()), Client: teststack.Client(serversOf(t), g.store),
	})
	require.NoError(t, err)
	g.archiver.agent.Epoch, err = g.archiver.store.TakeEpoch(t.Context(), "s1")
	require.NoError(t, err)
	g.archiver.agent.Adapter, g.archiver.agent.Launch.NativeID = g.Adapter, g.NativeID
	g.text = g.Head
	atMost15PercentMore(t, g.cost(t, 32), g.cost(t, 400))
}

func atMost15PercentMore(t *testing.T, early, late costs) {
	t.Helper()
	t.Logf("%d turns up to 32: %+v, up to 400: %+v", countedTurns, early, late)
	require.Less(t, 100*late.read, 115*early.read, "bytes read")
	require.Less(t, 100*late.requests, 115*early.requests, "requests")
	require.Less(t, 100*late.sent, 115*early.sent, "bytes sent")
}

func TestTurnsAreLinearForClaude(t *testing.T) {
	t.Parallel()
	(&grower{File: turns.Claude()}).linear(t)
}

func TestTurnsAreLinearForCodex(t *testing.T) {
	skip.InShort(t, "TestTurnsAreLinearForClaude appends lines too")
	t.Parallel()
	(&grower{File: turns.Codex()}).linear(t)
}

func TestTurnsAreLinearForGemini(t *testing.T) {
	skip.InShort(t, "TestTurnsAreLinearForClaude appends lines too")
	t.Parallel()
	(&grower{File: turns.Gemini()}).linear(t)
}

// What is new in a transcript is found, an unfinished line is not, and a search ends with
// its context.
func TestAnAnswerIsFoundWhenItIsWritten(t *testing.T) {
	t.Parallel()
	r, sb, _ := archiving(t)
	said := func(id string) string {
		return fmt.Sprintf(`{"type":"assistant","uuid":"%[1]s","message":{"id":"%[1]s","model":"x","content":[{"type":"text","text":"said"}]}}`+"\n", id)
	}
	var since json.RawMessage
	written := func(id string) bool {
		t.Helper()
		found, err := hasWritten(t.Context(), r.agent, &since, id+":0")
		require.NoError(t, err)
		return found
	}
	require.False(t, written("first"), "there is no transcript yet")
	sb.put(mainPath, said("first")+strings.TrimSuffix(said("last"), "\n"))
	require.True(t, written("first"))
	require.False(t, written("last"), "it has no end yet")
	sb.put(mainPath, said("first")+said("last"))
	require.True(t, written("last"))
	require.False(t, written("last"), "it is before the cursor")

	sb.put(mainPath, said("other")+said("whole"))
	require.True(t, written("other"), "another transcript is read from its start")
	since = json.RawMessage(`{"state":{"v":0}}`)
	require.True(t, written("whole"), "a state of another build is ignored")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := hasWritten(ctx, r.agent, &since, "none")
	require.ErrorIs(t, err, context.Canceled)
}

// How far the transcripts were parsed is in the checkpoint when the turn has ended: another
// worker continues from there.
func TestTheCheckpointHasWhatIsParsed(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	require.Equal(t, session.Completed, b.turn(b.ask(1, "words 5")).Result.Outcome)
	first, err := b.host.Checkpoints.Load(b.sandbox.ID)
	require.NoError(t, err)
	require.NotEmpty(t, first.Parsed)
	b.worker()
	require.Equal(t, session.Completed, b.turn(b.ask(2, "words 5")).Result.Outcome)
	second, err := b.host.Checkpoints.Load(b.sandbox.ID)
	require.NoError(t, err)
	var at, behind struct {
		At struct{ Offset int64 }
	}
	require.NoError(t, json.Unmarshal(first.Parsed, &at))
	require.NoError(t, json.Unmarshal(second.Parsed, &behind))
	require.Positive(t, at.At.Offset)
	require.Greater(t, behind.At.Offset, at.At.Offset)
}
