package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// TestR12TypeLadder: list data ⊂ saved data ⊂ runtime data. Only the last describes
// running parts.
func TestR12TypeLadder(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	c := spaceOf(t).Client
	h := open(t, session.Options{Title: "a ladder"})
	require.NoError(t, say(t, h, "TOOL bash: echo kept > kept.txt").Err())
	awaitIdle(t, h)
	now, err := c.Runtime(ctx, h.ID(), session.Timeline{})
	require.NoError(t, err)
	require.True(t, now.Runtime.IsLoaded)
	require.NotNil(t, now.Runtime.Sandbox)
	require.NotEmpty(t, now.Runtime.Sandbox.SandboxID)
	require.Equal(t, "ready", now.Runtime.Sandbox.Status)
	conv, err := c.Show(ctx, h.ID(), session.FromAuto)
	require.NoError(t, err)
	require.Equal(t, conv.State.Blocks, now.Blocks)
	require.NoError(t, h.Close(ctx))

	rec, err := spaceOf(t).Archive.Session(ctx, h.ID())
	require.NoError(t, err)
	saved, err := c.Load(ctx, h.ID())
	require.NoError(t, err)
	closed, err := c.Runtime(ctx, h.ID(), session.Timeline{})
	require.NoError(t, err)
	require.Equal(t, rec, saved.ListData)
	require.Equal(t, saved, closed.SavedData)
	require.NotEmpty(t, saved.RawTranscript)
	require.True(t, slices.ContainsFunc(namesOf(t, h), func(name string) bool { return name == "kept.txt" }))
	require.Equal(t, event.Runtime{}, *closed.Runtime, "nothing of it runs")
	require.NotEmpty(t, closed.Blocks)
}

// TestR9Export: an export has everything archived: the record, the conversation as show
// prints it, the transcripts byte for byte, from which the conversation can be rebuilt,
// and the files.
func TestR9Export(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{Title: "to be exported"})
	require.NoError(t, say(t, h, "TOOL bash: mkdir d; echo kept > d/kept.txt; ln -s d/kept.txt link; ln -s /etc/passwd out").Err())
	require.NoError(t, h.Close(ctx))

	to := filepath.Join(t.TempDir(), "session.tar")
	require.Contains(t, sojourn(t, "export", h.ID(), "-o", to), "session "+h.ID()+" is in "+to)
	written, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, sojourn(t, "export", h.ID()), string(written), "the same archive exports the same bytes")
	require.Equal(t, 2, program(t, "export", h.ID(), "-o", to).code, "what is there stays")

	into := t.TempDir()
	require.NoError(t, exec.CommandContext(ctx, "tar", "-xf", to, "-C", into).Run())
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(into, name))
		require.NoError(t, err)
		return string(data)
	}
	var head session.Exported
	require.NoError(t, json.Unmarshal([]byte(read("session.json")), &head))
	rec, err := spaceOf(t).Archive.Session(ctx, h.ID())
	require.NoError(t, err)
	require.Equal(t, session.ExportFormat, head.Format)
	require.Equal(t, rec, head.Session)
	require.Equal(t, sojourn(t, "show", h.ID(), "--json"), read("conversation.json"))
	saved, err := spaceOf(t).Client.Load(ctx, h.ID())
	require.NoError(t, err)
	for _, info := range head.Transcripts {
		if info.ID == event.Main {
			require.Equal(t, string(saved.RawTranscript), read("home/"+info.Path))
		}
	}
	require.Len(t, head.Transcripts, 1+len(saved.Subagents))
	var shown, parsed reducer.State
	require.NoError(t, json.Unmarshal([]byte(read("conversation.json")), &shown))
	require.NoError(t, json.Unmarshal([]byte(sojourn(t, "parse", "--agent", anyAgent(t), filepath.Join(into, "home"))), &parsed))
	require.Equal(t, shown.Blocks, parsed.Blocks)
	require.Equal(t, "kept\n", read("workspace/link"))
	require.NoFileExists(t, filepath.Join(into, "workspace", "out"), "it leads outside")
	require.Equal(t, 1, program(t, "export", "no-such-session").code)
}

func namesOf(t *testing.T, h *session.Handle) (names []string) {
	t.Helper()
	files, err := spaceOf(t).Client.Files(testContext(t), h.ID())
	require.NoError(t, err)
	for _, f := range files {
		names = append(names, f.Path)
	}
	return names
}

// TestR117ListIsEnriched: every list entry has the runtime state of its session, also
// while the archive doesn't respond.
func TestR117ListIsEnriched(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	ctx := testContext(t)
	loaded, err := session.NewClient(session.ClientOptions{Temporal: spaceOf(t).Temporal, Agents: builtin.Registry()})
	require.NoError(t, err)
	h := open(t, session.Options{})
	entry := func(c *session.Client) (found session.Summary) {
		page, err := c.List(ctx, session.ListOptions{})
		require.NoError(t, err)
		at := slices.IndexFunc(page.Sessions, func(s session.Summary) bool { return s.SessionID == h.ID() })
		if at < 0 {
			return session.Summary{}
		}
		return page.Sessions[at]
	}
	for _, c := range []*session.Client{spaceOf(t).Client, loaded} {
		require.Eventually(t, func() bool { return entry(c).Runtime.IsLoaded }, patience, tick)
		require.Nil(t, entry(c).Runtime.Sandbox)
	}
	require.NoError(t, say(t, h, "SAY now there is one").Err())
	for _, c := range []*session.Client{spaceOf(t).Client, loaded} {
		require.Eventually(t, func() bool { s := entry(c).Runtime.Sandbox; return s != nil && s.Host != "" }, patience, tick)
	}
	require.NoError(t, h.Close(ctx))
	require.Eventually(t, func() bool { return entry(loaded).Status == session.StatusClosed }, patience, tick)
	data, err := json.Marshal(entry(loaded).Runtime)
	require.NoError(t, err)
	require.JSONEq(t, `{"isLoaded":false,"sandbox":null}`, string(data))
}

// TestR127TimelineOwnership: the timeline is only appended to, and callers own the
// copies that they read, filter and change.
func TestR127TimelineOwnership(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY first").Err())
	before := events(t, h)
	require.NoError(t, say(t, h, "TOOL bash: echo between").Err())
	require.NoError(t, say(t, h, "SAY last").Err())
	require.Equal(t, before, events(t, h)[:len(before)], "append-only")
	awaitIdle(t, h)

	louder := func(b event.Block) (event.Block, bool) {
		if b.Content == nil {
			return b, false
		}
		text := strings.ToUpper(*b.Content)
		b.Content = &text
		return b, true
	}
	got, err := spaceOf(t).Client.Runtime(ctx, h.ID(), session.Timeline{Roles: []session.Role{session.RoleUser, session.RoleAssistant}, Map: louder, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"SAY LAST", "LAST"}, contents(got.Blocks))
	var shown reducer.State
	sojournJSON(t, &shown, "show", h.ID(), "--role", "user", "--limit", "2")
	require.Equal(t, []string{"TOOL bash: echo between", "SAY last"}, contents(shown.Blocks), "the session's own is as it was")
	bad := runProgram(t, "sojourn", "", nil, "show", h.ID(), "--role", "boss")
	require.Equal(t, 2, bad.code)
	require.Contains(t, bad.err, `--role: "boss" is unknown`)
	require.NoError(t, h.Close(ctx))
}

// TestR126MaxTimelineEntries: a client keeps the newest blocks of a conversation, after each
// tick, wherever it reads it; stream and archive have all.
func TestR126MaxTimelineEntries(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	_, err := session.NewClient(session.ClientOptions{Temporal: spaceOf(t).Temporal, Agents: builtin.Registry(), MaxTimelineEntries: -1})
	var invalid *session.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "maxTimelineEntries", invalid.Field)
	c, err := session.NewClient(session.ClientOptions{
		Temporal: spaceOf(t).Temporal, Stream: spaceOf(t).Log, Archive: spaceOf(t).Archive, Agents: builtin.Registry(), MaxTimelineEntries: 3,
	})
	require.NoError(t, err)
	h := open(t, session.Options{})
	requireNewest := func(from session.From) {
		t.Helper()
		all, err := spaceOf(t).Client.Show(ctx, h.ID(), from)
		require.NoError(t, err)
		kept, err := c.Show(ctx, h.ID(), from)
		require.NoError(t, err)
		require.Equal(t, all.State.Blocks[len(all.State.Blocks)-3:], kept.State.Blocks)
	}
	for _, text := range []string{twoTools, "SUBAGENT TOOL bash: echo in ANDTHEN SAY inner THEN SAY outer", "SAY last"} {
		require.NoError(t, say(t, h, text).Err())
		requireNewest(session.FromStream)
	}
	require.NoError(t, h.Close(ctx))
	requireNewest(session.FromArchive)
	var shown reducer.State
	sojournJSON(t, &shown, "show", h.ID(), "--max-timeline-entries", "2")
	require.Equal(t, []string{"SAY last", "last"}, contents(shown.Blocks))
	require.Empty(t, shown.Subagents, "a subagent is left out with its block")
	requireParity(t, h.ID())
}

// TestR6Delete: a closed session is deleted from storage for good, lists lose it and
// listeners are informed, and its id is a new session's; an open one is not.
func TestR6Delete(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	c := spaceOf(t).Client
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "TOOL bash: echo kept > file THEN SAY the secret").Err())
	require.ErrorIs(t, c.Delete(ctx, h.ID()), session.ErrBusy)
	require.NoError(t, h.Close(ctx))
	refused := runProgram(t, "sojourn", "", nil, "delete", h.ID())
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.err, "--yes deletes it")
	kept, err := c.Show(ctx, h.ID(), session.FromArchive)
	require.NoError(t, err)
	require.Equal(t, "the secret", *last(kept.State.Blocks).Content)

	listening, heard := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		for change, err := range c.Changes(ctx) {
			if change.Kind == stream.ChangeMissed {
				listening <- struct{}{}
			}
			if err != nil || change.SessionID == h.ID() && change.Kind == stream.ChangeDeleted {
				heard <- err
				return
			}
		}
	}()
	<-listening
	namesake, err := c.Create(ctx, h.ID()+"-2", session.Options{Agent: "claude"})
	require.NoError(t, err)
	require.NoError(t, namesake.Close(ctx))
	require.Eventually(t, func() bool { return slices.Contains(listed(t, session.ListOptions{}), namesake.ID()) }, patience, tick)
	require.Equal(t, "session "+h.ID()+" is deleted\n", sojourn(t, "delete", h.ID(), "--yes"))
	require.NoError(t, <-heard)
	_, err = spaceOf(t).Archive.Session(ctx, h.ID())
	require.ErrorIs(t, err, archive.ErrNotFound)
	sources, err := spaceOf(t).Archive.Sources(ctx, h.ID())
	require.NoError(t, err)
	require.Empty(t, sources)
	for range spaceOf(t).Log.Read(ctx, h.ID(), 0, stream.ReadOptions{}) {
		t.Fatal("the stream has events of it")
	}
	eventually(t, func(*assert.CollectT) bool {
		_, err := c.Get(ctx, h.ID())
		return errors.Is(err, session.ErrNotFound)
	}, patience, tick)
	require.ErrorIs(t, c.Delete(ctx, h.ID()), session.ErrNotFound)
	repeated := runProgram(t, "sojourn", "", nil, "delete", h.ID(), "--yes")
	require.Equal(t, 1, repeated.code, repeated.err)
	require.Contains(t, repeated.err, "session "+h.ID()+": no such session")
	_, err = c.Get(ctx, namesake.ID())
	require.NoError(t, err, "a repeated delete deletes no other session")
	again, err := c.Create(ctx, h.ID(), session.Options{Agent: anyAgent(t)})
	require.NoError(t, err)
	require.Contains(t, say(t, again, "RECALL").Result.Response, "I saw 0 earlier prompts")
	require.NoError(t, again.Close(ctx))
}

// TestR133ContextControl: a caller reads the timeline by roles, limit and a budget of tokens, and
// has an agent that can do it compact what it sends its model; the timeline keeps all.
func TestR133ContextControl(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	ctx := testContext(t)
	h := open(t, session.Options{Agent: "claude"})
	long := strings.Repeat("long words ", 20)
	for _, text := range []string{"the first words", long, "the last words"} {
		require.NoError(t, say(t, h, "SAY "+text).Err())
	}
	awaitIdle(t, h)
	read := func(part session.Timeline) []string {
		got, err := spaceOf(t).Client.Runtime(ctx, h.ID(), part)
		require.NoError(t, err)
		return contents(got.Blocks)
	}
	all := []session.Role{session.RoleUser, session.RoleAssistant}
	require.Equal(t, []string{"SAY the last words", "the last words"}, read(session.Timeline{Roles: all, MaxTokens: 60}), "what the budget has room for, the newest")
	require.Equal(t, []string{strings.TrimSpace(long), "the last words"}, read(session.Timeline{Roles: all[1:], Limit: 2}))

	require.NoError(t, say(t, h, "/compact").Err())
	require.NoError(t, say(t, h, "SAY compacted").Err())
	asked := string(last(spaceOf(t).Model.Recorded()).Body)
	require.Contains(t, asked, "SAY compacted")
	require.NotContains(t, asked, "SAY the first words", "the model is sent a summary")
	require.Contains(t, read(session.Timeline{Roles: all}), "SAY the first words")
	require.NoError(t, h.Close(ctx))
	requireParity(t, h.ID())
}

func idsOf(blocks []event.Block) (ids []string) {
	for _, b := range blocks {
		ids = append(ids, b.ID)
	}
	return ids
}

func contents(blocks []event.Block) (texts []string) {
	for _, b := range blocks {
		texts = append(texts, *b.Content)
	}
	return texts
}

// TestR129WorkspaceFilesByClient: a client lists and reads a session's files, open or
// closed.
func TestR129WorkspaceFilesByClient(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	c := spaceOf(t).Client
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "TOOL bash: mkdir -p src; printf 'what it wrote' > src/a.txt; : > empty").Err())
	read := func(path string) string {
		in, err := c.OpenFile(ctx, h.ID(), path)
		require.NoError(t, err)
		data, err := io.ReadAll(in)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		return string(data)
	}
	look := func() {
		require.Subset(t, namesOf(t, h), []string{"src", "src/a.txt", "empty"})
		require.Equal(t, "what it wrote", read("src/a.txt"))
		require.Empty(t, read("empty"))
		for _, none := range []string{"src", "nowhere"} {
			_, err := c.OpenFile(ctx, h.ID(), none)
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
	}
	look()
	require.NoError(t, h.Close(ctx))
	look()
	_, err := c.Files(ctx, "nobody-"+h.ID())
	require.ErrorIs(t, err, session.ErrNotFound)
}

// TestR111FilesOfAClosedSession: a file of a closed session is saved and deleted, and its agent
// finds it so; those of an open one are its agent's.
func TestR111FilesOfAClosedSession(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	c := spaceOf(t).Client
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "TOOL bash: echo agent > mine.txt; echo x > dead.txt").Err())
	_, err := c.SaveFile(ctx, h.ID(), "in/brief.txt", 0o644, []byte("no"))
	require.ErrorIs(t, err, session.ErrBusy)
	require.ErrorIs(t, c.DeleteFile(ctx, h.ID(), "dead.txt"), session.ErrBusy)
	require.NoError(t, h.Close(ctx))

	_, err = c.SaveFile(ctx, h.ID(), "in/brief.txt", 0o600, []byte("read me"))
	require.NoError(t, err)
	require.NoError(t, c.DeleteFile(ctx, h.ID(), "dead.txt"))
	var invalid *session.InvalidError
	_, err = c.SaveFile(ctx, h.ID(), "../out", 0o600, nil)
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "path", invalid.Field)
	_, err = c.SaveFile(ctx, "nobody-"+h.ID(), "a", 0o600, nil)
	require.ErrorIs(t, err, session.ErrNotFound)

	h, err = c.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	require.NoError(t, say(t, h, "TOOL bash: cat in/brief.txt mine.txt; ls").Err())
	seen := lastOutput(t, h)
	require.Contains(t, seen, "read me")
	require.Contains(t, seen, "agent")
	require.NotContains(t, seen, "dead.txt")
	require.NoError(t, h.Close(ctx))
}
