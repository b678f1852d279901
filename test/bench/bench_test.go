package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/synth"
)

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var s sample
	for i := 100; i >= 1; i-- {
		s = append(s, time.Duration(i))
	}
	require.Equal(t, time.Duration(50), s.at(0.50))
	require.Equal(t, time.Duration(99), s.at(0.99))
	require.Equal(t, time.Duration(100), s.at(1))
	require.Equal(t, time.Duration(1), s.at(0))
	require.Zero(t, sample(nil).at(0.5))
	all := []sample{{3, 4, 5}, {1, 2, 9}}
	require.Equal(t, time.Duration(2), lowest(all, 0.5))
	require.Equal(t, time.Duration(5), lowest(all, 1))
}

func TestCPUTimeOfAnyName(t *testing.T) {
	t.Parallel()
	const numbers = " S 1 2 3 4 5 6 7 8 9 10 150 50 30 20 20 0 1 0 12345"
	for _, name := range []string{"(claude)", "(a b)", "(x) S 1 (y)"} {
		used, err := cpuTime([]byte("42 " + name + numbers))
		require.NoError(t, err, name)
		require.Equal(t, 2500*time.Millisecond, used, name)
	}
	for _, broken := range []string{"", "42", "42 (x) S 1 2", "42 (x) S 1 2 3 4 5 6 7 8 9 10 a b c d e"} {
		_, err := cpuTime([]byte(broken))
		require.Error(t, err, broken)
	}
}

func TestTableSaysWhatWasPromised(t *testing.T) {
	t.Parallel()
	r := Report{Figures: []Figure{
		Figure{Name: "quick", Value: 0.0015, Unit: "s"}.over(0.001, "nothing").wants("< 2 ms", true),
		Figure{Name: "fat", Value: 200e6, Unit: "bytes"}.wants("< 150 MB", false).noted("too %s", "much"),
		{Name: "shown", Value: 12.5e6, Unit: "deltas/s"},
	}}
	var table bytes.Buffer
	require.NoError(t, write(&table, r, false))
	var rows [][]string
	for line := range strings.Lines(table.String()) {
		rows = append(rows, strings.Fields(line))
	}
	require.Contains(t, rows, strings.Fields("quick 1.50 ms 1.00 ms 1.50 < 2 ms yes"))
	require.Contains(t, rows, strings.Fields("fat 200 MB < 150 MB no"))
	require.Contains(t, rows, strings.Fields("shown 12.5 M/s"))
	require.Contains(t, table.String(), "quick: floor: nothing\n")
	require.Contains(t, table.String(), "fat: too much\n")

	var asJSON bytes.Buffer
	require.NoError(t, write(&asJSON, r, true))
	var back Report
	require.NoError(t, json.Unmarshal(asJSON.Bytes(), &back))
	require.Equal(t, r, back)
}

func TestChoiceOfParts(t *testing.T) {
	t.Parallel()
	all, err := choose("")
	require.NoError(t, err)
	require.Len(t, all, len(parts()))
	some, err := choose("send,reducer")
	require.NoError(t, err)
	require.Equal(t, []string{"reducer", "send"}, names(some))
	_, err = choose("send,nothing")
	require.ErrorContains(t, err, "the parts are")
}

// Claude's adapter must understand the paced agent whole: each delta arrives, the turn
// ends, no event is native, and what was said is in the transcript under the same ids.
func TestPacedAgentSpeaksClaude(t *testing.T) {
	t.Parallel()
	tr, err := claude.New().Translator(adapters.Launch{NativeID: "n1"}, nil)
	require.NoError(t, err)
	opening, prompt := encoded(t, tr, adapters.Initialize{}), encoded(t, tr, adapters.Prompt{MessageID: "m1", Text: "PACE 3 1us"})
	var out bytes.Buffer
	in := strings.NewReader(opening + "\n" + prompt + "\n")
	agent := paced{out: &out, transcript: filepath.Join(t.TempDir(), "projects", "p", "n1.jsonl")}
	require.NoError(t, agent.serve(in))

	tr.Step(traffic.Record{Dir: event.DirIn, Line: opening})
	events := tr.Step(traffic.Record{Dir: event.DirIn, Line: prompt})
	for line := range strings.Lines(out.String()) {
		events = append(events, tr.Step(traffic.Record{Dir: event.DirOut, Line: strings.TrimSuffix(line, "\n")})...)
	}
	var stamps []time.Duration
	var idle int
	var live reducer.Builder
	for _, ev := range events {
		live.Add(ev)
		switch p := ev.Payload.(type) {
		case event.BlockDelta:
			at, err := readStamp(p.Delta)
			require.NoError(t, err)
			stamps = append(stamps, at)
		case event.SessionIdle:
			idle++
		case event.Native, event.Unknown:
			t.Errorf("not understood: %#v", p)
		}
	}
	require.Len(t, stamps, 4, "the prompt's stamp and three")
	require.IsIncreasing(t, stamps)
	require.Equal(t, 1, idle)
	restored, err := parseAndFold(agent.transcript, nil)
	require.NoError(t, err)
	require.Len(t, saidIn(restored), 2, "the prompt and the answer")
	require.Equal(t, saidIn(live.State()), saidIn(restored))
}

// saidIn returns the conversation's texts by their blocks' ids.
func saidIn(s reducer.State) map[string]string {
	said := map[string]string{}
	for _, b := range s.Blocks {
		if b.Content != nil {
			said[b.ID] = *b.Content
		}
	}
	return said
}

func encoded(t *testing.T, tr adapters.Translator, in adapters.Input) string {
	t.Helper()
	messages, err := tr.Encode("r1", in)
	require.NoError(t, err)
	require.Len(t, messages, 1)
	return string(messages[0].Data)
}

// Both sides of the parse part must produce the same conversation, except for the
// blocks that only one of the two creates.
func TestParsePartParses(t *testing.T) {
	t.Parallel()
	_, path, err := transcriptOf(t.TempDir(), 1)
	require.NoError(t, err)
	ours, err := parseAndFold(path, nil)
	require.NoError(t, err)
	theirs, err := naiveParse(path)
	require.NoError(t, err)
	var text, naiveText []string
	for _, b := range ours.Blocks {
		if b.Type == event.BlockAssistantText {
			text = append(text, *b.Content)
		}
	}
	for _, b := range theirs {
		if b["type"] == "assistant_text" {
			naiveText = append(naiveText, b["content"].(string))
		}
	}
	require.NotEmpty(t, text)
	require.Equal(t, naiveText, text)
	require.NoError(t, parseOnly(path))
	require.NoError(t, naiveTranslate(synth.Records(1)))
}

func TestPacedAgentRefusesOtherPrompts(t *testing.T) {
	t.Parallel()
	var out, complaints bytes.Buffer
	in := strings.NewReader(`{"type":"user","message":{"content":[{"type":"text","text":"hello"}]}}` + "\n")
	require.Equal(t, 1, pacedMain(nil, in, &out, &complaints))
	require.Contains(t, complaints.String(), `"hello" is not PACE`)
}

// The deltas that the reducer part times must really be folded.
func TestReducerPartFolds(t *testing.T) {
	t.Parallel()
	deltas, err := decodedDeltas(3)
	require.NoError(t, err)
	for _, n := range []int{1, 5} {
		state := conversationOf(n)
		require.Len(t, state.Blocks, n)
		for _, e := range deltas {
			state = reducer.Reduce(state, e)
		}
		require.Equal(t, "some text to begin withword 0 of it, word 1 of it, word 2 of it, ", *state.Blocks[n-1].Content)
	}
}

// A late turn is compared with an early one, and only Sojourn's own part has a target.
func TestTurnsAreCompared(t *testing.T) {
	t.Parallel()
	early := turnCosts{{read: 100, requests: 4, cpu: 1, took: 3, agent: 1}, {read: 300, requests: 6, cpu: 1, took: 3, agent: 1}}
	late := turnCosts{
		{read: 230, requests: 5, cpu: 1, took: 6, agent: 4}, {read: 230, requests: 5, cpu: 1, took: 6, agent: 4},
		{read: 2300, requests: 8, cpu: 1, took: 60, agent: 4},
	}
	var ratios []float64
	var met []bool
	for _, f := range (comparison{early, late}).over("a", 1000) {
		ratios = append(ratios, *f.Ratio)
		if f.Met != nil {
			met = append(met, *f.Met)
		}
	}
	require.InDeltaSlice(t, []float64{1.15, 1.2, 1, 1, 2}, ratios, 1e-9)
	require.Equal(t, []bool{true, false, true, true}, met)
}

func TestLateTurnsAreInOrder(t *testing.T) {
	t.Parallel()
	late, err := parseLate("1000,2000")
	require.NoError(t, err)
	require.Equal(t, []int{1000, 2000}, late)
	for list, want := range map[string]string{
		"20":        `--late 20: "20" must be a number above 20`,
		"1000,1100": `--late 1000,1100: "1100" must be a number above 1160`,
		"1000,":     `--late 1000,: "" must be a number above 1160`,
		"x":         `--late x: "x" must be a number above 20`,
	} {
		_, err := parseLate(list)
		require.EqualError(t, err, want)
	}
}

func TestRequestsAreCountedBySession(t *testing.T) {
	t.Parallel()
	var hosts []string
	store := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hosts = append(hosts, r.Host) }))
	defer store.Close()
	c, err := countRequests(store.URL)
	require.NoError(t, err)
	defer c.stop()
	for _, path := range []string{"/b/p/sessions/s1/head.json", "/b?list-type=2&prefix=p%2Fsessions%2Fs1%2F", "/b/p/sessions/s2/x", "/b/p/by-closed/s1"} {
		res, err := http.Get(c.url + path)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	require.Equal(t, []int{2, 1, 0}, []int{c.of("s1"), c.of("s2"), c.of("s")})
	require.Len(t, hosts, 4)
	require.NotContains(t, hosts, strings.TrimPrefix(store.URL, "http://"), "the signed host is kept")
}

func TestUsageGrows(t *testing.T) {
	t.Parallel()
	before, err := usageOf(os.Getpid())
	require.NoError(t, err)
	_, err = os.ReadFile("bench_test.go")
	require.NoError(t, err)
	after, err := usageOf(os.Getpid())
	require.NoError(t, err)
	require.GreaterOrEqual(t, after.read-before.read, 1000.0)
	require.Greater(t, after.cpu, before.cpu)
	_, err = usageOf(-1)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
