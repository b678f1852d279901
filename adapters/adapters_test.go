package adapters_test

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
)

// An adapter is found by its name; nothing else asks which agent it is.
func TestR95FactoryWithoutConditionals(t *testing.T) {
	t.Parallel()
	r := adapters.New(claude.New())
	a, err := r.Get("claude")
	require.NoError(t, err)
	require.Equal(t, "Claude Code", a.Info().Product)
	require.Equal(t, []string{"claude"}, r.Names())
	_, err = r.Get("hal")
	require.ErrorIs(t, err, adapters.ErrUnknownAgent)
	require.ErrorContains(t, err, `"hal": known agents are claude`)
	_, err = adapters.Registry{}.Get("claude")
	require.ErrorContains(t, err, "known agents are none")
	require.Panics(t, func() { adapters.New(claude.New(), claude.New()) })
}

const session = `{"type":"user","uuid":"u","message":{"content":"hi"}}` + "\n"

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestSourcesFrom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	main := write(t, dir, ".claude/projects/-w/s1.jsonl", session)
	agent := write(t, dir, ".claude/projects/-w/s1/subagents/agent-a1.jsonl", session)
	write(t, dir, ".claude/projects/-w/s1/subagents/agent-a1.meta.json", `{"toolUseId":"t1"}`)

	for name, paths := range map[string][]string{"home": {dir}, "file": {main}, "both": {main, agent, dir}} {
		sources, err := adapters.SourcesFrom(claude.New(), paths...)
		require.NoError(t, err, name)
		require.Len(t, sources, 3, name)
		state, err := reducer.Fold(claude.New().Parse(sources))
		require.NoError(t, err)
		require.Equal(t, "hi", *state.Blocks[0].Content)
		require.Equal(t, "t1", state.Subagents[0].ToolUseID)
	}
	alone, err := adapters.SourcesFrom(claude.New(), agent)
	require.NoError(t, err)
	require.Equal(t, "a1", alone[0].ID)
	require.Equal(t, "a1.meta", alone[1].ID)

	_, err = adapters.SourcesFrom(claude.New(), filepath.Join(dir, "nothing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = adapters.SourcesFrom(claude.New(), t.TempDir())
	require.ErrorIs(t, err, adapters.ErrNoTranscript)
	write(t, dir, ".claude/projects/-w/s2.jsonl", session)
	_, err = adapters.SourcesFrom(claude.New(), dir)
	require.ErrorContains(t, err, "several sessions")
}

// Nothing outside a home is read through it.
func TestHomeIsClosed(t *testing.T) {
	t.Parallel()
	outside := write(t, t.TempDir(), "secret", "x")
	dir := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	for _, path := range []string{"link", "../" + filepath.Base(filepath.Dir(outside)) + "/secret", outside} {
		_, err := home.Open(path)
		require.Error(t, err, path)
	}
	_, err = adapters.OpenHome(outside)
	require.ErrorContains(t, err, "not a folder")
}

func records(items ...traffic.Record) iter.Seq2[traffic.Record, error] {
	return func(yield func(traffic.Record, error) bool) {
		for _, r := range items {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestTranslatePromptAndEnd(t *testing.T) {
	t.Parallel()
	state, err := reducer.Fold(adapters.Translate(claude.New(), records(
		traffic.Record{Dir: event.DirOut, Line: `{"type":"stream_event","event":{"type":"message_start","message":{"id":"m"}}}`},
		traffic.Record{Dir: event.DirOut, Line: `{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}`},
		traffic.Record{Dir: event.DirOut, Line: `{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ha"}}}`},
	), adapters.TranslateOptions{Prompt: "go"}))
	require.NoError(t, err)
	require.Equal(t, "go", *state.Blocks[0].Content)
	require.Equal(t, event.StatusError, state.Blocks[1].Status, "the end of the records is the end of the agent")
	require.JSONEq(t, "true", string(state.Blocks[1].Metadata["lost"]))
}

func TestTranslateStopsAtAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("line 7")
	var got error
	for _, err := range adapters.Translate(claude.New(), func(yield func(traffic.Record, error) bool) {
		yield(traffic.Record{}, broken)
	}, adapters.TranslateOptions{}) {
		got = err
	}
	require.ErrorIs(t, got, broken)
}
