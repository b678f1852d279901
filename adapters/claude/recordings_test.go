package claude

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
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
	name    string // recording/prefix
	prompt  string // given on the command line
	records []event.Record
	session string
	uuids   []string // of its whole messages
}

// processes reads the runs of all recordings, in the order of their names,
// with the first run of a recording before those that have a prefix.
func processes(t testing.TB) []process {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recordingsDir(t), "*", "*timed.jsonl"))
	require.NoError(t, err)
	slices.SortFunc(files, func(a, b string) int {
		if d := strings.Compare(filepath.Dir(a), filepath.Dir(b)); d != 0 {
			return d
		}
		if la, lb := len(filepath.Base(a)), len(filepath.Base(b)); (la == len("timed.jsonl")) != (lb == len("timed.jsonl")) {
			return la - lb
		}
		return strings.Compare(a, b)
	})
	var out []process
	for _, f := range files {
		out = append(out, readProcess(t, f))
	}
	return out
}

func readProcess(t testing.TB, file string) process {
	t.Helper()
	dir, prefix := filepath.Dir(file), strings.TrimSuffix(filepath.Base(file), "timed.jsonl")
	p := process{name: filepath.Base(dir) + "/" + prefix, prompt: commandPrompt(t, filepath.Join(dir, prefix+"cmd.txt"))}
	p.records = readRecords(t, file)
	for _, r := range p.records {
		var l struct {
			Type, UUID string
			Session    string `json:"session_id"`
		}
		if r.Dir != event.DirOut || json.Unmarshal([]byte(r.Line), &l) != nil {
			continue
		}
		if l.Session != "" && p.session == "" {
			p.session = l.Session
		}
		if l.Type == "assistant" {
			p.uuids = append(p.uuids, l.UUID)
		}
	}
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

// commandPrompt is the prompt at the end of a recorded command line, "" for a
// run that reads its prompts from standard input.
func commandPrompt(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.SplitN(string(data), "/claude -p ", 2)
	require.Len(t, lines, 2, file)
	argv := strings.TrimSpace(lines[1])
	if strings.Contains(argv, "--input-format") {
		return ""
	}
	if strings.HasSuffix(argv, `"`) {
		argv = strings.TrimSuffix(argv, `"`)
		return argv[strings.LastIndex(argv, `"`)+1:]
	}
	return argv[strings.LastIndex(argv, " ")+1:]
}

// transcript is the native files of a session that a recording kept.
type transcript struct {
	name    string // recording/prefix
	session string
	main    string // path of the main file
	sources []adapters.Source
	bytes   string
}

func transcripts(t testing.TB) []transcript {
	t.Helper()
	var out []transcript
	err := filepath.WalkDir(recordingsDir(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "transcripts") ||
			filepath.Ext(path) != ".jsonl" || strings.Contains(path, "subagents") {
			return err
		}
		rel, err := filepath.Rel(recordingsDir(t), path)
		require.NoError(t, err)
		parts := strings.Split(filepath.ToSlash(rel), "/")
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		sources, err := adapters.SourcesFrom(New(), path)
		require.NoError(t, err)
		out = append(out, transcript{
			name:    parts[0] + "/" + strings.TrimSuffix(parts[1], "transcripts"),
			session: strings.TrimSuffix(filepath.Base(path), ".jsonl"),
			main:    path, sources: sources, bytes: string(data),
		})
		return nil
	})
	require.NoError(t, err)
	return out
}

// live is the runs that made a transcript: those of its session whose messages
// are in it, in the order in which they stand there.
func (tr transcript) live(all []process) []process {
	var runs []process
	for _, p := range all {
		if p.session == tr.session && tr.has(p) {
			runs = append(runs, p)
		}
	}
	at := func(p process) int {
		if len(p.uuids) == 0 {
			return len(tr.bytes)
		}
		if i := strings.Index(tr.bytes, p.uuids[0]); i >= 0 {
			return i
		}
		return 0
	}
	slices.SortStableFunc(runs, func(a, b process) int {
		if recording(a.name) == recording(b.name) && recording(a.name) == recording(tr.name) {
			return 0
		}
		return at(a) - at(b)
	})
	return runs
}

// untold is the first message of the transcript that none of the streams of
// its session tells; "" when there is none, so that the two are sides of one
// conversation. The stream of a fork is not one of them: it belongs to the fork's
// own session and transcript.
func (tr transcript) untold(runs []process) string {
	told := map[string]bool{}
	for _, p := range runs {
		for _, r := range p.records {
			for _, found := range messageIDs.FindAllString(r.Line, -1) {
				told[found] = true
			}
		}
	}
	for l := range strings.Lines(tr.bytes) {
		var written struct {
			Type    string
			Message struct{ ID, Model string }
		}
		_ = json.Unmarshal([]byte(l), &written) // other lines have no message
		if written.Type == "assistant" && written.Message.Model != synthetic && !told[written.Message.ID] {
			return written.Message.ID
		}
	}
	if len(runs) == 0 {
		return "the session"
	}
	return ""
}

var messageIDs = regexp.MustCompile(`msg_[0-9a-zA-Z]+`)

func recording(name string) string { return name[:strings.Index(name, "/")] }

// has says whether the transcript was written by that run: it holds its
// messages, or the run belongs to the transcript's own recording and is not
// later than the transcript.
func (tr transcript) has(p process) bool {
	if recording(p.name) == recording(tr.name) && (p.name == tr.name || !strings.HasSuffix(p.name, "-")) {
		return true
	}
	found := false
	for _, u := range p.uuids {
		if !strings.Contains(tr.bytes, u) {
			return false
		}
		found = true
	}
	return found
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
func spool(t testing.TB, runs []process) []event.Record {
	t.Helper()
	var out []event.Record
	for _, p := range runs {
		if p.prompt != "" {
			out = append(out, event.Record{Dir: event.DirIn, Line: adapters.PromptLine(p.prompt)})
		}
		out = append(out, p.records...)
		out = append(out, event.Record{Dir: event.DirSig, Line: "exit"})
	}
	return out
}
