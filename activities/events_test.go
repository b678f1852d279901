package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// What is appended while no turn runs follows the last block: the end of a child, which creates
// no block, changes nothing about which that is.
func TestServerEntriesFollowTheLastBlock(t *testing.T) {
	t.Parallel()
	var events []event.Event
	for _, p := range []event.Payload{
		event.SubagentCompleted{ToolUseID: "earlier"}, event.SystemBlock("one", "cancelled", "1"),
		event.SubagentSpawned{ToolUseID: "later"}, event.SystemBlock("two", "cancelled", "2"), event.SubagentCompleted{ToolUseID: "later"},
	} {
		events = append(events, event.FromServer(p, time.Unix(1, 0)))
	}
	entries, last := serverEntries("key", events, "answer")
	var after []string
	for _, e := range entries {
		after = append(after, e.Anchor.AfterBlockID)
	}
	require.Equal(t, []string{"answer", "answer", "one", event.SubagentBlockID("later"), "two"}, after)
	require.Equal(t, "two", last)
}
