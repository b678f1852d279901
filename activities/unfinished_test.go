package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters/gemini"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn"
)

// An agent that is started anew is given the prompts of the execution back that it dropped, but
// not those of one that has ended: a person has interrupted it.
func TestNothingIsUnfinishedOfAnEndedExecution(t *testing.T) {
	t.Parallel()
	a := &attempt{
		adapter: gemini.New(), in: contract.RunTurnInput{ExecutionID: "x1", Message: session.Message{ID: "m1", Text: "go"}},
		checkpoint: host.Checkpoint{Open: &host.Execution{ExecutionID: "x1"}},
	}
	require.Len(t, a.unfinished(), 1)
	a.history = &history{History: turn.NewHistory(turn.Scope{})}
	require.Len(t, a.unfinished(), 1)
	a.history.Ended = &event.Event{Payload: event.QueryInterrupted{}}
	require.Empty(t, a.unfinished())
}
