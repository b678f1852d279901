package gemini

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/replay"
	"github.com/sojourn-run/sojourn/test/skip"
)

func launch() adapters.Launch {
	return adapters.Launch{Program: "/opt/gemini", Home: "/home/agent", Workspace: "/work/My_Space", SessionID: "s1"}
}

func writeHome(t *testing.T, files map[string]string) adapters.DirHome {
	t.Helper()
	dir := t.TempDir()
	putFiles(t, dir, files)
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	return home
}

func putFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
}

// prepare returns what Prepare finds, without the notes, which ours_test.go has.
func prepare(t *testing.T, home adapters.Home) adapters.Preparation {
	t.Helper()
	found, err := New().Prepare(home, launch())
	require.NoError(t, err)
	return withoutNotes(found)
}

func withoutNotes(found adapters.Preparation) adapters.Preparation {
	if found.Write = slices.DeleteFunc(found.Write, func(w adapters.Repair) bool { return w.Path == notesFile }); len(found.Write) == 0 {
		found.Write = nil
	}
	return found
}

// contextText is the agent's own first message, as it is in a file.
const contextText = `<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\nx</session_context>`

// chatText returns a chat file with one prompt and its answer.
func chatText(id, started, prompt string) string {
	return `{"sessionId":"` + id + `","projectHash":"h","startTime":"` + started + `","kind":"main"}` + "\n" +
		`{"$set":{"messages":[{"id":"c","type":"user","content":[{"text":"` + contextText + `"}]}]}}` + "\n" +
		`{"id":"u-` + prompt + `","timestamp":"` + started + `","type":"user","content":[{"text":"` + prompt + `"}]}` + "\n" +
		`{"id":"g-` + prompt + `","timestamp":"` + started + `","type":"gemini","content":"yes"}` + "\n"
}

// stubText returns what the agent leaves of a process without a prompt.
func stubText(id, started string) string {
	return strings.Join(strings.SplitAfter(chatText(id, started, ""), "\n")[:2], "")
}

const (
	idA     = "aaaaaaaa-0000-4000-8000-000000000001"
	idB     = "bbbbbbbb-0000-4000-8000-000000000002"
	dayOne  = "2026-01-01T10:00:30.000Z"
	dayTwo  = "2026-01-02T10:00:30.000Z"
	chatDir = ".gemini/tmp/my-space/chats/"
)

// Transcripts are at (home)/.gemini/tmp/<workspace>/chats, a file for the session
// and one for each subagent, and a .json of older versions too.
func TestR91GeminiAdapter(t *testing.T) {
	t.Parallel()
	home := writeHome(t, map[string]string{
		chatDir + "session-2026-01-02T10-00-bbbbbbbb.jsonl": chatText(idB, dayTwo, "two"),
		chatDir + "session-2026-01-01T10-00-aaaaaaaa.jsonl": chatText(idA, dayOne, "one"),
		chatDir + "session-2026-01-01T10-07-aaaaaaaa.jsonl": stubText(idA, dayTwo),
		chatDir + idA + "/sub1.jsonl":                       chatText("sub1", dayOne, "dig"),
		chatDir + "sub1/sub2.jsonl":                         chatText("sub2", dayOne, "deeper"),
		chatDir + "notes.txt":                               "",
	})
	found, err := New().Transcripts(home, launch())
	require.NoError(t, err)
	require.Equal(t, []adapters.Transcript{
		{ID: event.Main, Path: chatDir + "session-2026-01-01T10-00-aaaaaaaa.jsonl", Kind: adapters.Append},
		{ID: "sub1", Path: chatDir + idA + "/sub1.jsonl", Kind: adapters.Append},
		{ID: "sub2", Path: chatDir + "sub1/sub2.jsonl", Kind: adapters.Append},
		{ID: "main.2", Path: chatDir + "session-2026-01-02T10-00-bbbbbbbb.jsonl", Kind: adapters.Append},
	}, found, "what was begun anew follows, and what nobody asked anything in is none")

	old := memory(event.Main, "{\n \"sessionId\": \""+idA+"\", \"projectHash\": \"h\", \"startTime\": \""+dayOne+"\",\n"+
		` "messages": [{"id":"u","type":"user","content":"hi"},{"id":"g","type":"gemini","content":"yo"}]`+"\n}")
	old.Path = "session-2025-01-01T00-00-aaaaaaaa.json"
	state, err := reducer.Fold(New().Parse([]adapters.Source{old}))
	require.NoError(t, err)
	require.Len(t, state.Blocks, 2)
	require.Equal(t, "yo", *state.Blocks[1].Content)
}

// TestR53ThinkingHasASummary: the content of a thought streams, and the agent's
// heading of it is the block's summary, live and restored.
func TestR53ThinkingHasASummary(t *testing.T) {
	t.Parallel()
	const story = "thinking"
	var live reducer.Builder
	streamed := ""
	for _, ev := range recorded.Told(t, story) {
		live.Add(ev)
		if d, is := ev.Payload.(event.BlockDelta); is && strings.HasSuffix(d.BlockID, ":1:thought:0") {
			streamed += d.Delta
		}
	}
	restored, err := reducer.Fold(New().Parse(recorded.StorySources(replay.ReadStory(t, story))))
	require.NoError(t, err)
	for side, state := range map[string]reducer.State{"live": live.State(), "restored": restored} {
		require.Equal(t, event.BlockThinking, state.Blocks[1].Type, side)
		require.Equal(t, streamed, *state.Blocks[1].Content, side)
		require.Contains(t, streamed, "this")
		require.NotNil(t, state.Blocks[1].Summary, side)
		require.Equal(t, "Considering", *state.Blocks[1].Summary, side)
	}
}

// The home determines which native session is continued: the newest that the
// agent can load, and none if it could load none.
func TestR93NewOrResume(t *testing.T) {
	t.Parallel()
	a := New()
	none := prepare(t, writeHome(t, nil))
	require.Empty(t, none)
	stub := prepare(t, writeHome(t, map[string]string{chatDir + "session-2026-01-01T10-00-aaaaaaaa.jsonl": stubText(idA, dayOne)}))
	require.Empty(t, stub, "the agent does not load a session in which nothing was said")

	found, err := a.Prepare(writeHome(t, map[string]string{
		chatDir + "session-2026-01-01T10-00-aaaaaaaa.jsonl": chatText(idA, dayOne, "one"),
		chatDir + "session-2026-01-02T10-00-bbbbbbbb.jsonl": chatText(idB, dayTwo, "two"),
	}), launch())
	require.NoError(t, err)
	require.Equal(t, idB, found.NativeID)
	require.Equal(t, 1, found.Prompts)

	tr, err := a.Translator(adapters.Launch{Resume: true, NativeID: idB, Workspace: "/w"}, nil)
	require.NoError(t, err)
	for _, r := range openingRecords()[:2] {
		tr.Step(r)
	}
	require.Contains(t, string(tr.Due()[0].Data), `"method":"session/load"`)
	tr, err = a.Translator(adapters.Launch{Workspace: "/w"}, nil)
	require.NoError(t, err)
	for _, r := range openingRecords()[:2] {
		tr.Step(r)
	}
	require.Contains(t, string(tr.Due()[0].Data), `"method":"session/new"`)
}

// A profile becomes GEMINI.md, rules, skills, agents, commands and MCP servers
// in the agent's own folder.
func TestR96ProfileFiles(t *testing.T) {
	t.Parallel()
	l := launch()
	l.SystemPrompt = "and be short"
	files, err := New().ProfileFiles(adapters.Profile{
		Instructions: "be kind", Rules: map[string]string{"go/style": "short"},
		Skills:    map[string]map[string]string{"s": {"SKILL.md": "skill", "lib/x.py": "pass"}},
		Subagents: map[string]string{"reviewer": "review"},
		Commands:  map[string]string{"fix": "---\ndescription: \"mends \\\"it\\\"\"\n---\nfix $ARGUMENTS\nnow"},
		MCPServers: map[string]adapters.MCPServer{
			"web": {URL: "https://example.com", Headers: map[string]string{"A": "b"}}, "cmd": {Command: "x", Args: []string{"y"}}},
		BundledMCP: map[string]adapters.BundledMCP{"kit": {Files: map[string]string{"main.js": "js"}, Start: []string{"node", "main.js"}}},
		Workspace:  map[string]string{"doc/a.md": "a"},
	}, l)
	require.NoError(t, err)
	got := map[string]string{}
	for _, f := range files {
		got[string(f.Base)+":"+f.Path] = string(f.Data)
	}
	for path, text := range map[string]string{
		"home:.gemini/GEMINI.md": "be kind\n\n@./rules/go/style.md\n", "home:.gemini/rules/go/style.md": "short",
		"home:.gemini/skills/s/SKILL.md": "skill", "home:.gemini/skills/s/lib/x.py": "pass",
		"home:.gemini/agents/reviewer.md": "review", "home:.gemini/SOJOURN.md": "and be short\n",
		"home:.gemini/commands/fix.toml": "description = \"mends \\\"it\\\"\"\nprompt = \"fix {{args}}\\nnow\"\n",
		"home:.sojourn/mcp/kit/main.js":  "js", "workspace:doc/a.md": "a",
	} {
		require.Equal(t, text, got[path], path)
	}
	var s struct {
		MCPServers map[string]mcpServer
		Telemetry  struct{ Enabled bool }
		General    struct {
			EnableAutoUpdate bool
			SessionRetention struct{ Enabled bool }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got["home:.gemini/settings.json"]), &s))
	require.Equal(t, map[string]mcpServer{
		"web": {HTTPURL: "https://example.com", Headers: map[string]string{"A": "b"}},
		"cmd": {Command: "x", Args: []string{"y"}},
		"kit": {Command: "/bin/sh", Args: []string{"-c", `cd "$0" && exec "$@"`, "/home/agent/.sojourn/mcp/kit", "node", "main.js"}},
	}, s.MCPServers)
	require.False(t, s.Telemetry.Enabled || s.General.EnableAutoUpdate || s.General.SessionRetention.Enabled)
}

// Unsafe paths of a profile are refused, with the field.
func TestR97ProfilePathsAreSafe(t *testing.T) {
	t.Parallel()
	for field, p := range map[string]adapters.Profile{
		"field rules":       {Rules: map[string]string{"../../x": ""}},
		"field subagents":   {Subagents: map[string]string{"/etc/x": ""}},
		"field commands":    {Commands: map[string]string{`a\b`: ""}},
		"field workspace":   {Workspace: map[string]string{"a/./b": ""}},
		`skills[".."]`:      {Skills: map[string]map[string]string{"..": {"SKILL.md": ""}}},
		`bundledMcp["a/b"]`: {BundledMCP: map[string]adapters.BundledMCP{"a/b": {Start: []string{"x"}}}},
		"command or url":    {MCPServers: map[string]adapters.MCPServer{"m": {}}},
	} {
		_, err := New().ProfileFiles(p, launch())
		require.ErrorContains(t, err, field)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	l := launch()
	l.Model, l.Env = "gemini-2.5-pro", map[string]string{"NO_BROWSER": "maybe", "HOME": "/root"}
	c, err := New().Command(l)
	require.NoError(t, err)
	require.Equal(t, []string{"/opt/gemini", "--acp", "--skip-trust", "--yolo", "--model", "gemini-2.5-pro"}, c.Argv)
	require.Equal(t, "/home/agent", c.Env["HOME"])
	require.Equal(t, "true", c.Env["GEMINI_CLI_NO_RELAUNCH"])
	require.Equal(t, "maybe", c.Env["NO_BROWSER"], "what the user sets stays")
	l.Permission = adapters.PermissionAsk
	c, err = New().Command(l)
	require.NoError(t, err)
	require.Equal(t, []string{
		"/opt/gemini", "--acp", "--skip-trust", "--approval-mode=default", "--admin-policy=/home/agent/.gemini/ask.toml",
		"--allowed-mcp-server-names=" + l.SessionID, "--model", "gemini-2.5-pro",
	}, c.Argv)
	require.Contains(t, c.Env, "GOOGLE_GEMINI_BASE_URL", "the workspace's .env sets what is not set")
	l.MCPServers = map[string]adapters.MCPServer{"b": {}, "a": {}}
	c, err = New().Command(l)
	require.NoError(t, err)
	require.Contains(t, c.Argv, "--allowed-mcp-server-names=a,b")
	l.Permission = "maybe"
	_, err = New().Command(l)
	require.ErrorContains(t, err, "permission")
	_, err = New().Command(adapters.Launch{})
	require.Error(t, err)
}

func TestLocate(t *testing.T) {
	t.Parallel()
	_, err := New().Locate(func(string) string { return "" })
	require.ErrorIs(t, err, adapters.ErrNotInstalled)
	require.ErrorContains(t, err, "npm install")
}

// A session to be continued is moved to a name that no process writes to: the
// agent would empty a session that it loads in the minute of its start.
func TestPrepareLeavesTheMinuteOfBirth(t *testing.T) {
	t.Parallel()
	born := chatDir + "session-2026-01-01T10-00-aaaaaaaa.jsonl"
	rests := chatDir + "session-2000-01-01T00-00-aaaaaaaa.jsonl"
	text := chatText(idA, dayOne, "one")
	found := prepare(t, writeHome(t, map[string]string{born: text}))
	require.Equal(t, adapters.Preparation{
		NativeID: idA, Prompts: 1, Move: []adapters.Move{{From: born, To: rests}},
	}, found, "moved, not copied: who looks in between finds the session once")
	require.Equal(t, rests, New().Place(adapters.Transcript{ID: event.Main, Path: born}, launch()),
		"a transcript from the archive rests too")

	again := prepare(t, writeHome(t, map[string]string{rests: text}))
	require.Equal(t, adapters.Preparation{NativeID: idA, Prompts: 1}, again, "what rests stays")
}

// An unanswered prompt is closed, and an incomplete line is ended, so that the
// next one is part of neither. Both only add.
func TestPrepareMendsAfterAKill(t *testing.T) {
	t.Parallel()
	rests := chatDir + "session-2000-01-01T00-00-aaaaaaaa.jsonl"
	text := chatText(idA, dayOne, "one") + `{"id":"u2","timestamp":"` + dayTwo + `","type":"user","content":[{"text":"two"}]}` + "\n"
	home := writeHome(t, map[string]string{rests: text})
	found := prepare(t, home)
	require.Empty(t, found.Move)
	added, is := strings.CutPrefix(replay.Repaired(t, home, found.Write[0]), text)
	require.True(t, is, "it only grows")
	require.Contains(t, added, filler)
	before, err := reducer.Fold(New().Parse([]adapters.Source{memory(event.Main, text)}))
	require.NoError(t, err)
	after, err := reducer.Fold(New().Parse([]adapters.Source{memory(event.Main, text+added)}))
	require.NoError(t, err)
	require.Equal(t, replay.JSON(t, before), replay.JSON(t, after), "nobody said it")
	again := prepare(t, writeHome(t, map[string]string{rests: text + added}))
	require.Empty(t, again.Write)
}

// What the agent has taken back of a turn that it is to continue is added again, once, and
// makes no block: the agent does so with a prompt whose request is cancelled, as it is when
// the process loses its host.
func TestPrepareAddsWhatWasTakenBack(t *testing.T) {
	t.Parallel()
	rests := chatDir + "session-2000-01-01T00-00-aaaaaaaa.jsonl"
	user := func(id, text string) string {
		return fmt.Sprintf(`{"id":%q,"timestamp":%q,"type":"user","content":[{"text":%q}]}`+"\n", id, dayTwo, text)
	}
	const (
		emptied = `{"$set":{"messages":[]}}` + "\n"
		only    = `{"$set":{"messages":[{"id":"u-one","type":"user","content":[{"text":"one"}]},{"id":"g-one","type":"gemini","content":"yes"}]}}` + "\n"
		stamp   = `{"$set":{"lastUpdated":"x"}}` + "\n"
		called  = `{"id":"g2","timestamp":"` + dayTwo + `","type":"gemini","content":"I look","toolCalls":[]}` + "\n" +
			`{"id":"g2","timestamp":"` + dayTwo + `","type":"gemini","content":"I look","toolCalls":[{"id":"c2","name":"x","args":{},"status":"success"}]}` + "\n" +
			`{"id":"r2","timestamp":"` + dayTwo + `","type":"user","content":[{"functionResponse":{"id":"c2","name":"x","response":{"output":"y"}}}]}` + "\n"
	)
	one, head := chatText(idA, dayOne, "one"), strings.SplitAfter(chatText(idA, dayOne, "one"), "\n")[0]
	before := func(text string) string {
		return strings.TrimSuffix(only, "]}}\n") + "," + strings.TrimSpace(text) + "]}}\n"
	}
	added := func(text string) string {
		return strings.TrimSuffix(strings.TrimSpace(head), "}") + `,"messages":[` + strings.TrimSpace(text) + "]}\n"
	}
	resumed := launch()
	resumed.Unfinished = []adapters.Unfinished{{Begins: "two"}, {Begins: "Continue"}}
	for name, c := range map[string]struct {
		text string
		// ids are those of the line that is added, and closed reports whether the filler is.
		ids    []string
		closed bool
	}{
		"a prompt":               {one + user("u2", "two") + stamp + only, []string{"u2"}, true},
		"also if a header came":  {one + user("u2", "two") + only + head, []string{"u2"}, true},
		"the first prompt":       {head + user("u2", "two") + emptied, []string{"u2"}, true},
		"a prompt and calls":     {one + user("u2", "two") + called + stamp + only, []string{"u2", "g2", "r2"}, false},
		"what resumed the turn":  {one + user("u2", "two") + user("u3", "Continue, please") + stamp + before(strings.TrimSpace(user("u2", "two"))+`,{"id":"f2","type":"gemini","content":"cut"}`), []string{"u3"}, true},
		"another turn's":         {one + user("u2", "other") + only, nil, false},
		"a command":              {one + user("u2", "/two") + only, nil, false},
		"what came after it":     {one + user("u2", "two") + only + user("u3", "three") + called, nil, false},
		"a summary":              {one + user("u2", "two") + called + `{"$set":{"messages":[{"id":"s","type":"user","content":"sum"},{"id":"r2","type":"user","content":[{"functionResponse":{"id":"c2","name":"x","response":{}}}]}]}}` + "\n", nil, false},
		"it has been added once": {one + user("u2", "two") + only + added(user("u2", "two")) + only, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := writeHome(t, map[string]string{rests: c.text})
			found, err := New().Prepare(home, resumed)
			require.NoError(t, err)
			require.Equal(t, idA, found.NativeID)
			found = withoutNotes(found)
			if c.ids == nil {
				require.Empty(t, found.Write)
				return
			}
			repaired := replay.Repaired(t, home, found.Write[0])
			added, is := strings.CutPrefix(repaired, c.text)
			require.True(t, is, "it only grows")
			line, rest, _ := strings.Cut(added, "\n")
			var r record
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			var ids []string
			for _, raw := range r.Messages {
				m, err := decodeRecord(raw)
				require.NoError(t, err)
				ids = append(ids, m.ID)
			}
			require.Equal(t, c.ids, ids)
			require.Equal(t, c.closed, strings.Contains(rest, filler))
			if len(ids) > 1 {
				require.Contains(t, line, `"c2"`, "the last version of a message")
			}
			said, err := reducer.Fold(New().Parse([]adapters.Source{memory(event.Main, c.text)}))
			require.NoError(t, err)
			saidThen, err := reducer.Fold(New().Parse([]adapters.Source{memory(event.Main, repaired)}))
			require.NoError(t, err)
			require.Equal(t, replay.JSON(t, said), replay.JSON(t, saidThen))

			taken, err := New().Prepare(writeHome(t, map[string]string{rests: repaired}), resumed)
			require.NoError(t, err)
			require.Empty(t, withoutNotes(taken).Write)
			ended, err := New().Prepare(writeHome(t, map[string]string{rests: c.text}), launch())
			require.NoError(t, err)
			require.Empty(t, withoutNotes(ended).Write, "what failed or was cancelled is taken back for good")
		})
	}
}

// Of a long turn that was taken back the beginning is added, in little memory.
func TestMemoryOfAddingAgain(t *testing.T) {
	skip.InShort(t, "it reads hundreds of megabytes, as TestMemoryOfPrepare does")
	prompt := `{"id":"u2","timestamp":"` + dayTwo + `","type":"user","content":[{"text":"two"}]}` + "\n"
	answer := `{"id":"g","timestamp":"` + dayTwo + `","type":"gemini","content":"` + strings.Repeat("x", 64<<10) + `"}` + "\n"
	home := &replay.Endless{Name: chatDir + "session-2000-01-01T00-00-aaaaaaaa.jsonl", First: chatText(idA, dayOne, "one") + prompt, Line: answer, Lines: 4800,
		Last: `{"$set":{"messages":[]}}` + "\n"}
	l := launch()
	l.Unfinished = []adapters.Unfinished{{Begins: "two"}}
	found := withoutNotes(replay.PreparesInBoundedMemory(t, New(), l, home))
	require.Len(t, found.Write, 1)
	require.Contains(t, string(found.Write[0].Add[:500]), `"u2"`)
	require.Contains(t, found.Note, "bytes are too many")
}

// A file of any length is inspected before a start, and repaired, in little
// memory.
func TestMemoryOfPrepare(t *testing.T) {
	born := chatDir + "session-2026-01-01T10-00-aaaaaaaa.jsonl"
	text := chatText(idA, dayOne, "one")
	answer := `{"id":"g","timestamp":"` + dayTwo + `","type":"gemini","content":"` + strings.Repeat("x", 64<<10) + `"}` + "\n"
	asked := `{"id":"u2","timestamp":"` + dayTwo + `","type":"user","content":[{"text":"two"}]}` + "\n"
	home := &replay.Endless{Name: born, First: text, Line: answer, Lines: 4800, Last: asked}
	found := withoutNotes(replay.PreparesInBoundedMemory(t, New(), launch(), home))
	require.Len(t, found.Write, 1)
	require.Equal(t, adapters.Repair{Path: home.Name, From: home.Name, End: home.Size(), Add: found.Write[0].Add}, found.Write[0])
	require.Contains(t, string(found.Write[0].Add), filler)
}

// A file that the agent has emptied is not refilled if it is too large to be read
// whole.
func TestMemoryOfRefill(t *testing.T) {
	skip.InShort(t, "it reads hundreds of megabytes, as TestMemoryOfPrepare does")
	text := chatText(idA, dayOne, "one")
	answer := `{"id":"g","timestamp":"` + dayTwo + `","type":"gemini","content":"` + strings.Repeat("x", 64<<10) + `"}` + "\n"
	home := &replay.Endless{Name: chatDir + "session-2000-01-01T00-00-aaaaaaaa.jsonl", First: text, Line: answer, Lines: 4800, Last: stubText(idA, dayTwo)}
	found := withoutNotes(replay.PreparesInBoundedMemory(t, New(), launch(), home))
	require.Contains(t, found.Note, "it remembers nothing")
	require.Empty(t, found.Write)
}

// A session that the agent has emptied, by loading it in the minute of its start,
// is refilled.
func TestPrepareRefills(t *testing.T) {
	t.Parallel()
	rests := chatDir + "session-2000-01-01T00-00-aaaaaaaa.jsonl"
	text := chatText(idA, dayOne, "one") + stubText(idA, dayTwo)
	home := writeHome(t, map[string]string{rests: text})
	found := prepare(t, home)
	require.Equal(t, idA, found.NativeID)
	require.NotEmpty(t, found.Note)
	added, is := strings.CutPrefix(replay.Repaired(t, home, found.Write[0]), text)
	require.True(t, is, "it only grows")
	for _, word := range []string{"u-one", "g-one", "session_context"} {
		require.Contains(t, added, word)
	}
	again := prepare(t, writeHome(t, map[string]string{rests: text + added}))
	require.Equal(t, adapters.Preparation{NativeID: idA, Prompts: 1}, again)

	taken := chatText(idA, dayOne, "one") + strings.SplitAfter(stubText(idA, dayTwo), "\n")[1]
	home = writeHome(t, map[string]string{rests: taken})
	found = prepare(t, home)
	require.Empty(t, found, "what failed or was cancelled is taken back for good")
}

// The prompts of a session are those that Parse finds in its files, also those that
// the agent has forgotten, and that it will not replay.
func TestPrepareCountsPrompts(t *testing.T) {
	t.Parallel()
	text := chatText(idA, dayOne, "one") + `{"id":"u2","timestamp":"` + dayTwo + `","type":"user","content":[{"text":"two"}]}` + "\n" +
		`{"$set":{"messages":[{"id":"u-one","type":"user","content":[{"text":"one"}]},{"id":"g-one","type":"gemini","content":"yes"}]}}` + "\n"
	found := prepare(t, writeHome(t, map[string]string{chatDir + "session-2026-01-01T10-00-aaaaaaaa.jsonl": text}))
	require.Equal(t, 2, found.Prompts)
}

// The agent looks for a session in the folder that its registry, or a mark in the
// folder, assigns to the workspace.
func TestPrepareFollowsTheRegistry(t *testing.T) {
	t.Parallel()
	text := chatText(idA, dayOne, "one")
	for name, files := range map[string]map[string]string{
		"registered": {".gemini/projects.json": `{"projects":{"/work/My_Space":"elsewhere"}}`, ".gemini/tmp/elsewhere/.project_root": "/work/My_Space"},
		"marked":     {".gemini/tmp/elsewhere/.project_root": "/work/My_Space\n"},
	} {
		files[chatDir+"session-2000-01-01T00-00-aaaaaaaa.jsonl"] = text
		found, err := New().Prepare(writeHome(t, files), launch())
		require.NoError(t, err)
		require.Equal(t, ".gemini/tmp/elsewhere/chats/session-2000-01-01T00-00-aaaaaaaa.jsonl", found.Move[0].To, name)
	}
	taken := map[string]string{
		".gemini/tmp/my-space/.project_root":                "/other/My_Space",
		chatDir + "session-2000-01-01T00-00-aaaaaaaa.jsonl": text,
		".gemini/tmp/my-space-1/.project_root":              "/third/My_Space",
		".gemini/projects.json":                             "{broken",
	}
	found := prepare(t, writeHome(t, taken))
	require.Contains(t, found.Move[0].To, ".gemini/tmp/my-space-2/", "two workspaces of one name")
}

func TestPlace(t *testing.T) {
	t.Parallel()
	l := launch()
	for _, c := range []struct{ id, from, to string }{
		{"main.2", ".gemini/tmp/x/chats/session-2026-01-01T10-00-bbbbbbbb.jsonl", chatDir + "session-2000-01-01T00-01-bbbbbbbb.jsonl"},
		{"sub1", ".gemini/tmp/x/chats/" + idA + "/sub1.jsonl", chatDir + idA + "/sub1.jsonl"},
		{"main", "elsewhere.jsonl", "elsewhere.jsonl"},
		{"main", ".gemini/tmp/x/chats/session-2025-01-01T10-00-aaaaaaaa.json", chatDir + "session-2025-01-01T10-00-aaaaaaaa.json"},
	} {
		require.Equal(t, c.to, New().Place(adapters.Transcript{ID: c.id, Path: c.from}, l), c.from)
	}
	for workspace, want := range map[string]string{"/a/gem_ws": "gem-ws", "/a/My Dir.v2": "my-dir-v2", "/a/__": "project", "/": "project"} {
		require.Equal(t, want, slug(workspace), workspace)
	}
}

// A file alone is identified by its header: a session has its subagents.
func TestIdentify(t *testing.T) {
	t.Parallel()
	home := writeHome(t, map[string]string{
		"session-x.jsonl":   chatText(idA, dayOne, "one"),
		idA + "/sub1.jsonl": `{"sessionId":"sub1","projectHash":"h","startTime":"` + dayOne + `","kind":"subagent"}` + "\n",
		"broken.jsonl":      "{",
	})
	found, err := New().Identify(home, "session-x.jsonl")
	require.NoError(t, err)
	require.Len(t, found, 2)
	found, err = New().Identify(home, path.Join(idA, "sub1.jsonl"))
	require.NoError(t, err)
	require.Equal(t, "sub1", found[0].ID)
	found, err = New().Identify(home, "broken.jsonl")
	require.NoError(t, err)
	require.Equal(t, event.Main, found[0].ID)
	_, err = New().Identify(home, "none.jsonl")
	require.Error(t, err)
}

// A broken line costs that line: the error names file and line, and the lines
// before and after it are parsed, also in the other files.
func TestParseSurvivesBrokenLines(t *testing.T) {
	t.Parallel()
	good := `{"id":"u1","type":"user","content":[{"text":"one"}]}`
	sources := []adapters.Source{
		memory(event.Main, header+"\n"+header+"\n"+good+"\n{broken\n\n"+strings.Replace(good, "u1", "u2", 1)+"\n"+`{"$set":{"x"`+"\n"+`{"id":"u3","type":"us`),
		{Transcript: adapters.Transcript{ID: "gone", Path: "gone.jsonl"}, Open: func() (io.ReadCloser, error) { return nil, os.ErrNotExist }},
	}
	var faults []string
	b := reducer.NewBuilder(reducer.State{})
	for e, err := range New().Parse(sources) {
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		b.Add(e)
	}
	require.Len(t, faults, 4)
	require.Contains(t, faults[0], "main.jsonl: line 4")
	require.Contains(t, faults[1], "main.jsonl: line 7")
	require.Contains(t, faults[2], "main.jsonl: line 8")
	require.Contains(t, faults[3], "gone.jsonl")
	require.Len(t, b.State().Blocks, 2)
}

// Native sessions follow each other, in whatever order their files are given.
func TestParseSeveralMains(t *testing.T) {
	t.Parallel()
	second, first := memory("main.2", chatText(idB, dayTwo, "two")), memory(event.Main, chatText(idA, dayOne, "one"))
	state, err := reducer.Fold(New().Parse([]adapters.Source{second, first}))
	require.NoError(t, err)
	require.Len(t, state.Blocks, 4)
	require.Equal(t, idA+":1", state.Blocks[0].ID)
	require.Equal(t, idB+":1", state.Blocks[2].ID)
}

// A history that the agent writes again, shortened, is not emitted again.
func TestParseKnowsACopy(t *testing.T) {
	t.Parallel()
	said := chatText(idA, dayOne, "one") +
		`{"id":"c2","type":"user","content":[{"text":"` + contextText + `"}]}` + "\n" +
		`{"id":"u2","type":"user","content":[{"text":"one"}]}` + "\n" + `{"$set":{"lastUpdated":"x"}}` + "\n" +
		`{"id":"g2","type":"gemini","content":[{"text":"yes"}]}` + "\n" + `{"$set":{"messages":[]}}` + "\n"
	next := `{"id":"u3","type":"user","content":[{"text":"two"}]}` + "\n" + `{"id":"g3","type":"gemini","content":"also"}` + "\n"
	state, err := reducer.Fold(New().Parse([]adapters.Source{memory(event.Main, said+next)}))
	require.NoError(t, err)
	var texts []string
	for _, b := range state.Blocks {
		texts = append(texts, *b.Content)
	}
	require.Equal(t, []string{"one", "yes", "two", "also"}, texts)
}

// A file that is not a chat of this agent makes errors or native events, and no
// block.
func TestParseInventsNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":         "",
		"claude":        `{"type":"user","uuid":"u","message":{"content":"hi"}}` + "\n",
		"codex":         `{"ordinal":0,"type":"session_meta","payload":{"id":"x"}}` + "\n",
		"binary":        "SQLite format 3\x00\x10\x00",
		"utf-16":        "\xff\xfe{\x00\"\x00i\x00d\x00\"\x00",
		"an array":      "[1,2]\n",
		"another shape": `{"id":7}` + "\n" + `{"id":"u","type":"user","content":7}` + "\n",
	} {
		b := reducer.NewBuilder(reducer.State{})
		faults, kept := 0, 0
		for e, err := range New().Parse([]adapters.Source{memory(event.Main, text)}) {
			switch _, native := e.Payload.(event.Native); {
			case err != nil:
				faults++
			case native:
				kept++
			default:
				b.Add(e)
			}
		}
		require.Empty(t, b.State().Blocks, name)
		require.Equal(t, text != "", faults+kept > 0, "%s is passed over in silence", name)
	}
}

func TestParseStopsWhenAsked(t *testing.T) {
	recorded.StopsWhenAsked(t, memory(event.Main, "x\ny\n"+chatText(idA, dayOne, "a")))
}

func TestParseReadError(t *testing.T) { recorded.ReadError(t) }

// A line of 32 MiB is cut, and keeps its form: the same live and restored.
func TestLongLines(t *testing.T) {
	t.Parallel()
	text := strings.TrimSpace(strings.Repeat("long ", 32<<20/5))
	parsed, err := reducer.Fold(New().Parse([]adapters.Source{memory(event.Main, chatText(idA, dayOne, text))}))
	require.NoError(t, err)
	require.Contains(t, *parsed.Blocks[0].Content, fmt.Sprintf("… [cut: %d bytes, sha256 ", len(text)))
	records := append(openingRecords(), turnRecords(1, 0)[:1]...)
	long := updated(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}`)
	kept, cut := jsonl.CutLine([]byte(long.Line))
	long.Line, long.Cut = string(kept), cut
	records = append(records, long)
	live := recorded.Live(t, records)
	require.Equal(t, *parsed.Blocks[0].Content, *live.Blocks[1].Content)
}

// The key and the address of the model are passed in the environment, and neither
// is written into a file.
func TestVariables(t *testing.T) {
	t.Parallel()
	require.Equal(t, "GEMINI_API_KEY", New().Info().Variables[0].Name)
	l := launch()
	l.Env = map[string]string{"GEMINI_API_KEY": "sk-planted", "GOOGLE_GEMINI_BASE_URL": "http://planted"}
	files, err := New().ProfileFiles(adapters.Profile{}, l)
	require.NoError(t, err)
	for _, f := range files {
		require.NotContains(t, string(f.Data), "planted", f.Path)
	}
	for env, want := range map[string]string{"true": "vertex-ai", "": "gemini-api-key"} {
		require.Equal(t, want, authType(map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": env}))
	}
}

// What the user wrote is restored, also if it begins as what the agent writes in
// the user's name.
func TestPromptsLikeTheAgentsOwn(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"<session_context> is what?", "<session_context>\nmine</session_context>", "<hook_context>mine</hook_context>"} {
		line, err := json.Marshal(map[string]any{"id": "u2", "type": "user", "content": []map[string]string{{"text": text}}})
		require.NoError(t, err)
		said := chatText(idA, dayOne, "one") + string(line) + "\n" + `{"id":"g2","type":"gemini","content":"also"}` + "\n"
		state, err := reducer.Fold(New().Parse([]adapters.Source{memory(event.Main, said)}))
		require.NoError(t, err)
		require.Len(t, state.Blocks, 4, text)
		require.Equal(t, text, *state.Blocks[2].Content)
		require.Equal(t, idA+":2", state.Blocks[2].ID)
		require.Equal(t, idA+":2:text:0", state.Blocks[3].ID)
	}
}

// TestSessionOpenedOverAMinute: the recordings of a session that was opened while a minute
// ended may be two files, so it is left for another.
func TestSessionOpenedOverAMinute(t *testing.T) {
	t.Parallel()
	for ended, left := range map[time.Duration]bool{58 * time.Second: false, 59 * time.Second: true} {
		tr, err := New().Translator(adapters.Launch{Workspace: "/w"}, nil)
		require.NoError(t, err)
		asked := time.Date(2026, 1, 2, 3, 4, 1, 0, time.UTC)
		step := func(dir event.Dir, at time.Time, line string) {
			tr.Step(traffic.Record{TS: at, Dir: dir, Line: line})
		}
		step(event.DirIn, asked, `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`)
		step(event.DirOut, asked, `{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":1}}`)
		step(event.DirIn, asked, string(tr.Due()[0].Data))
		step(event.DirOut, asked.Add(ended), `{"jsonrpc":"2.0","id":"i/session","result":{"sessionId":"S"}}`)
		due := tr.Due()
		if !left {
			require.Empty(t, due)
			continue
		}
		require.Len(t, due, 1)
		require.Equal(t, "i/session-again", due[0].ID)
		step(event.DirIn, asked.Add(ended), string(due[0].Data))
		step(event.DirOut, asked.Add(ended+time.Second), `{"jsonrpc":"2.0","id":"i/session-again","result":{"sessionId":"T"}}`)
		require.Empty(t, tr.Due())
	}
}
