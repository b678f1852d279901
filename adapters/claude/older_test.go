package claude

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/recordings"
	"github.com/sojourn-run/sojourn/test/replay"
)

// older are the recordings of older versions, each with one subagent.
var older = []string{"v2.0.0-longlived", "v2.0.0-subagent", "v2.0.77-longlived", "v2.0.77-subagent", "v2.1.20-longlived"}

// homeOf returns the home that a recording kept.
func homeOf(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(recordings.Dir(t, Name), name, "transcripts")
}

// copied returns a copy of the home for one test.
func copied(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	require.NoError(t, os.CopyFS(dir, os.DirFS(homeOf(t, name))))
	return dir
}

func restoredFrom(t testing.TB, home string) reducer.State {
	t.Helper()
	sources, err := adapters.SourcesFrom(New(), home)
	require.NoError(t, err)
	return recorded.Parsed(t, sources...)
}

// A subagent of an older version is a conversation of the call that started it,
// with all its blocks, and nothing of it is in the main conversation. The
// subagents that the program starts to warm up are left out.
func TestOlderSubagents(t *testing.T) {
	t.Parallel()
	for _, name := range older {
		s := restoredFrom(t, homeOf(t, name))
		require.Len(t, s.Subagents, 1, name)
		sub := s.Subagents[0]
		require.True(t, strings.HasPrefix(sub.ToolUseID, "toolu_"), name)
		var kinds []event.BlockType
		for _, b := range sub.Blocks {
			kinds = append(kinds, b.Type)
			require.Equal(t, event.StatusComplete, b.Status, name)
		}
		require.Equal(t, event.BlockUserMessage, kinds[0], name)
		require.Equal(t, event.BlockAssistantText, kinds[len(kinds)-1], name)
		require.Equal(t, "sub is done", *sub.Blocks[len(sub.Blocks)-1].Content, name)
		require.Contains(t, kinds, event.BlockToolResult, name)
		for _, b := range s.Blocks {
			require.NotContains(t, replay.JSON(t, b), `"echo in-sub"`, name)
		}
	}
}

// A subagent that was killed with its program has no result that names it; it is
// recognised by its prompt.
func TestOlderSubagentWithoutResult(t *testing.T) {
	t.Parallel()
	for _, name := range older {
		home := copied(t, name)
		whole := restoredFrom(t, home)
		mains, err := filepath.Glob(filepath.Join(home, configDir, "projects", "*", "*-*-*-*-*"+agentSuffix))
		require.NoError(t, err)
		require.Len(t, mains, 1)
		lines := strings.SplitAfter(replay.ReadFile(t, mains[0]), "\n")
		end := slices.IndexFunc(lines, func(l string) bool {
			return strings.Contains(l, `"tool_result"`) && strings.Contains(l, whole.Subagents[0].ToolUseID)
		})
		require.Positive(t, end)
		require.NoError(t, os.Chmod(mains[0], 0o600))
		require.NoError(t, os.WriteFile(mains[0], []byte(strings.Join(lines[:end], "")), 0o600))
		s := restoredFrom(t, home)
		require.Len(t, s.Subagents, 1, name)
		require.Equal(t, whole.Subagents[0].ToolUseID, s.Subagents[0].ToolUseID, name)
		require.Len(t, s.Subagents[0].Blocks, len(whole.Subagents[0].Blocks), name)
	}
}

// The folder of two sessions of version 2.0.77 has the subagents of both; each
// session gets its own.
func TestOlderSubagentsOfTwoSessions(t *testing.T) {
	t.Parallel()
	home := copied(t, "v2.0.77-subagent")
	require.NoError(t, os.CopyFS(home, os.DirFS(homeOf(t, "v2.0.77-longlived"))))
	open, err := adapters.OpenHome(home)
	require.NoError(t, err)
	all, err := New().Transcripts(open, adapters.Launch{})
	require.NoError(t, err)
	sessions := 0
	for _, tr := range all {
		if tr.ID != event.Main {
			continue
		}
		sessions++
		id := strings.TrimSuffix(filepath.Base(tr.Path), agentSuffix)
		found, err := New().Transcripts(open, adapters.Launch{NativeID: id})
		require.NoError(t, err)
		require.Len(t, found, 5, "one subagent, three or so that warm up, and the session")
		for _, f := range found[1:] {
			require.Contains(t, replay.ReadFile(t, filepath.Join(home, f.Path)), `"sessionId":"`+id+`"`)
		}
	}
	require.Equal(t, 2, sessions)
}

// A parse that continues in the middle of a sidechain puts its lines into the
// same conversation as one of the whole file.
func TestOlderSidechainGoesOn(t *testing.T) {
	t.Parallel()
	mains, err := filepath.Glob(filepath.Join(homeOf(t, "v2.0.0-subagent"), configDir, "projects", "*", "*"+agentSuffix))
	require.NoError(t, err)
	require.Len(t, mains, 1)
	text := replay.ReadFile(t, mains[0])
	conversations := func(tell func(take func(event.Event))) map[string]string {
		of := map[string]string{}
		tell(func(e event.Event) {
			if u, ok := e.Payload.(event.BlockUpsert); ok {
				of[u.Block.ID] = e.Context.Conversation()
			}
		})
		return of
	}
	whole := conversations(func(take func(event.Event)) {
		for e, err := range New().Parse([]adapters.Source{memory(event.Main, text)}) {
			require.NoError(t, err)
			take(e)
		}
	})
	id := strings.TrimSuffix(filepath.Base(mains[0]), agentSuffix)
	name := configDir + "/projects/p/" + id + agentSuffix
	home := &replay.Home{Files: map[string]string{}}
	pieces := conversations(func(take func(event.Event)) {
		var since json.RawMessage
		for line := range strings.Lines(text) {
			home.Files[name] += line
			since, err = New().Follow(home, adapters.Launch{NativeID: id}, since, take)
			require.NoError(t, err)
		}
	})
	for block, conversation := range whole {
		if conversation != event.Main {
			require.Equal(t, conversation, pieces[block], block)
		}
	}
	require.Contains(t, slices.Collect(maps.Values(whole)), restoredFrom(t, homeOf(t, "v2.0.0-subagent")).Subagents[0].ToolUseID)
}

// A companion file that a kill left empty, or kept from being made, costs only what it alone
// has: the call names the subagent.
func TestEmptyCompanion(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"subagent", "subagent-background"} {
		dir := copied(t, name)
		whole := restoredFrom(t, dir)
		found, err := filepath.Glob(filepath.Join(dir, configDir, "projects", "*", "*", "subagents", "*"+metaSuffix))
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.NoError(t, os.WriteFile(found[0], nil, 0o600))
		empty := restoredFrom(t, dir)
		require.Equal(t, replay.JSON(t, whole.Blocks), replay.JSON(t, empty.Blocks), name)
		require.Len(t, empty.Subagents, 1)
		require.Equal(t, replay.JSON(t, whole.Subagents[0].Blocks), replay.JSON(t, empty.Subagents[0].Blocks), name)
		require.NoError(t, os.Remove(found[0]))
		require.Equal(t, replay.JSON(t, empty), replay.JSON(t, restoredFrom(t, dir)), name)
	}
}
