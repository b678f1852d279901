package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// threeTools is a prompt whose turn has many moments at which it can be interrupted.
const threeTools = "TOOL bash: echo one THEN TOOL bash: echo two THEN TOOL bash: echo three THEN SAY done"

// TestInterruptAtAnyMoment: turns are interrupted behind an event that is chosen at random,
// while tools begin and end and texts come. The archive has the conversation that was seen,
// and the session continues.
func TestInterruptAtAnyMoment(t *testing.T) {
	skip.InShort(t, "TestSteeredAndInterrupted interrupts each agent in a text and in a tool")
	withClaude(t)
	onSharedHost(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("the moments are those of seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		for n := range 4 {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				ctx := testContext(t)
				h := open(t, session.Options{Agent: a.Info().Name})
				for range 4 {
					r, err := h.Send(ctx, session.Message{Text: threeTools})
					require.NoError(t, err)
					left := 2 + random.IntN(30)
					heardUntil(t, h, r.AfterSeq, func(ev event.Event) bool { left--; return left <= 0 || over(ev) })
					_, err = h.Interrupt(ctx, session.InterruptRequest{})
					require.NoError(t, err)
					_, err = h.Wait(ctx, r)
					require.NoError(t, err)
					require.NoError(t, h.ClearAbort(ctx))
				}
				require.Equal(t, "what comes next", say(t, h, "SAY what comes next").Result.Response)
				require.NoError(t, h.Close(ctx))
				requireParity(t, h.ID())
			})
		}
	})
}

// over reports whether an event ends an execution.
func over(ev event.Event) bool {
	switch ev.Payload.(type) {
	case event.QueryCompleted, event.QueryFailed, event.QueryInterrupted:
		return true
	}
	return false
}
