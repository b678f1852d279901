package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/test/teststack"
	"github.com/sojourn-run/sojourn/workspace"
)

// servers has the S3 gateway of the tests.
var servers teststack.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	servers.Stop()
	os.Exit(code)
}

// ListData ⊂ SavedData (rawTranscript, subagents[], workspaceFiles[]) ⊂
// RuntimeData (+ parsed blocks), runtime state only on runtime types.
func TestR12TypeLadder(t *testing.T) {
	t.Parallel()
	fields := func(v any) (names []string) {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		var m map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(data, &m))
		for name := range m {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	d := archive.ListData{ID: "s", Title: "t", Agent: "a"}
	saved := SavedData{ListData: d, RawTranscript: []byte("x")}
	list, middle, all := fields(d), fields(saved), fields(RuntimeData{SavedData: saved})
	require.Subset(t, middle, list)
	require.Subset(t, all, middle)
	require.Subset(t, middle, []string{"rawTranscript", "subagents", "workspaceFiles"})
	require.Contains(t, all, "blocks")
	require.NotContains(t, middle, "blocks")
	require.NotContains(t, middle, "runtime")
}

// A session whose record can't be read is read for what else there is.
func TestAClosedSessionWithoutARecord(t *testing.T) {
	t.Parallel()
	i, err := inspectClosed(archive.ListData{ID: "s1", Title: "t", Agent: "claude"})
	require.ErrorContains(t, err, "s1")
	require.Equal(t, SnapshotVersion, i.Version)
	require.Equal(t, StatusClosed, i.Status)
	require.Equal(t, []string{"s1", "t", "claude"}, []string{i.SessionID, i.Title, i.Agent})
}

// The persistence adapter's operations.
func TestR111PersistenceAdapter(t *testing.T) {
	t.Parallel()
	a, err := archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-session-test", Namespace: strings.ToLower(rand.Text()), Client: teststack.Client(servers.S3(t), http.DefaultTransport),
	})
	require.NoError(t, err)
	require.NoError(t, a.Setup(t.Context()))
	c := &Client{ClientOptions{Archive: a, Temporal: &fakeTemporal{}}}
	_, err = c.Load(t.Context(), "s1")
	require.ErrorIs(t, err, ErrNotFound, "loadSession: null")
	_, err = (&Client{}).Load(t.Context(), "s1")
	require.ErrorIs(t, err, ErrNoArchive)

	var epoch uint64
	for _, id := range []string{"s2", "s1"} {
		_, err = a.CreateSession(t.Context(), archive.ListData{ID: id, Agent: "claude", Title: "T"})
		require.NoError(t, err, "createSessionRecord")
		epoch, err = a.TakeEpoch(t.Context(), id)
		require.NoError(t, err)
	}
	var ids []string
	for d, err := range a.Sessions(t.Context()) {
		require.NoError(t, err)
		ids = append(ids, d.ID)
	}
	require.Equal(t, []string{"s1", "s2"}, ids, "listAllSessions")

	for _, raw := range []string{"main", "main and more"} {
		_, err = a.SaveTranscript(t.Context(), "s1", epoch, []byte(raw), "", "main.jsonl")
		require.NoError(t, err)
	}
	for _, sub := range []string{"sub", "sub2"} {
		_, err = a.SaveTranscript(t.Context(), "s1", epoch, []byte(sub), sub, sub+".jsonl")
		require.NoError(t, err)
	}
	_, err = a.SaveTranscript(t.Context(), "s1", epoch, []byte("main"), "", "main.jsonl")
	require.ErrorIs(t, err, archive.ErrConflict, "a transcript never shrinks")
	_, err = workspace.SaveFile(t.Context(), a, "s1", epoch, "src/a b.txt", 0o755, []byte("hello\nworld"))
	require.NoError(t, err)

	saved, err := c.Load(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, "T", saved.Title)
	require.Equal(t, "main and more", string(saved.RawTranscript))
	require.Len(t, saved.Subagents, 2)
	require.Equal(t, "sub2", string(saved.Subagents[1].RawTranscript))
	require.Len(t, saved.WorkspaceFiles, 1)
	file, err := json.Marshal(saved.WorkspaceFiles[0])
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprintf(`{"path":"src/a b.txt","mode":493,"size":11,"sha256":"%x"}`, sha256.Sum256([]byte("hello\nworld"))), string(file))

	_, data, err := workspace.ReadFile(t.Context(), a, "s1", "src/a b.txt")
	require.NoError(t, err)
	require.Equal(t, "hello\nworld", string(data))
	require.NoError(t, workspace.DeleteFile(t.Context(), a, "s1", epoch, "src/a b.txt"))
	require.NoError(t, workspace.DeleteFile(t.Context(), a, "s1", epoch, "src/a b.txt"))
	_, _, err = workspace.ReadFile(t.Context(), a, "s1", "src/a b.txt")
	require.ErrorIs(t, err, archive.ErrNotFound)
	_, err = workspace.SaveFile(t.Context(), a, "s1", epoch, "../out", 0o644, nil)
	require.ErrorIs(t, err, archive.ErrInvalid)
}
