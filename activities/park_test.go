package activities

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// asking returns the input of a turn that is parked at once.
func asking(t *testing.T) (*bench, contract.RunTurnInput) {
	b := withSandbox(t)
	b.agent.Permission, b.agent.Park = permission.Ask, 1
	return b, b.ask(1, "words 2 ask words 1")
}

// notices returns the server's system blocks of a subtype.
func notices(events []event.Event, subtype string) (out []string) {
	for _, ev := range events {
		if p, ok := ev.Payload.(event.BlockUpsert); ok && p.Block.Subtype == subtype {
			out = append(out, *p.Block.Message)
		}
	}
	return out
}

// TestParkedAgain: a worker that dies when the agent is stopped, before the parking is
// reported to Temporal, leaves the next attempt the same to report. That attempt starts no
// agent.
func TestParkedAgain(t *testing.T) {
	t.Parallel()
	b, in := asking(t)
	in.Message.Text = "words 2 bill ask"
	first := b.turn(in)
	require.NotNil(t, first.Parked)
	require.Len(t, first.Parked.Requests, 1)
	require.Equal(t, "Bash", first.Parked.Requests[0].ToolName)
	require.JSONEq(t, `{"command":"true"}`, string(first.Parked.Requests[0].Input))
	processes := countLines(b.heard(), `"subtype":"initialize"`)

	b.worker()
	second, err := b.attempt(t.Context(), 2, in)
	require.NoError(t, err)
	require.Equal(t, first.Parked.Requests, second.Parked.Requests)
	require.Equal(t, first.Parked.PromptID, second.Parked.PromptID)
	require.Equal(t, first.LastBlockID, second.LastBlockID)
	require.NotZero(t, *first.Ticks)
	require.Equal(t, event.Usage{InputTokens: 7, OutputTokens: 3}, first.Usage)
	require.NotEmpty(t, first.LastBlock)
	require.Equal(t, first.Usage, second.Usage, "what the first part used is counted")
	require.Equal(t, first.Progress, second.Progress)
	require.Equal(t, first.LastBlock, second.LastBlock)
	require.Equal(t, processes, countLines(b.heard(), `"subtype":"initialize"`), "no agent is started")
	require.Len(t, notices(b.events(), "parked"), 1)
	require.Equal(t, []string{first.Parked.Requests[0].ID + " requested"}, requestsIn(t, b.log, b.agent.SessionID), "the request stays open")
	require.Zero(t, count[event.QueryCompleted](b.events())+count[event.QueryFailed](b.events())+count[event.QueryInterrupted](b.events()))
	b.end()
}

// resumedWith runs the turn in the next sandbox, with the decisions, which the workflow has
// streamed. If forgotten, the stream is purged first.
func (b *bench) resumedWith(in contract.RunTurnInput, p permission.Parked, forgotten bool) contract.RunTurnInput {
	b.t.Helper()
	before := in.LastSeq
	b.end()
	b.create()
	for _, d := range p.Decisions {
		var err error
		b.last, err = b.log.Emit(b.t.Context(), b.agent.SessionID, stream.Emission{
			Fence: stream.Fence{Epoch: b.sandbox.Epoch}, LastSeq: b.last, Key: d.ID,
			Events: []event.Event{fromServer(event.PermissionResolved{RequestID: d.ID, Decision: "allow", By: d.By})},
		})
		require.NoError(b.t, err)
	}
	in.Sandbox, in.LastSeq = b.sandbox, b.last
	in.Resumes = &session.Lost{Host: "host-0", Times: 1, Parks: 1, Parked: &p, AfterSeq: before}
	if forgotten {
		in.Resumes.AfterSeq = b.last
	}
	return in
}

// TestParkedAndAnswered: the agent gets the decision, its repeated call is answered by it,
// and the conversation has both; also when the stream was purged.
func TestParkedAndAnswered(t *testing.T) {
	t.Parallel()
	for name, forgotten := range map[string]bool{"soon": false, "when the stream has forgotten it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, in := asking(t)
			out := b.turn(in)
			p := *out.Parked
			_, first := p.Decide(p.Open()[0], permission.Decision{Allow: true, By: "anna"})
			require.True(t, first)
			b.last = out.LastSeq
			in = b.resumedWith(in, p, forgotten)
			in.Agent.Park = permission.ParkNever
			done := b.aside(t.Context(), 1, in)
			b.until(in.LastSeq, func(ev event.Event) bool {
				block, ok := ev.Payload.(event.BlockUpsert)
				return ok && block.Block.Type == event.BlockUserMessage && block.Block.Content != nil && strings.Contains(*block.Block.Content, "allowed: Bash")
			})
			end := <-done
			require.NoError(t, end.err)
			require.Equal(t, session.Completed, end.out.Result.Outcome)
			require.Zero(t, countLines(b.heard(), "words 2 ask"), "the message is not sent again")
			require.Len(t, notices(b.events(), "resumed"), 1)
			require.Contains(t, notices(b.events(), "resumed")[0], `Bash {"command":"true"} is allowed by anna`)
			require.NotContains(t, strings.Join(requestsIn(t, b.log, b.agent.SessionID), ", "), "cancelled")
			b.end()
		})
	}
}
