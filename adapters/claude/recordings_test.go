package claude

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/recordings"
	"github.com/sojourn-run/sojourn/test/replay"
)

// recorded is what the tests of recordings and stories need to know of the agent.
var recorded = replay.Agent{
	Adapter:     New(),
	Runs:        func(t testing.TB) []replay.Run { return replay.RunsOf(processes(t)) },
	Transcripts: func(t testing.TB) []replay.Transcript { return replay.TranscriptsOf(transcripts(t)) },
	Strange:     []replay.Strange{{Line: `{"type":"never_heard_of","patch":7,"x":[1]}`, Kind: "never_heard_of"}},
	StorySource: storySource,
	StoryRules:  parity.Rules{UngivenPrefix: UngivenPrefix, UnsentDepth: 2},
}

func storySource(name, text string) (adapters.Source, bool) {
	if name == "main.jsonl" {
		return memory(event.Main, text), true
	}
	tr, ok := subagentFile(name)
	return replay.Memory(tr, text), ok
}

func memory(id, text string) adapters.Source {
	return replay.Memory(adapters.Transcript{ID: id, Path: id + ".jsonl", Kind: adapters.Append}, text)
}

// toJSON and pretty format values for a failing test.
func toJSON(t testing.TB, v any) string { return replay.JSON(t, v) }

func pretty(t testing.TB, v any) string { return replay.Pretty(t, v) }

// process is one run of the agent in a recording.
type process struct {
	replay.Run
	session string
	uuids   []string // of its whole messages
}

// processes reads the runs of all recordings.
func processes(t testing.TB) []process {
	t.Helper()
	var out []process
	for _, f := range replay.Files(t, Name) {
		out = append(out, readProcess(t, f))
	}
	return out
}

func readProcess(t testing.TB, f replay.File) process {
	t.Helper()
	p := process{Run: replay.Run{Name: f.Name(), Prompt: commandPrompt(t, f), Records: f.Records(t)}}
	for _, r := range p.Records {
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

// commandPrompt is the prompt at the end of a recorded command line, "" for a
// run that reads its prompts from standard input.
func commandPrompt(t testing.TB, f replay.File) string {
	t.Helper()
	_, argv, found := strings.Cut(f.Command(t), "/claude -p ")
	require.True(t, found, f.Name())
	if strings.Contains(argv, "--input-format") {
		return ""
	}
	prompt, _ := replay.LastArgument(argv)
	return prompt
}

// transcript is a session's native files in a recording.
type transcript struct {
	replay.Transcript // its name is recording/prefix
	session           string
	main              string // path of the main file
	bytes             string
}

func transcripts(t testing.TB) []transcript {
	t.Helper()
	var out []transcript
	root := recordings.Dir(t, Name)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "transcripts") ||
			filepath.Ext(path) != ".jsonl" || strings.HasPrefix(d.Name(), agentPrefix) {
			return err
		}
		rel, err := filepath.Rel(root, path)
		require.NoError(t, err)
		parts := strings.Split(filepath.ToSlash(rel), "/")
		sources, err := adapters.SourcesFrom(New(), path)
		require.NoError(t, err)
		name := parts[0] + "/" + strings.TrimSuffix(parts[1], "transcripts")
		out = append(out, transcript{
			Transcript: replay.Transcript{Name: name, Sources: sources},
			session:    strings.TrimSuffix(filepath.Base(path), ".jsonl"),
			main:       path, bytes: replay.ReadFile(t, path),
		})
		return nil
	})
	require.NoError(t, err)
	return out
}

// live returns the runs that made a transcript: those of its session whose
// messages are in it, in the order in which they are in it.
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
		if recording(a.Name) == recording(b.Name) && recording(a.Name) == recording(tr.Name) {
			return 0
		}
		return at(a) - at(b)
	})
	return runs
}

// firstUnstreamed returns the first message of the transcript that none of the
// streams of its session has; "" if there is none, so that the two are sides of
// one conversation. The stream of a fork is not one of them: it is of the fork's
// own session and transcript.
func (tr transcript) firstUnstreamed(runs []process) string {
	emitted := map[string]bool{}
	for _, p := range runs {
		for _, r := range p.Records {
			for _, found := range messageIDs.FindAllString(r.Line, -1) {
				emitted[found] = true
			}
		}
	}
	for l := range strings.Lines(tr.bytes) {
		var written struct {
			Type        string
			IsSidechain bool
			Message     struct{ ID, Model string }
		}
		_ = json.Unmarshal([]byte(l), &written) // other lines have no message
		if written.Type == "assistant" && !written.IsSidechain && written.Message.Model != synthetic && !emitted[written.Message.ID] {
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

// has reports whether that run wrote the transcript: it has its messages, or the
// run is of the transcript's own recording and is not later than the transcript.
func (tr transcript) has(p process) bool {
	if recording(p.Name) == recording(tr.Name) && (p.Name == tr.Name || !strings.HasSuffix(p.Name, "-")) {
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
