package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// TestResumeWithoutTheStream: a message that is in the agent's transcript is found
// there by its id, in the form that the agent gave it, when the stream has nothing
// of the execution any more. Asked again under that id an agent may take it for
// one that it has answered, and do nothing at all.
func TestResumeWithoutTheStream(t *testing.T) {
	t.Parallel()
	b := furnished(t)
	in := b.ask(1, "words 3")
	b.turn(in)
	b.create() // on the next host: Temporal never heard of the turn's end
	in.Sandbox, in.LastSeq = b.sandbox, b.last
	in.Resumes = &Lost{Host: "host-0", Times: 1, AfterSeq: b.last}
	out := b.turn(in)
	require.Equal(t, session.Completed, out.Result.Outcome)
	require.Zero(t, countLines(b.heard(), "words 3"), "it is not asked again")
	require.Equal(t, 1, countLines(b.heard(), "Continue from where you left off"))
}

// TestPromptIDs are the ids of Sojourn's own block of a message, and of the agent's.
func TestPromptIDs(t *testing.T) {
	t.Parallel()
	var named adapters.Adapter = claude.New()
	require.Contains(t, promptIDs(named, "m1"), "m1")
	require.Contains(t, promptIDs(named, "m1"), claude.MessageUUID("m1"))
	block := event.Block{ID: claude.MessageUUID("m1"), Type: event.BlockUserMessage, Status: event.StatusComplete}
	disk := foldAll(event.Event{Payload: event.BlockUpsert{Block: block}})
	require.True(t, written(promptIDs(named, "m1"), disk))
	require.False(t, written(promptIDs(named, "m2"), disk))
}
