package gemini

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
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

// process is one run of the agent in a recording.
type process struct {
	dir, name string // name is recording/prefix
	records   []event.Record
	session   string
	headless  bool
	// later: it goes on with a session that another run has begun.
	later bool
}

// processes reads the runs of all recordings, those that begin a session
// before those that go on with one.
func processes(t testing.TB) []process {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recordingsDir(t), "*", "*timed.jsonl"))
	require.NoError(t, err)
	slices.Sort(files)
	var out []process
	for _, f := range files {
		out = append(out, readProcess(t, f))
	}
	slices.SortStableFunc(out, func(a, b process) int {
		if a.later == b.later {
			return 0
		}
		if a.later {
			return 1
		}
		return -1
	})
	return out
}

func readProcess(t testing.TB, file string) process {
	t.Helper()
	dir, prefix := filepath.Dir(file), strings.TrimSuffix(filepath.Base(file), "timed.jsonl")
	p := process{dir: dir, name: filepath.Base(dir) + "/" + prefix, records: readRecords(t, file), headless: true}
	for _, r := range p.records {
		var l struct {
			Session string `json:"session_id"`
			Method  string
			Params  struct{ SessionID string }
			Result  struct{ SessionID string }
		}
		if json.Unmarshal([]byte(r.Line), &l) != nil {
			continue
		}
		p.headless = p.headless && l.Method == ""
		p.later = p.later || l.Method == "session/load"
		for _, id := range []string{l.Session, l.Params.SessionID, l.Result.SessionID} {
			if p.session == "" {
				p.session = id
			}
		}
	}
	command, err := os.ReadFile(filepath.Join(dir, prefix+"cmd.txt"))
	require.NoError(t, err)
	p.later = p.later || bytes.Contains(command, []byte(" --resume ")) ||
		bytes.Contains(command, []byte(" --session-file "))
	return p
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

// transcript is the native files of a session that a recording kept.
type transcript struct {
	name, file string
	session    string
	sources    []adapters.Source
}

// transcripts are the conversations that the recordings kept, each where it is
// the longest: a recording keeps those of all recordings before it.
func transcripts(t testing.TB) []transcript {
	t.Helper()
	longest, size := map[string]string{}, map[string]int64{}
	err := filepath.WalkDir(recordingsDir(t), func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(d.Name(), chatPrefix) || !strings.HasSuffix(file, chatSuffix) {
			return err
		}
		home, openErr := adapters.OpenHome(filepath.Dir(file))
		require.NoError(t, openErr)
		c, err := survey(home, d.Name(), glance)
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		if c.prompts && info.Size() > size[c.session] {
			longest[c.session], size[c.session] = file, info.Size()
		}
		return nil
	})
	require.NoError(t, err)
	var out []transcript
	for session, file := range longest {
		sources, err := adapters.SourcesFrom(New(), file)
		require.NoError(t, err)
		rel, err := filepath.Rel(recordingsDir(t), file)
		require.NoError(t, err)
		name, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		out = append(out, transcript{name: name + "/" + session[:min(8, len(session))], file: file, session: session, sources: sources})
	}
	slices.SortFunc(out, func(a, b transcript) int { return strings.Compare(a.name, b.name) })
	return out
}

// live are the runs that the transcript is of: those of its session whose
// prompts and answers it has, each for one of its own.
func (tr transcript) live(t testing.TB, all []process) []process {
	t.Helper()
	left := map[string]int{}
	for _, b := range foldParsed(t, tr.sources).Blocks {
		left[saying(b)]++
	}
	var runs []process
	for _, p := range all {
		if p.session == tr.session && p.takes(left) {
			runs = append(runs, p)
		}
	}
	return runs
}

// takes consumes what a run said from what a transcript has, if all of it is
// there.
func (p process) takes(left map[string]int) bool {
	s, err := reducer.Fold(sequence(translated(p.records)))
	if err != nil {
		return false
	}
	after := maps.Clone(left)
	for _, b := range s.Blocks {
		if b.Status == event.StatusError || saying(b) == "" {
			continue
		}
		if after[saying(b)]--; after[saying(b)] < 0 {
			return false
		}
	}
	maps.Copy(left, after)
	return true
}

func saying(b event.Block) string {
	if b.Content == nil || b.Type == event.BlockThinking {
		return ""
	}
	return string(b.Type) + *b.Content
}

func translated(records []event.Record) []event.Event {
	var out []event.Event
	for e, err := range adapters.Translate(New(), sequence(records), adapters.TranslateOptions{}) {
		if err == nil {
			out = append(out, e)
		}
	}
	return out
}

func sequence[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// spool is what several runs say, one after the other, as a runner that
// watches the session would have kept it.
func spool(runs []process) []event.Record {
	var out []event.Record
	for _, p := range runs {
		out = append(out, p.records...)
		out = append(out, event.Record{Dir: event.DirSig, Line: "exit"})
	}
	return out
}

func memory(id, text string) adapters.Source {
	return adapters.Source{
		Transcript: adapters.Transcript{ID: id, Path: id + chatSuffix, Kind: adapters.Append},
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
	}
}
