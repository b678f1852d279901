package opencode

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// rules: server-sent events have everything. The headless mode has no prompts
// with ids and no output of subagents.
var (
	rules         = parity.Rules{UngivenPrefix: UngivenPrefix}
	headlessRules = parity.Rules{UngivenPrefix: UngivenPrefix, UnsentDepth: 1}
)

// For every recording with both sides, folding the live events makes what the
// database has.
func TestParityOpenCode(t *testing.T) {
	t.Parallel()
	all := runs(t)
	compared := 0
	for _, r := range all {
		home := r.file.Path("transcripts")
		if !replay.Exists(home) {
			continue
		}
		compared++
		t.Run(r.Name, func(t *testing.T) {
			sources, err := adapters.SourcesFrom(New(), home)
			require.NoError(t, err)
			live := reducer.NewBuilder(reducer.State{})
			n := 0
			for e, err := range adapters.Translate(New(), replay.Sequence(spool(all, rootOf(t, sources), r)), adapters.TranslateOptions{}) {
				require.NoError(t, err)
				live.Add(e)
				n++
			}
			use := rules
			if r.Prompt != "" {
				use = headlessRules
			}
			replay.Comparison{
				Heading: fmt.Sprintf("%-30s %d events", r.Name, n),
				Live:    live.State(), Restored: recorded.Parsed(t, sources...), Rules: use,
			}.Test(t)
		})
	}
	require.NotZero(t, compared)
}

// rootOf returns the native session of a database.
func rootOf(t testing.TB, sources []adapters.Source) string {
	t.Helper()
	b, errs := read(sources[0].Path, sources)
	require.Empty(t, errs)
	root, err := b.choose(sources[0].Path)
	require.NoError(t, err)
	return root
}

// spool returns what a runner would have stored of a session: the processes of
// the session up to and with the last one.
func spool(all []run, session string, last run) []traffic.Record {
	var out []traffic.Record
	for _, r := range all {
		if speaksOf(r, session) && r.began() <= last.began() {
			out = append(out, r.Spool()...)
		}
	}
	return out
}

func speaksOf(r run, session string) bool {
	for _, rec := range r.Records {
		if l, err := decodeLine([]byte(rec.Line)); err == nil && l.SessionID == session {
			return true
		}
	}
	return false
}

// began returns the time of a headless process's first output.
func (r run) began() int64 {
	for _, rec := range r.Records {
		var l struct {
			Timestamp int64 `json:"timestamp"`
		}
		if json.Unmarshal([]byte(rec.Line), &l) == nil && l.Timestamp != 0 {
			return l.Timestamp
		}
	}
	return 0
}

// What the server lists of a session, and what `opencode export` prints of it, is
// what it streamed.
func TestParityListed(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, r := range runs(t) {
		for _, list := range lists(t, r) {
			compared++
			t.Run(r.Name+list.name, func(t *testing.T) {
				restored := recorded.Parsed(t, list.source)
				live := recorded.Live(t, only(r.Records, list.session))
				diffs, err := parity.Compare(parity.Native(live), restored, parity.Rules{UnsentDepth: 1})
				require.NoError(t, err)
				t.Logf("%-40s %d blocks, %d differences", r.Name+list.name, len(live.Blocks), len(diffs))
				for _, d := range diffs {
					t.Error(d)
				}
			})
		}
	}
	require.NotZero(t, compared)
}

// listed is a list of messages in a recording.
type listed struct {
	name, session string
	source        adapters.Source
}

// lists returns the lists of messages that were recorded with a run.
func lists(t testing.TB, r run) []listed {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.file.Dir, "*messages*.json"))
	require.NoError(t, err)
	var out []listed
	for _, f := range files {
		if r.file.Prefix != "" || !replay.Exists(r.file.Path("events.sse.jsonl")) || filepath.Base(f)[:6] == "resume" {
			continue
		}
		var of []struct{ Info info }
		require.NoError(t, json.Unmarshal([]byte(replay.ReadFile(t, f)), &of))
		sources, err := adapters.SourcesFrom(New(), f)
		require.NoError(t, err)
		out = append(out, listed{filepath.Base(f), of[0].Info.SessionID, sources[0]})
	}
	return out
}

// only returns the records of one native session.
func only(records []traffic.Record, session string) []traffic.Record {
	var out []traffic.Record
	for _, r := range records {
		l, err := decodeLine([]byte(r.Line))
		if err == nil && l.Properties != nil && l.Properties.SessionID == session {
			out = append(out, r)
		}
	}
	return out
}

// With the database beside the stream, subagents are taken from the database.
func TestParityWithSide(t *testing.T) {
	t.Parallel()
	export := memory("x", replay.ReadFile(t, killedExport))
	live := recorded.Live(t, replay.ReadRecords(t, killedRecords), export)
	replay.Same(t, live, recorded.Parsed(t, export), parity.Rules{})
}

// The headless mode has no output of subagents; the rest is as in the database.
func TestParityHeadless(t *testing.T) {
	t.Parallel()
	var lines []traffic.Record
	for _, r := range replay.ReadRecords(t, killedRecords) {
		l, err := decodeLine([]byte(r.Line))
		if err != nil || l.Properties == nil || l.Properties.Part == nil || l.Properties.SessionID != killedMain {
			continue
		}
		if line, ok := headlessLine(t, l); ok {
			lines = append(lines, traffic.Record{Dir: event.DirOut, Line: line})
		}
	}
	live := recorded.Live(t, lines)
	restored := recorded.Parsed(t, memory("x", replay.ReadFile(t, killedExport)))
	last := len(restored.Blocks) - 1
	require.Equal(t, restored.Blocks[last].ID, live.Blocks[len(live.Blocks)-1].ID)
}

const killedMain = "ses_00ab00ab00abChosen00000001"

// headlessLine returns the headless mode's line for a whole part.
func headlessLine(t *testing.T, l *line) (string, bool) {
	p := l.Properties.Part
	kind := map[string]string{"step-start": "step_start", "step-finish": "step_finish", "text": "text"}[p.Type]
	if kind == "" || p.Type == "text" && p.Time.End == 0 {
		return "", false
	}
	return `{"type":"` + kind + `","sessionID":"` + killedMain + `","part":` + replay.JSON(t, map[string]any{
		"id": p.ID, "messageID": p.MessageID, "sessionID": killedMain, "type": p.Type, "text": p.Text, "reason": p.Reason,
		"time": map[string]any{"start": p.Time.Start, "end": p.Time.End}}) + `}`, true
}
