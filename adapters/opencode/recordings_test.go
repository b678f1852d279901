package opencode

import (
	"bytes"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// recordingsDir is where real exchanges with the agent lie: below
// SOJOURN_SHARED, or beside the repository.
func recordingsDir(t testing.TB) string {
	t.Helper()
	shared := os.Getenv("SOJOURN_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	dir := filepath.Join(shared, "agents", "recordings", Name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recordings: set SOJOURN_SHARED to the folder that has agents/recordings/%s", Name)
	}
	return dir
}

// run is one process of the agent in a recording.
type run struct {
	dir, prefix string
	// prompt was given on the command line.
	prompt  string
	records []event.Record
}

func (r run) name() string { return filepath.Base(r.dir) + "/" + r.prefix }

// runs reads the processes of all recordings: server-sent events where there
// are any, else what was printed.
func runs(t testing.TB) []run {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recordingsDir(t), "*", "*timed.jsonl"))
	require.NoError(t, err)
	slices.Sort(files)
	var out []run
	for _, f := range files {
		r := run{dir: filepath.Dir(f), prefix: strings.TrimSuffix(filepath.Base(f), "timed.jsonl")}
		if strings.HasPrefix(filepath.Base(r.dir), "acp-") {
			continue // another adapter's
		}
		if events := filepath.Join(r.dir, r.prefix+"events.sse.jsonl"); exists(events) {
			f = events
		} else {
			r.prompt = commandPrompt(t, filepath.Join(r.dir, r.prefix+"cmd.txt"))
		}
		r.records = readRecords(t, f)
		out = append(out, r)
	}
	return out
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func readRecords(t testing.TB, file string) []event.Record {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var out []event.Record
	for r, err := range event.DecodeRecords(bytes.NewReader(data), event.RecordOptions{Plain: true}) {
		require.NoError(t, err)
		out = append(out, r)
	}
	return out
}

// commandPrompt is the prompt at the end of a recorded command line. The agent
// puts one with spaces into quotes.
func commandPrompt(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	argv := strings.TrimSpace(string(data))
	if !strings.HasSuffix(argv, `"`) {
		return argv[strings.LastIndex(argv, " ")+1:]
	}
	argv = strings.TrimSuffix(argv, `"`)
	return `"` + argv[strings.LastIndex(argv, `"`)+1:] + `"`
}

func sequence(records []event.Record) iter.Seq2[event.Record, error] {
	return func(yield func(event.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func foldLive(t testing.TB, prompt string, records []event.Record) reducer.State {
	t.Helper()
	s, err := reducer.Fold(adapters.Translate(New(), sequence(records), adapters.TranslateOptions{Prompt: prompt}))
	require.NoError(t, err)
	return s
}

func foldParsed(t testing.TB, sources []adapters.Source) reducer.State {
	t.Helper()
	s, err := reducer.Fold(New().Parse(sources))
	require.NoError(t, err)
	return s
}

func countBlocks(s reducer.State) int {
	n := len(s.Blocks)
	for _, sub := range s.Subagents {
		n += len(sub.Blocks)
	}
	return n
}

func toJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
