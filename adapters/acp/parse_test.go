package acp

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// said writes records: lines that begin with > are for the agent.
func said(lines ...string) []traffic.Record {
	var out []traffic.Record
	for i, line := range lines {
		r := traffic.Record{TS: time.Unix(int64(i), 0).UTC(), Dir: event.DirOut, Line: line}
		switch {
		case strings.HasPrefix(line, "> "):
			r.Dir, r.Line = event.DirIn, line[2:]
		case strings.HasPrefix(line, "! "):
			r.Dir, r.Line = event.DirSig, line[2:]
		}
		out = append(out, r)
	}
	return out
}

func update(body string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":` + body + `}}`
}

func words(text string) string {
	return update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}`)
}

func opening(id, session string) []string {
	return []string{
		`> {"jsonrpc":"2.0","id":"` + id + `","method":"initialize","params":{}}`,
		`{"jsonrpc":"2.0","id":"` + id + `","result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}`,
		`> {"jsonrpc":"2.0","id":"` + id + `/session","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`,
		`{"jsonrpc":"2.0","id":"` + id + `/session","result":{"sessionId":"` + session + `"}}`,
	}
}

func prompt(id, text string) string {
	return fmt.Sprintf(`> {"jsonrpc":"2.0","id":%q,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":%q}]}}`, id, text)
}

func done(id, reason string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"stopReason":%q}}`, id, reason)
}

func join(parts ...[]string) []string {
	var out []string
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func shows(s reducer.State) string {
	var out []string
	for _, b := range s.Blocks {
		line := string(b.Type) + " " + b.ID + " " + string(b.Status)
		if b.Content != nil {
			line += " " + *b.Content
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func equal(t *testing.T, records []traffic.Record) reducer.State {
	t.Helper()
	live, restored := bothSides(t, records)
	replay.Same(t, live, restored, parity.Rules{})
	return restored
}

// What was emitted before a turn was cancelled is kept; what a kill cut off is
// not, and the next process continues.
func TestCutShort(t *testing.T) {
	t.Parallel()
	records := said(join(opening("i0", "s1"), []string{
		prompt("p1", "one"), words("whole"), done("p1", "end_turn"),
		prompt("p2", "two"), words("half"),
		`> {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`, done("p2", "cancelled"),
		prompt("p3", "three"), words("torn"),
		update(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"ls","kind":"execute","rawInput":{"command":"ls"}}`),
		"! signal killed",
	}, opening("i1", "s1"), []string{prompt("p4", "four"), words("well"), done("p4", "end_turn")})...)
	require.Equal(t, strings.Join([]string{
		"user_message p1 complete one", "assistant_text p1:text:0 complete whole",
		"user_message p2 complete two", "assistant_text p2:text:0 complete half",
		"user_message p3 complete three", "assistant_text p3:text:0 complete torn",
		"user_message p4 complete four", "assistant_text p4:text:0 complete well",
	}, "\n"), shows(equal(t, records)), "the text was whole when the call began; the call was cut off")
}

// A session that can't be continued is replaced, and a block says so, with the
// agent's name and its error.
func TestReplacedSessionIsSaid(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]string{
		"no loading":   `{}`,
		"load fails":   `{"loadSession":true}`,
		"resume fails": `{"loadSession":true,"sessionCapabilities":{"resume":{}}}`,
	} {
		launch := adapters.Launch{Workspace: "/w", NativeID: "old", Resume: true}
		tr, err := New().Translator(launch, nil)
		require.NoError(t, err)
		var records []traffic.Record
		step := func(dir event.Dir, line string) {
			r := traffic.Record{Dir: dir, Line: line}
			records = append(records, r)
			tr.Step(r)
		}
		first, err := tr.Encode("i0", adapters.Initialize{})
		require.NoError(t, err)
		step(event.DirIn, string(first[0].Data))
		step(event.DirOut, `{"jsonrpc":"2.0","id":"i0","result":{"protocolVersion":1,"agentCapabilities":`+agent+`}}`)
		for due := tr.Due(); len(due) > 0; due = tr.Due() {
			require.Len(t, due, 1, name)
			step(event.DirIn, string(due[0].Data))
			if strings.Contains(string(due[0].Data), `"session/new"`) {
				step(event.DirOut, `{"jsonrpc":"2.0","id":"`+due[0].ID+`","result":{"sessionId":"new"}}`)
			} else {
				step(event.DirOut, `{"jsonrpc":"2.0","id":"`+due[0].ID+`","error":{"code":-32602,"message":"no such session"}}`)
			}
		}
		s := equal(t, records)
		require.Len(t, s.Blocks, 1, name)
		require.Equal(t, "session_lost", s.Blocks[0].Subtype)
		require.Contains(t, *s.Blocks[0].Message, "does not remember")
	}
}

// A session that was started elsewhere is given up when its first prompt fails,
// and only then.
func TestSessionThatDoesNotWorkElsewhere(t *testing.T) {
	t.Parallel()
	fails := `{"jsonrpc":"2.0","id":"p1","error":{"code":-32603,"message":"no such folder"}}`
	for _, c := range []struct {
		name  string
		lines []string
		due   int
	}{
		{"at once", []string{prompt("p1", "x"), fails}, 1},
		{"after it has worked", []string{prompt("p0", "x"), done("p0", "end_turn"), prompt("p1", "x"), fails}, 0},
	} {
		tr, err := New().Translator(adapters.Launch{NativeID: "s1", Resume: true}, nil)
		require.NoError(t, err)
		lines := opening("i0", "s1")
		lines[2] = `> {"jsonrpc":"2.0","id":"i0/session","method":"session/load","params":{"sessionId":"s1","cwd":"/w","mcpServers":[]}}`
		for _, r := range said(join(lines, c.lines)...) {
			tr.Step(r)
		}
		due := tr.Due()
		require.Len(t, due, c.due, c.name)
		if c.due > 0 {
			require.Contains(t, string(due[0].Data), `"sojourn.replaces":"s1"`)
			_, err = tr.Encode("p2", adapters.Prompt{Text: "y"})
			require.ErrorIs(t, err, adapters.ErrNotYet)
		}
	}
}

// The model of the launch is set once, in the way that the agent supports.
func TestLaunchModel(t *testing.T) {
	t.Parallel()
	for method, answer := range map[string]string{
		"session/set_model":         `{"sessionId":"s1","models":{"currentModelId":"small"}}`,
		"session/set_config_option": `{"sessionId":"s1","configOptions":[{"id":"m","category":"model","currentValue":"small"}]}`,
	} {
		tr, err := New().Translator(adapters.Launch{Model: "large"}, nil)
		require.NoError(t, err)
		lines := opening("i0", "s1")
		lines[3] = `{"jsonrpc":"2.0","id":"i0/session","result":` + answer + `}`
		for _, r := range said(lines...) {
			tr.Step(r)
		}
		due := tr.Due()
		require.Len(t, due, 1)
		require.Contains(t, string(due[0].Data), method)
		require.Contains(t, string(due[0].Data), `"large"`)
		tr.Step(traffic.Record{Dir: event.DirIn, Line: string(due[0].Data)})
		events := tr.Step(traffic.Record{Dir: event.DirOut, Line: `{"jsonrpc":"2.0","id":"` + due[0].ID + `","result":{}}`})
		require.Equal(t, "large", events[len(events)-1].Payload.(event.MetadataUpdate).Model)
		state, err := tr.State()
		require.NoError(t, err)
		later, err := New().Translator(adapters.Launch{Model: "large"}, state)
		require.NoError(t, err)
		require.Empty(t, later.Due())
	}
}

// A cost that is reported as a sum is passed on as the increment.
func TestCostOnTop(t *testing.T) {
	t.Parallel()
	cost := func(amount string) string {
		return update(`{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":` + amount + `,"currency":"USD"}}`)
	}
	tr, err := New().Translator(adapters.Launch{}, nil)
	require.NoError(t, err)
	var got []float64
	for _, r := range said(join(opening("i0", "s1"), []string{prompt("p1", "x"), cost("0.5"), cost("0.75"), cost("0.25")})...) {
		for _, e := range tr.Step(r) {
			if m, ok := e.Payload.(event.MetadataUpdate); ok && m.CostUSD != nil {
				got = append(got, *m.CostUSD)
			}
		}
	}
	require.Equal(t, []float64{0.5, 0.25, 0.25}, got)
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	spoken := kept(said(join(opening("i0", "s1"), []string{prompt("p1", "x"), words("y")})...))
	silent := kept(said(opening("i1", "s2")...))
	for _, c := range []struct{ name, file, head, want string }{
		{"nothing", "", "", ""},
		{"spoken", spoken, "", "s1"},
		{"asked about the protocol", kept(said(join(opening("i0", "s1"), []string{prompt("p1", "session/update?")})...)), "", "s1"},
		{"silent", silent, "", ""},
		{"spoken, then one that nobody spoke in", spoken + silent, silent, "s1"},
		{"by the head", "not read\n", spoken, "s1"},
		{"torn", spoken + `{"dir":"out","li`, "", "s1"},
		{"nonsense", "x\n{}\n", "\n", ""},
	} {
		h := house{t, t.TempDir()}
		for name, text := range map[string]string{recordFile: c.file, headFile: c.head} {
			if text != "" {
				h.put(name, []byte(text))
			}
		}
		found, err := New().Prepare(h.home(), adapters.Launch{})
		require.NoError(t, err, c.name)
		require.Equal(t, adapters.Preparation{NativeID: c.want}, found, c.name)
	}
}

// A broken line costs that line, and the error names its position.
func TestParseBadInput(t *testing.T) {
	t.Parallel()
	good := kept(said(join(opening("i0", "s1"), []string{prompt("p1", "one"), words("good"), done("p1", "end_turn")})...))
	lines := strings.SplitAfter(good, "\n")
	for name, c := range map[string]struct{ text, fault string }{
		"in the middle":   {lines[0] + "{broken\n" + strings.Join(lines[1:], ""), "line 2"},
		"cut at the end":  {good + `{"dir":"out","line":"x`, "line 8"},
		"another's":       {good + `{"type":"user","uuid":"u"}` + "\n", "line 8"},
		"no such way":     {good + `{"dir":"up","line":"x"}` + "\n", "line 8"},
		"latin 1":         {good + "\xe4\xf6\n", "line 8"},
		"nothing":         {"", ""},
		"only line ends":  {"\n\n", ""},
		"without its end": {strings.TrimSuffix(good, "\n"), ""},
	} {
		var faults []string
		b := reducer.NewBuilder(reducer.State{})
		for e, err := range New().Parse([]adapters.Source{memory(event.Main, c.text)}) {
			if err != nil {
				faults = append(faults, err.Error())
				continue
			}
			b.Add(e)
		}
		if c.fault == "" {
			require.Empty(t, faults, name)
		} else {
			require.Len(t, faults, 1, name)
			require.Contains(t, faults[0], c.fault, name)
			require.Contains(t, faults[0], recordFile, name)
		}
		if strings.TrimSpace(c.text) != "" {
			require.Equal(t, "user_message p1 complete one\nassistant_text p1:text:0 complete good", shows(b.State()), name)
		}
	}
}

// The program's own files are not part of the conversation.
func TestParseLeavesFilesAlone(t *testing.T) {
	t.Parallel()
	for range New().Parse([]adapters.Source{source([]byte("nonsense"))}) {
		break // a caller may stop
	}
	s, err := reducer.Fold(New().Parse([]adapters.Source{source([]byte("nonsense"))}))
	require.NoError(t, err)
	require.Empty(t, s.Blocks)
}

func FuzzParse(f *testing.F) {
	f.Add(kept(said(join(opening("i0", "s1"), []string{prompt("p1", "one"), words("good"), done("p1", "end_turn")})...)))
	f.Fuzz(func(t *testing.T, text string) {
		for e, err := range New().Parse([]adapters.Source{memory(event.Main, text)}) {
			if err == nil {
				_, err = event.AppendEvent(nil, e)
				require.NoError(t, err)
				_, delta := e.Payload.(event.BlockDelta)
				require.False(t, delta, "parsing gives whole blocks")
			}
		}
	})
}

func FuzzTranslate(f *testing.F) {
	for _, r := range said(join(opening("i0", "s1"), []string{prompt("p1", "one"), words("good"), done("p1", "end_turn")})...) {
		f.Add(string(r.Dir), r.Line)
	}
	f.Fuzz(func(t *testing.T, dir, line string) {
		tr, err := New().Translator(adapters.Launch{}, nil)
		require.NoError(t, err)
		for _, r := range append(said(join(opening("i0", "s1"), []string{prompt("p1", "one")})...), traffic.Record{Dir: event.Dir(dir), Line: line}) {
			tr.Step(r)
		}
		state, err := tr.State()
		require.NoError(t, err)
		_, err = New().Translator(adapters.Launch{}, state)
		require.NoError(t, err)
	})
}

// mixedTurn is a turn as a real program sends it: most of it text with the
// message's name, and tool calls in several pieces. Repeating one plain chunk
// would measure only the fast path that reads those without the decoder.
func mixedTurn(n int) []string {
	id := fmt.Sprintf("p%d", n)
	lines := []string{prompt(id, "go on")}
	for call := range 3 {
		for range 12 {
			lines = append(lines, update(fmt.Sprintf(
				`{"sessionUpdate":"agent_message_chunk","messageId":"msg_%d_%d","content":{"type":"text","text":"hello wonderful "}}`, n, call)))
		}
		tool := fmt.Sprintf(`"toolCallId":"call_%d_%d","kind":"execute","title":"ls -l","locations":[{"path":"/w"}]`, n, call)
		lines = append(lines,
			update(`{"sessionUpdate":"tool_call","status":"pending",`+tool+`,"rawInput":{}}`),
			update(`{"sessionUpdate":"tool_call_update","status":"in_progress",`+tool+`,"rawInput":{"command":"ls -l","cwd":"/w"}}`),
			update(`{"sessionUpdate":"tool_call_update","status":"completed",`+tool+
				`,"content":[{"type":"content","content":{"type":"text","text":"total 0\n"}}],"rawOutput":{"output":"total 0\n"}}`))
	}
	return append(lines, done(id, "end_turn"))
}

func BenchmarkTranslate(b *testing.B) {
	turn := said(mixedTurn(0)...)
	recorded.BenchmarkTranslate(b, func(turns int) iter.Seq[traffic.Record] {
		return slices.Values(append(said(opening("i0", "s1")...), slices.Repeat(turn, turns)...))
	}, func(int) []traffic.Record { return turn })
}

func BenchmarkParse(b *testing.B) {
	recorded.BenchmarkParse(b, []int{1, 8}, func(size int) (adapters.Source, int) {
		var text strings.Builder
		text.WriteString(kept(said(opening("i0", "s1")...)))
		for n := 0; text.Len() < size; n++ {
			text.WriteString(kept(said(mixedTurn(n)...)))
		}
		return memory(event.Main, text.String()), text.Len()
	})
}
