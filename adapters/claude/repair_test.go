package claude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/replay"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestMendOnlyAnOldEnd: a line is added when the program's last note names a
// message that is not the last, and in no other case.
func TestMendOnlyAnOldEnd(t *testing.T) {
	t.Parallel()
	said := func(kind, id, parent string) string {
		return fmt.Sprintf(`{"parentUuid":"%s","type":"%s","uuid":"%s"}`, parent, kind, id)
	}
	note := func(leaf string) string {
		return fmt.Sprintf(`{"type":"last-prompt","lastPrompt":"x","leafUuid":"%s","sessionId":"s"}`, leaf)
	}
	explicit := func(leaf string) string {
		return strings.Replace(note(leaf), `,"sessionId"`, `,"explicit":true,"sessionId"`, 1)
	}
	calls := []string{said("user", "u", ""), said("assistant", "a1", "u"), said("assistant", "a2", "a1"), said("user", "r2", "a2")}
	rest := []string{said("user", "r1", "a1"), said("assistant", "z", "r1"), `{"type":"queue-operation"}`}
	join := func(parts ...[]string) []byte {
		var all []string
		for _, p := range parts {
			all = append(all, p...)
		}
		return []byte(strings.Join(all, "\n") + "\n")
	}
	for name, c := range map[string]struct {
		data []byte
		leaf string
	}{
		"no note":                  {join(calls, rest), ""},
		"a branch's end":           {join(calls, []string{note("r2")}, rest), "z"},
		"noted again since":        {join(calls, []string{note("r2")}, rest, []string{note("z")}), ""},
		"a branch with a child":    {join(calls, []string{said("attachment", "b", "r2"), note("r2")}, rest), "z"},
		"gone on from":             {join(calls, []string{note("a1")}, rest), "z"},
		"gone back to":             {join(calls, rest, []string{explicit("u")}), ""},
		"gone back to and on from": {join(calls, []string{explicit("r2")}, rest), "z"},
		"nothing came later":       {join(calls, []string{note("r2")}), ""},
		"only attachments later":   {join(calls, []string{note("r2"), said("attachment", "b", "z")}), ""},
		"a subagent's words later": {join(calls, []string{note("r2"), `{"type":"assistant","uuid":"q","isSidechain":true}`}), ""},
		"empty":                    {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			added := addedTo(t, c.data)
			if c.leaf == "" {
				require.Empty(t, added)
				return
			}
			require.JSONEq(t, note(c.leaf), strings.Replace(strings.TrimSpace(added), `"explicit":true,`, "", 1))
			require.True(t, strings.HasSuffix(added, "\n"))
			require.Empty(t, addedTo(t, append(bytes.Clone(c.data), added...)), "once")
		})
	}
}

// A transcript of any length is inspected before a start, and added to, in little
// memory.
func TestMemoryOfPrepare(t *testing.T) {
	const id = "11111111-2222-5333-8444-555555555555"
	said := func(kind, id, parent, more string) string {
		return fmt.Sprintf(`{"parentUuid":"%s","type":"%s","uuid":"%s","more":"%s"}`+"\n", parent, kind, id, more)
	}
	home := &replay.Endless{
		Name:  configDir + "/projects/-w/" + id + agentSuffix,
		First: said("user", "r2", "a2", "") + `{"type":"last-prompt","lastPrompt":"x","leafUuid":"r2","sessionId":"s"}` + "\n",
		Line:  said("assistant", "z", "r1", strings.Repeat("x", 64<<10)), Lines: 4800,
	}
	found := replay.PreparesInBoundedMemory(t, New(), adapters.Launch{NativeID: id, Workspace: "/w"}, home)
	require.Len(t, found.Write, 2, "and the rules of the workspace")
	require.Equal(t, home.Size(), found.Write[0].End)
	require.Equal(t, `{"type":"last-prompt","lastPrompt":"x","leafUuid":"z","sessionId":"s"}`+"\n", string(found.Write[0].Add))
}

// addedTo returns what repair adds to a transcript.
func addedTo(t *testing.T, data []byte) string {
	t.Helper()
	const file = "s.jsonl"
	home := &replay.Home{Files: map[string]string{file: string(data)}}
	found, err := repair(home, file)
	require.NoError(t, err)
	if found == nil {
		return ""
	}
	require.Len(t, found, 1)
	added, whole := strings.CutPrefix(replay.Repaired(t, home, found[0]), string(data))
	require.True(t, whole)
	return added
}

// TestResumeBehindParallelCalls: the program is started after a kill with a note
// that names an old branch's end, and continues where it was.
func TestResumeBehindParallelCalls(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	for name, child := range map[string]string{
		"with nothing behind it": "",
		"with an attachment behind it": `{"parentUuid":"%s","isSidechain":false,"type":"attachment","attachment":{"type":"date_change","newDate":"2026-01-02"},` +
			`"uuid":"0b5f7b0e-6a1a-4c55-9d5c-3f4f0c9d7a11","timestamp":"2026-01-02T03:04:05.000Z","sessionId":"%s"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := adaptertest.New(t, conforming(), adaptertest.Options{})
			r.Start()
			r.Ask("SAY first THEN TWO THEN SAY both")
			r.Ask("SAY remember the word quince")
			r.Ask("SAY last of all")
			r.Parity()
			r.Kill()
			noteBranch(t, filepath.Join(r.Home(), configDir, "projects"), child)
			r.Restart()
			r.Ask("RECALL")
			require.Contains(t, r.Said(), "quince")
			require.Contains(t, r.Said(), "last of all")
		})
	}
}

// noteBranch writes the program's note into the one transcript, behind the result
// of a call that has no answer, where a note may be, and before it a child of that
// result; "" for none.
func noteBranch(t *testing.T, projects, child string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(projects, "*", "*"+agentSuffix))
	require.NoError(t, err)
	require.Len(t, files, 1)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	var out []byte
	noted := false
	for line := range bytes.Lines(data) {
		var m struct {
			Type, UUID, SessionID string
			Message               struct{ Content json.RawMessage }
		}
		require.NoError(t, json.Unmarshal(line, &m))
		if m.Type == "last-prompt" {
			continue
		}
		out = append(out, line...)
		branch := bytes.Contains(m.Message.Content, []byte("tool_result")) && !bytes.Contains(data, []byte(`"parentUuid":"`+m.UUID+`"`))
		if branch && !noted {
			noted = true
			if child != "" {
				out = append(out, fmt.Sprintf(child, m.UUID, m.SessionID)...)
			}
			out = append(out, fmt.Sprintf(`{"type":"last-prompt","lastPrompt":"x","leafUuid":"%s","sessionId":"%s"}`+"\n", m.UUID, m.SessionID)...)
		}
	}
	require.True(t, noted, "of two results at once, one has no child")
	require.NoError(t, os.WriteFile(files[0], out, 0o600))
}
