package gemini

import (
	"encoding/json"
	"io/fs"
	"maps"
	"path/filepath"
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
	Strange: []replay.Strange{
		{Line: `{"type":"never_heard_of","patch":7,"x":[1]}`, Kind: "unknown"},
		{Line: `{"jsonrpc":"2.0","method":"never/heard_of","params":{"x":[1]}}`, Kind: "never/heard_of"},
		{Line: `{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"never_heard_of"}}}`, Kind: "session/update/never_heard_of"},
		{Line: `{"jsonrpc":"2.0","method":"session/update","params":[7]}`, Kind: "unknown"},
		{Line: `{"jsonrpc":"2.0","id":"nobody-asked","result":{}}`, Kind: "answer"},
	},
	AllKnown:    true,
	StorySource: storySource,
	StoryRules:  rules,
}

func storySource(name, text string) (adapters.Source, bool) {
	id, is := strings.CutSuffix(name, chatSuffix)
	return memory(id, text), is
}

func memory(id, text string) adapters.Source {
	return replay.Memory(adapters.Transcript{ID: id, Path: id + chatSuffix, Kind: adapters.Append}, text)
}

// process is one run of the agent in a recording.
type process struct {
	replay.Run
	session  string
	headless bool
	// later: it continues a session that another run has started.
	later bool
}

// processes returns the runs of all recordings, those that start a session before
// those that continue one.
func processes(t testing.TB) []process {
	t.Helper()
	var begin, later []process
	for _, f := range replay.Files(t, Name) {
		if p := readProcess(t, f); p.later {
			later = append(later, p)
		} else {
			begin = append(begin, p)
		}
	}
	return append(begin, later...)
}

func readProcess(t testing.TB, f replay.File) process {
	t.Helper()
	p := process{Run: replay.Run{Name: f.Name(), Records: f.Records(t)}, headless: true}
	for _, r := range p.Records {
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
	command := f.Command(t)
	p.later = p.later || strings.Contains(command, " --resume ") || strings.Contains(command, " --session-file ")
	return p
}

// transcript is a session's native files in a recording.
type transcript struct {
	replay.Transcript // its name is recording/session
	session           string
}

// transcripts returns the conversations in the recordings, each where it is the
// longest: a recording has those of all recordings before it.
func transcripts(t testing.TB) []transcript {
	t.Helper()
	longest, size := map[string]string{}, map[string]int64{}
	err := filepath.WalkDir(recordings.Dir(t, Name), func(file string, d fs.DirEntry, err error) error {
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
		rel, err := filepath.Rel(recordings.Dir(t, Name), file)
		require.NoError(t, err)
		name, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		out = append(out, transcript{replay.Transcript{Name: name + "/" + session[:min(8, len(session))], Sources: sources}, session})
	}
	slices.SortFunc(out, func(a, b transcript) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// live returns the runs of the transcript: those of its session whose prompts and
// answers it has, each matched once.
func (tr transcript) live(t testing.TB, all []process) []process {
	t.Helper()
	left := map[string]int{}
	for _, b := range recorded.Parsed(t, tr.Sources...).Blocks {
		left[saying(b)]++
	}
	var runs []process
	for _, p := range all {
		if p.session == tr.session && p.takes(t, left) {
			runs = append(runs, p)
		}
	}
	return runs
}

// takes removes what a run emitted from what a transcript has, if all of it is
// there.
func (p process) takes(t testing.TB, left map[string]int) bool {
	t.Helper()
	after := maps.Clone(left)
	for _, b := range recorded.Live(t, p.Records).Blocks {
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
