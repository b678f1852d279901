package details

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

func TestMarkdown(t *testing.T) {
	t.Parallel()
	cost := 0.25
	i := session.Inspection{
		Snapshot: session.Snapshot{
			Title: "Fix the build", Agent: "claude", Status: session.StatusWaiting, Turns: 2, CostUSD: &cost,
			Usage: event.Usage{InputTokens: 3, OutputTokens: 4}, Queued: make([]session.Message, 1),
			Sandbox: &session.Sandbox{ID: "s1-e2", Host: "h1"}, Children: []session.Child{{SessionID: "c1", Agent: "codex"}},
		},
		WaitsFor: "a slot", Pending: []string{"p1", "p2"}, CurrentExecution: "x3", LastBlock: "said `one`\ntwo",
		LastOutcome: session.Failed, Failure: &event.ErrorInfo{Message: "no"}, ArchiveBehind: "S3 is away",
	}
	require.Equal(t, []string{
		"### Fix the build", "",
		"- **Agent:** claude",
		"- **Status:** waiting, 1 message(s) waiting",
		"- **Waits for:** a person's answer to the permission request p1, p2",
		"- **Waits for:** a slot (Pending Activities says since when, and why it is tried again)",
		"- **Turns:** 2",
		"- **Cost:** $0.2500 (3 tokens in, 4 out)",
		"- **Now:** “three”",
		"- **Sandbox:** s1-e2 on host h1",
		"- **Last block:** `said 'one' two` (before this turn; its own is in RunTurn's heartbeat, under Pending Activities)",
		"- **Last turn:** failed",
		"- **Last failure:** no",
		"- **Archive:** S3 is away",
		"- **Child:** c1 (codex)",
	}, strings.Split(strings.TrimSpace(Markdown(i, "three")), "\n"))
	require.Equal(t, []string{
		"### —", "",
		"- **Agent:** claude",
		"- **Status:** idle",
		"- **Turns:** 0",
		"- **Cost:** cost unknown (0 tokens in, 0 out)",
	}, strings.Split(strings.TrimSpace(Markdown(session.Inspection{Snapshot: session.Snapshot{Agent: "claude", Status: session.StatusIdle}}, "")), "\n"))
}

// A turn's summary fits into the 400 bytes that Temporal keeps, whatever the title.
func TestTurn(t *testing.T) {
	t.Parallel()
	i := session.Inspection{Snapshot: session.Snapshot{Title: "Fix", Agent: "claude", Turns: 1}}
	require.Equal(t, "Fix · claude · turn 2 · cost unknown before it", Turn(i))
	i.Title = strings.Repeat("漢", 1000)
	require.Less(t, len(Turn(i)), 400)
}
