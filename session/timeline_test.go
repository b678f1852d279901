package session

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func textBlock(id string, kind event.BlockType, text string) event.Block {
	return event.Block{ID: id, Type: kind, Content: &text}
}

func ids(blocks []event.Block) []string {
	out := []string{}
	for _, b := range blocks {
		out = append(out, b.ID)
	}
	return out
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	talk := []event.Block{
		textBlock("u1", event.BlockUserMessage, "12345678"), textBlock("t1", event.BlockThinking, "1234"), textBlock("a1", event.BlockAssistantText, "1234"),
		textBlock("r1", event.BlockToolResult, "12345"), textBlock("s1", event.BlockSystem, ""), textBlock("u2", event.BlockUserMessage, "1"),
	}
	for name, c := range map[string]struct {
		t    Timeline
		want []string
	}{
		"all":     {Timeline{}, []string{"u1", "t1", "a1", "r1", "s1", "u2"}},
		"newest":  {Timeline{Limit: 2}, []string{"s1", "u2"}},
		"roles":   {Timeline{Roles: []Role{RoleUser, RoleTool}}, []string{"u1", "r1", "u2"}},
		"both":    {Timeline{Roles: []Role{RoleUser}, Limit: 1}, []string{"u2"}},
		"tokens":  {Timeline{MaxTokens: 4}, []string{"a1", "r1", "s1", "u2"}},
		"none":    {Timeline{MaxTokens: 1, Roles: []Role{RoleTool}}, []string{}},
		"filter":  {Timeline{Map: func(b event.Block) (event.Block, bool) { return b, b.ID[1] == '1' }}, []string{"u1", "t1", "a1", "r1", "s1"}},
		"shorten": {Timeline{MaxTokens: 1, Map: func(b event.Block) (event.Block, bool) { b.Content = nil; return b, true }}, []string{"u1", "t1", "a1", "r1", "s1", "u2"}},
	} {
		require.NoError(t, c.t.Validate(), name)
		require.Equal(t, c.want, ids(c.t.Of(talk)), name)
	}
	require.Equal(t, "12345678", *talk[0].Content, "the session's own blocks stay")
	refuses(t, "roles", Timeline{Roles: []Role{"boss"}}.Validate())
	refuses(t, "limit", Timeline{Limit: -1}.Validate())
	refuses(t, "maxTokens", Timeline{MaxTokens: -1}.Validate())
}

// The selection is the newest of the matching blocks, and as many as fit.
func TestTimelineRandomly(t *testing.T) {
	t.Parallel()
	kinds := []event.BlockType{event.BlockUserMessage, event.BlockAssistantText, event.BlockToolResult}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var talk []event.Block
		for i := range r.IntN(12) {
			talk = append(talk, textBlock(fmt.Sprintf("b%d", i), kinds[r.IntN(len(kinds))], strings.Repeat("x", r.IntN(40))))
		}
		line := Timeline{Limit: r.IntN(6), MaxTokens: r.IntN(20), Roles: roles[:r.IntN(len(roles))]}
		wanted := Timeline{Roles: line.Roles}.Of(talk)
		got := line.Of(talk)
		require.Equal(t, ids(wanted[len(wanted)-len(got):]), ids(got), "the newest, seed %d", seed)
		tokens := 0
		for _, b := range got {
			tokens += EstimateTokens(b)
		}
		require.True(t, line.MaxTokens == 0 || tokens <= line.MaxTokens, "seed %d", seed)
		require.True(t, line.Limit == 0 || len(got) <= line.Limit, "seed %d", seed)
		if more := len(wanted) - len(got); more > 0 {
			full := line.Limit > 0 && len(got) == line.Limit
			heavy := line.MaxTokens > 0 && tokens+EstimateTokens(wanted[more-1]) > line.MaxTokens
			require.True(t, full || heavy, "as many as fit, seed %d", seed)
		}
	}
}
