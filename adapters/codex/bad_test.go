package codex

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/test/replay"
)

// A broken line costs that line: the error names file and line, and the others
// are parsed.
func TestBrokenLines(t *testing.T) {
	t.Parallel()
	_, good := syntheticTurn(1, 3)
	whole := recorded.Parsed(t, memory(event.Main, good))
	for name, c := range map[string]struct{ bad, want string }{
		"no JSON":         {"{\"timestamp\":\n", "no valid JSON"},
		"no object":       {"[1]\n", "not a JSON object"},
		"wrong encoding":  {"{\"type\":\"\xff\"}\n", "not UTF-8"},
		"no type":         {"{}\n", `field "type" is missing`},
		"another's field": {`{"type":"event_msg","payload":{"type":7}}` + "\n", "never is"},
	} {
		for where, text := range map[string]string{"first": c.bad + good, "last": good + c.bad} {
			state, errs := recorded.ParseAll(memory(event.Main, text))
			require.Len(t, errs, 1, "%s %s", name, where)
			require.ErrorContains(t, errs[0], "main.jsonl: line ", name)
			require.ErrorContains(t, errs[0], c.want, name)
			require.Equal(t, replay.JSON(t, whole), replay.JSON(t, state), "%s %s", name, where)
		}
	}
}

// A line cut in its middle is an error, and nothing is invented instead.
func TestTornLastLine(t *testing.T) {
	t.Parallel()
	_, good := syntheticTurn(1, 3)
	_, next := syntheticTurn(2, 3)
	state, errs := recorded.ParseAll(memory(event.Main, good+next[:len(next)/2]))
	require.Len(t, errs, 1)
	require.NotEmpty(t, state.Blocks)
	for _, b := range state.Blocks {
		require.NotEqual(t, event.ExecutionRunning, b.Execution)
	}
}

// Transcripts of other agents and empty files hold no conversation of Codex.
func TestForeignAndEmpty(t *testing.T) {
	t.Parallel()
	state, errs := recorded.ParseAll(memory(event.Main, ""))
	require.Empty(t, errs)
	require.Empty(t, state.Blocks)
	state, errs = recorded.ParseAll(memory(event.Main, `{"type":"user","uuid":"u","message":{"content":"hi"}}`+"\n"))
	require.Empty(t, state.Blocks, "another agent's line is no message here")
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "main.jsonl: line 1")
}

func TestUnreadableSource(t *testing.T) {
	t.Parallel()
	_, good := syntheticTurn(1, 3)
	gone := memory("gone", "")
	gone.Open = func() (io.ReadCloser, error) { return nil, os.ErrNotExist }
	cut := memory("cut", "")
	cut.Open = func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("{"), broken{})), nil
	}
	state, errs := recorded.ParseAll(memory(event.Main, good), gone, cut)
	require.NotEmpty(t, state.Blocks)
	require.ErrorIs(t, errors.Join(errs...), os.ErrNotExist)
	require.ErrorContains(t, errors.Join(errs...), "gone.jsonl")
	require.ErrorContains(t, errors.Join(errs...), "cut.jsonl: line 1")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the disk is broken") }

// A stream's malformed line is an error event that holds it.
func TestMalformedStream(t *testing.T) {
	t.Parallel()
	tr, err := New().Translator(adapters.Launch{}, nil)
	require.NoError(t, err)
	for _, line := range []string{"{", "7", "{\"method\":\"item/started\",\"params\":{\"item\":7}}"} {
		events := tr.Step(traffic.Record{Dir: event.DirOut, Line: line})
		require.Len(t, events, 1, line)
		fault := events[0].Payload.(event.Error)
		require.Equal(t, "malformed", fault.Code)
		require.Equal(t, string(rawText(line)), string(fault.Data))
	}
	_, err = New().Translator(adapters.Launch{}, []byte(`{"v":99}`))
	require.ErrorContains(t, err, "version 99")
	_, err = New().Translator(adapters.Launch{}, []byte(`{`))
	require.Error(t, err)
}

// A rollout that is there is continued as it is.
func TestPrepareContinues(t *testing.T) {
	t.Parallel()
	dir, l := t.TempDir(), adapters.Launch{SessionID: "s", NativeID: New().NativeID("s", 1), Workspace: "/srv/project"}
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	fresh, err := New().Prepare(home, l)
	require.NoError(t, err)
	require.Equal(t, l.NativeID, fresh.NativeID)
	require.Len(t, fresh.Write, 1)
	write(t, dir, fresh.Write[0].Path, string(fresh.Write[0].Add))
	require.Empty(t, threadID(fresh.Write[0].Path+adapters.TornSuffix), "what is set aside is no rollout")

	again, err := New().Prepare(home, l)
	require.NoError(t, err)
	require.Equal(t, adapters.Preparation{NativeID: l.NativeID}, again)
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}
