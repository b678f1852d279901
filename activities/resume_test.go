package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// TestResumeWithoutTheStream: a message in the agent's transcript is found there by its id,
// in the agent's form, when the stream has nothing of the execution any more. An agent that
// gets a message again under the same id may take it as answered, and do nothing at all.
func TestResumeWithoutTheStream(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	in := b.ask(1, "words 3")
	b.turn(in)
	b.create() // on the next host: the turn's end was not reported to Temporal
	in.Sandbox, in.LastSeq = b.sandbox, b.last
	in.Resumes = &session.Lost{Host: "host-0", Times: 1, AfterSeq: b.last}
	out := b.turn(in)
	require.Equal(t, session.Completed, out.Result.Outcome)
	require.Zero(t, countLines(b.heard(), "words 3"), "it is not sent again")
	require.Equal(t, 1, countLines(b.heard(), "Continue from where you left off"))
}

// TestEndInTheLastHeartbeat: a turn that ended on a lost host is not run again, though
// neither the stream nor the archive has its end.
func TestEndInTheLastHeartbeat(t *testing.T) {
	t.Parallel()
	b, says := leased(t, time.Minute)
	in := b.ask(1, "words 3")
	done := b.turn(in)
	ended := says.ended.Load()
	require.NotNil(t, ended, "the end is reported to Temporal before the activity completes")
	require.Equal(t, done.Result, *ended)
	b.create() // on the next host
	in.Sandbox, in.LastSeq = b.sandbox, b.last
	in.Resumes = &session.Lost{Host: "host-0", Times: 1, AfterSeq: b.last, Ended: ended}
	require.Equal(t, done.Result, b.turn(in).Result)
	require.Zero(t, countLines(b.heard(), `"type":"user"`), "no agent is prompted")
	require.Equal(t, 1, count[event.QueryCompleted](b.events()), "one end")
}

// TestPromptIDs: the ids of Sojourn's own block of a message, and of the agent's.
func TestPromptIDs(t *testing.T) {
	t.Parallel()
	var named adapters.Adapter = claude.New()
	require.Contains(t, promptIDs(named, "m1"), "m1")
	require.Contains(t, promptIDs(named, "m1"), claude.MessageUUID("m1"))
}
