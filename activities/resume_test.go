package activities

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
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

// TestRestoreSweepsTheArchive: an object that a killed writer has left is gone once the session
// has been restored, and all that was archived stays.
func TestRestoreSweepsTheArchive(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.turn(b.ask(1, "words 3"))
	keys := func() []string {
		found, err := b.store.Leftovers(t.Context(), b.agent.SessionID)
		require.NoError(t, err)
		return found
	}
	whole := keys()
	at := slices.IndexFunc(whole, func(key string) bool { return strings.Contains(key, "/2-0-") })
	require.GreaterOrEqual(t, at, 0, "a segment of the first sandbox, among %q", whole)
	left := strings.Replace(whole[at], "/2-0-", "/2-1-", 1)
	_, err := storeOf(serversOf(t)).PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(bucket), Key: &left, Body: strings.NewReader("x"),
	})
	require.NoError(t, err)
	require.Contains(t, keys(), left)
	b.create()
	require.Eventually(t, func() bool { return !slices.Contains(keys(), left) }, time.Minute, 20*time.Millisecond)
	require.Equal(t, whole, keys())
	require.Equal(t, session.Completed, b.turn(b.ask(2, "words 3")).Result.Outcome)
}

// TestPromptIDs: the ids of Sojourn's own block of a message, and of the agent's.
func TestPromptIDs(t *testing.T) {
	t.Parallel()
	var named adapters.Adapter = claude.New()
	require.Contains(t, promptIDs(named, "m1"), "m1")
	require.Contains(t, promptIDs(named, "m1"), claude.MessageUUID("m1"))
}
