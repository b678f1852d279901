package claude

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

func TestPlaceFollowsTheWorkspace(t *testing.T) {
	t.Parallel()
	l := adapters.Launch{Workspace: "/new/place"}
	a := New()
	for from, want := range map[string]string{
		".claude/projects/-old-place/s1.jsonl":                    ".claude/projects/-new-place/s1.jsonl",
		".claude/projects/-old-place/s1/subagents/agent-a1.jsonl": ".claude/projects/-new-place/s1/subagents/agent-a1.jsonl",
		"elsewhere/s1.jsonl":                                      "elsewhere/s1.jsonl",
	} {
		require.Equal(t, want, a.Place(adapters.Transcript{Path: from}, l))
	}
}
