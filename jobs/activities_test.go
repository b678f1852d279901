package jobs

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
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

func openArchive(t *testing.T) *archive.Archive {
	t.Helper()
	return openArchiveBy(t, "ns-"+strings.ToLower(rand.Text()), http.DefaultTransport)
}

func openArchiveBy(t *testing.T, namespace string, transport http.RoundTripper) *archive.Archive {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-jobs-test", Prefix: "test", Namespace: namespace, Client: teststack.Client(servers.S3(t), transport),
	})
	require.NoError(t, err)
	require.NoError(t, a.Setup(t.Context()))
	return a
}

// A job does not write into the workspace of a session that exists; what its own earlier attempt
// wrote it replaces.
func TestFilesOfAnotherSessionAreLeftAlone(t *testing.T) {
	t.Parallel()
	a := &Activities{Archive: openArchive(t)}
	ctx := t.Context()
	put := func(text string) error {
		return a.PutFiles(ctx, PutFilesInput{SessionID: "s1", Agent: "claude", Files: []File{{Path: "a", Text: text}}})
	}
	require.NoError(t, put("1"))
	require.NoError(t, put("22"))
	epoch, err := a.Archive.TakeEpoch(ctx, "s1")
	require.NoError(t, err)
	_, err = a.Archive.CreateSession(ctx, archive.ListData{ID: "s1", Agent: "claude"})
	require.NoError(t, err)

	var invalid *session.InvalidError
	require.ErrorAs(t, session.FromTemporal(put("333")), &invalid)
	require.Equal(t, "sessionId", invalid.Field)
	now, err := a.Archive.Epoch(ctx, "s1")
	require.NoError(t, err)
	require.Equal(t, epoch, now, "the session is not fenced")
	store, err := workspace.Open(ctx, a.Archive, "s1", 0)
	require.NoError(t, err)
	require.Len(t, store.Files(), 1)
	require.EqualValues(t, 2, store.Files()[0].Size)
}

// uploading calls then, once, before the first contents of files are put.
type uploading struct {
	then func()
	once sync.Once
}

func (u *uploading) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/workspace/packs/") {
		u.once.Do(u.then)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A job does not write into the workspace of a session that starts while the files are uploaded.
func TestFilesOfAStartingSessionAreLeftAlone(t *testing.T) {
	t.Parallel()
	ctx, namespace := t.Context(), "ns-"+strings.ToLower(rand.Text())
	other := openArchiveBy(t, namespace, http.DefaultTransport)
	transport := &uploading{then: func() {
		_, err := other.CreateSession(ctx, archive.ListData{ID: "s1", Agent: "claude"})
		assert.NoError(t, err)
		_, err = other.TakeEpoch(ctx, "s1")
		assert.NoError(t, err)
	}}
	a := &Activities{Archive: openArchiveBy(t, namespace, transport)}
	in := PutFilesInput{SessionID: "s1", Agent: "claude", Files: []File{{Path: "a", Text: "1"}}}
	require.ErrorIs(t, a.PutFiles(ctx, in), archive.ErrFenced)
	store, err := workspace.Open(ctx, other, "s1", 0)
	require.NoError(t, err)
	require.Empty(t, store.Files())
	var invalid *session.InvalidError
	require.ErrorAs(t, session.FromTemporal(a.PutFiles(ctx, in)), &invalid)
	require.Equal(t, "sessionId", invalid.Field)
}

// Files that can't be together with the profile's are refused: no other attempt could write them.
func TestFilesThatDontFitTheProfile(t *testing.T) {
	t.Parallel()
	a := &Activities{Archive: openArchive(t), Profile: func(context.Context, string) (adapters.Profile, error) {
		return adapters.Profile{Workspace: map[string]string{"src": "a file"}}, nil
	}}
	in := PutFilesInput{SessionID: "s1", Agent: "claude", Profile: "p1", Files: []File{{Path: "src/main.go", Text: "x"}}}
	var invalid *session.InvalidError
	require.ErrorAs(t, session.FromTemporal(a.PutFiles(t.Context(), in)), &invalid)
	require.Equal(t, "files", invalid.Field)
}
