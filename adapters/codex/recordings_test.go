package codex

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
}

func storySource(name, text string) (adapters.Source, bool) {
	id := threadID(name)
	if first, _, _ := strings.Cut(text, "\n"); !strings.Contains(first, "parent_thread_id") {
		return memory(event.Main, text), id != ""
	}
	return memory(id, text), id != ""
}

func memory(id, text string) adapters.Source {
	return replay.Memory(adapters.Transcript{ID: id, Path: id + ".jsonl", Kind: adapters.Append}, text)
}

// process is one run of the agent in a recording.
type process struct {
	replay.Run
	thread string
	// texts are its whole messages, by which the run of a transcript is found.
	texts []string
	exec  bool
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

var startedThread = regexp.MustCompile(`"(?:thread_id|sessionId)":"([0-9a-f-]{36})"`)

func readProcess(t testing.TB, f replay.File) process {
	t.Helper()
	p := process{Run: replay.Run{Name: f.Name(), Prompt: commandPrompt(f.Command(t)), Records: f.Records(t)}}
	for _, r := range p.Records {
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

// commandPrompt returns the prompt at the end of a recorded command line, "" for
// a run that reads its prompts from standard input. A quoted one may have quotes.
func commandPrompt(command string) string {
	_, argv, exec := strings.Cut(command, "codex exec ")
	if !exec {
		return ""
	}
	prompt, quoted := replay.LastArgument(argv)
	if quoted {
		at := strings.Index(argv, ` "`)
		prompt = strings.ReplaceAll(argv[at+2:len(argv)-1], `\"`, `"`)
	}
	return prompt
}

// transcript is a session's rollouts in a recording.
type transcript struct {
	replay.Transcript // its name is the recording's
	thread            string
	bytes             string
}

// transcripts returns the main rollouts of all recordings: the homes were copied
// repeatedly while they grew, so of each session there are all copies that
// differ.
func transcripts(t testing.TB) []transcript {
	t.Helper()
	seen := map[string]bool{}
	var out []transcript
	err := filepath.WalkDir(recordings.Dir(t, Name), func(path string, d fs.DirEntry, err error) error {
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
	rel, err := filepath.Rel(recordings.Dir(t, Name), path)
	require.NoError(t, err)
	name, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	home, err := adapters.OpenHome(filepath.Dir(path))
	require.NoError(t, err)
	meta, err := readMeta(home, filepath.Base(path))
	require.NoError(t, err)
	if meta.Parent != "" || meta.ID == "" {
		return transcript{}
	}
	sources, err := adapters.SourcesFrom(New(), path)
	require.NoError(t, err)
	return transcript{replay.Transcript{Name: name, Sources: sources}, meta.ID, replay.ReadFile(t, path)}
}

// live returns the runs that made a transcript, in the order in which they are in
// it. A run of `codex exec` is one turn, found by its texts.
func (tr transcript) live(all []process) []process {
	var runs []process
	used := map[string]bool{}
	for _, p := range all {
		if p.thread == tr.thread && !p.exec && tr.hasTurnOf(p) {
			runs = append(runs, p)
		}
	}
	for _, turn := range tr.turns() {
		for _, p := range all {
			if p.thread == tr.thread && p.exec && !used[p.Name] && p.Prompt == turn[0] && slices.Equal(p.texts, turn[1:]) {
				used[p.Name] = true
				runs = append(runs, p)
				break
			}
		}
	}
	return runs
}

// hasTurnOf reports whether the transcript was copied after the run: it has its last
// turn.
func (tr transcript) hasTurnOf(p process) bool {
	last := ""
	for _, r := range p.Records {
		if m := startedTurn.FindStringSubmatch(r.Line); m != nil && r.Dir == event.DirOut && strings.Contains(r.Line, tr.thread) {
			last = m[1]
		}
	}
	return strings.Contains(tr.bytes, last)
}

var startedTurn = regexp.MustCompile(`"method":"turn/started".*"turn":{"id":"([0-9a-f-]{36})"`)

// turns returns the turns of the main rollout: the prompt, and each text of the
// answer.
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
