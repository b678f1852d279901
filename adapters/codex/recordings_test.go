package codex

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
	thread  string
	// texts are its whole messages, by which a transcript knows the run.
	texts []string
	exec  bool
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

var startedThread = regexp.MustCompile(`"(?:thread_id|sessionId)":"([0-9a-f-]{36})"`)

func readProcess(t testing.TB, file string) process {
	t.Helper()
	dir, prefix := filepath.Dir(file), strings.TrimSuffix(filepath.Base(file), "timed.jsonl")
	p := process{name: filepath.Base(dir) + "/" + prefix, records: readRecords(t, file)}
	p.prompt = commandPrompt(t, filepath.Join(dir, prefix+"cmd.txt"))
	for _, r := range p.records {
		if r.Dir != event.DirOut {
			continue
		}
		if m := startedThread.FindStringSubmatch(r.Line); m != nil && p.thread == "" {
			p.thread = m[1]
		}
		var l message
		if json.Unmarshal([]byte(r.Line), &l) != nil {
			continue
		}
		p.exec = p.exec || l.Type == "thread.started"
		it := new(item)
		if l.Type == "item.completed" && it.UnmarshalJSON(l.Item) == nil && it.kind() == kindText {
			p.texts = append(p.texts, it.Text)
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
	_, argv, exec := strings.Cut(string(data), "codex exec ")
	if !exec {
		return ""
	}
	argv = strings.TrimSpace(argv)
	if !strings.HasSuffix(argv, `"`) {
		return argv[strings.LastIndex(argv, " ")+1:]
	}
	at := strings.Index(argv, ` "`)
	return strings.ReplaceAll(argv[at+2:len(argv)-1], `\"`, `"`)
}

// transcript is a session's rollouts as a recording kept them.
type transcript struct {
	name    string // recording/prefix
	thread  string
	sources []adapters.Source
	bytes   string
}

// transcripts are the main rollouts of all recordings: the homes were kept
// again and again while they grew, so of each session there are all copies that
// differ.
func transcripts(t testing.TB) []transcript {
	t.Helper()
	seen := map[string]bool{}
	var out []transcript
	err := filepath.WalkDir(recordingsDir(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(d.Name(), rolloutPrefix) || filepath.Ext(path) != rolloutSuffix {
			return err
		}
		if tr := readTranscript(t, path); tr.thread != "" && !seen[tr.bytes] {
			seen[tr.bytes] = true
			out = append(out, tr)
		}
		return nil
	})
	require.NoError(t, err)
	return out
}

func readTranscript(t testing.TB, path string) transcript {
	t.Helper()
	rel, err := filepath.Rel(recordingsDir(t), path)
	require.NoError(t, err)
	parts := strings.Split(filepath.ToSlash(rel), "/")
	home, err := adapters.OpenHome(filepath.Dir(path))
	require.NoError(t, err)
	meta, err := readMeta(home, filepath.Base(path))
	require.NoError(t, err)
	if meta.Parent != "" || meta.ID == "" {
		return transcript{}
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	sources, err := adapters.SourcesFrom(New(), path)
	require.NoError(t, err)
	return transcript{name: parts[0], thread: meta.ID, sources: sources, bytes: string(data)}
}

// live is the runs that made a transcript, in the order in which they stand
// there. A run of `codex exec` is one turn; which one is told by its words.
func (tr transcript) live(all []process) []process {
	var runs []process
	used := map[string]bool{}
	for _, p := range all {
		if p.thread == tr.thread && !p.exec && tr.tells(p) {
			runs = append(runs, p)
		}
	}
	for _, turn := range tr.turns() {
		for _, p := range all {
			if p.thread == tr.thread && p.exec && !used[p.name] && p.prompt == turn[0] && slices.Equal(p.texts, turn[1:]) {
				used[p.name] = true
				runs = append(runs, p)
				break
			}
		}
	}
	return runs
}

// tells says whether the transcript was kept after the run: it has its last
// turn.
func (tr transcript) tells(p process) bool {
	last := ""
	for _, r := range p.records {
		if m := startedTurn.FindStringSubmatch(r.Line); m != nil && r.Dir == event.DirOut && strings.Contains(r.Line, tr.thread) {
			last = m[1]
		}
	}
	return strings.Contains(tr.bytes, last)
}

var startedTurn = regexp.MustCompile(`"method":"turn/started".*"turn":{"id":"([0-9a-f-]{36})"`)

// turns are the turns of the main rollout: what was asked, and each text that
// was answered.
func (tr transcript) turns() [][]string {
	var turns [][]string
	for line := range strings.Lines(tr.bytes) {
		var l rolloutLine
		var p payload
		if decodeObject([]byte(line), &l) != nil || l.Type != lineEvent || decodeObject(l.Payload, &p) != nil || p.Item == nil {
			continue
		}
		switch p.Item.kind() {
		case kindUser:
			turns = append(turns, []string{p.Item.said()})
		case kindText:
			turns[len(turns)-1] = append(turns[len(turns)-1], p.Item.said())
		}
	}
	return turns
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
		if p.prompt != "" {
			out = append(out, event.Record{Dir: event.DirIn, Line: adapters.PromptLine(p.prompt)})
		}
		out = append(out, p.records...)
		out = append(out, event.Record{Dir: event.DirSig, Line: "exit"})
	}
	return out
}
