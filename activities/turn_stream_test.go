package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/stream"
)

// What an attempt has stored in the stream is archived, though the stream was deleted before it
// was read: a later block may follow it (found by chaos, when a turn was parked).
func TestWhatIsStoredIsArchivedThoughTheStreamIsDeleted(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	_, err := as[contract.RunTurnOutput](t.Context(), 1, func(ctx context.Context, in contract.RunTurnInput) (contract.RunTurnOutput, error) {
		a, err := b.host.newAttempt(ctx, in)
		require.NoError(t, err)
		require.NoError(t, a.takeStream(ctx))
		defer a.close()
		a.machine.HasServer = true
		say := func(events ...event.Event) {
			require.NoError(t, a.out.Add(ctx, events, stream.Position{}))
			require.NoError(t, a.out.Flush(ctx))
		}
		native := event.Event{Payload: event.BlockUpsert{Block: event.Block{ID: "native", Type: event.BlockAssistantText, Status: event.StatusComplete, Content: new("said")}}}
		native.Context.Source, native.Context.ConversationID = event.SourceRunner, event.Main
		say(native)
		_, err = a.read(ctx, nil)
		require.NoError(t, err)
		say(event.FromServer(event.SystemBlock("lost", "lost", "what no transcript has"), time.Now()))
		handed := event.FromServer(event.SystemBlock("handed", "notice", "from the workflow"), time.Now())
		for range 2 { // once, however often it is tried
			require.NoError(t, a.emit(ctx, "handed", []event.Event{handed}))
		}
		require.NoError(t, b.log.Purge(ctx, b.agent.SessionID))
		say(event.FromServer(event.SystemBlock("notice", "parked", "after it"), time.Now()))
		require.NoError(t, a.collectServer(ctx))
		var kept [][2]string
		for _, e := range a.checkpoint.Server {
			kept = append(kept, [2]string{e.Anchor.AfterBlockID, e.Event.Payload.(event.BlockUpsert).Block.ID})
		}
		require.Equal(t, [][2]string{{"native", "lost"}, {"lost", "handed"}, {"handed", "notice"}}, kept)
		return contract.RunTurnOutput{}, nil
	}, b.ask(1, "words 1"))
	require.NoError(t, err)
	b.end()
}
