package workspace

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/sandbox/local"
	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/test/teststack"
)

func TestMain(m *testing.M) {
	code := m.Run()
	servers.Stop()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// servers has the S3 gateway of the tests.
var servers teststack.Shared

// newArchive returns an archive for one test.
func newArchive(t testing.TB) *archive.Archive {
	t.Helper()
	return archiveIn(t, strings.ToLower(rand.Text()), http.DefaultTransport)
}

// archiveIn returns the archive as another process on a namespace opens it.
func archiveIn(t testing.TB, namespace string, transport http.RoundTripper) *archive.Archive {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-workspace-test", Namespace: namespace, Client: teststack.Client(servers.S3(t), transport),
	})
	require.NoError(t, err)
	require.NoError(t, a.Setup(t.Context()))
	return a
}

func take(t testing.TB, a *archive.Archive, session string) uint64 {
	t.Helper()
	epoch, err := a.TakeEpoch(t.Context(), session)
	require.NoError(t, err)
	return epoch
}

// bench is one session's workspace, in real sandboxes.
type bench struct {
	t        *testing.T
	archive  *archive.Archive
	provider sandbox.Provider
	epoch    uint64
	sb       sandbox.Sandbox
	*Syncer
}

// provisioned returns a bench with a sandbox.
func provisioned(t *testing.T, a *archive.Archive) *bench {
	t.Helper()
	run, err := filepath.Abs(filepath.Join("..", "bin", "sojourn-runner"))
	require.NoError(t, err)
	if _, err := os.Stat(run); err != nil {
		skip.Without(t, "bin/sojourn-runner: make build makes it")
	}
	// The control socket's path is short, and t.TempDir's is not.
	dir, err := os.MkdirTemp("", "sj")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	provider, err := local.New(t.Context(), local.Options{DataDir: dir, Runner: run, UserHome: "-", UnsafeLocal: true})
	require.NoError(t, err)
	b := &bench{t: t, archive: a, provider: provider}
	b.create()
	return b
}

// create makes the next sandbox.
func (b *bench) create() {
	b.t.Helper()
	b.epoch = take(b.t, b.archive, "s1")
	var err error
	b.sb, err = b.provider.Create(b.t.Context(), sandbox.Spec{ID: fmt.Sprintf("s1-e%d", b.epoch), SessionID: "s1", Epoch: b.epoch})
	require.NoError(b.t, err)
	b.forget()
	_, err = b.Provision(b.t.Context(), sandbox.Files())
	require.NoError(b.t, err)
}

// forget replaces the syncer by another worker's, which remembers nothing.
func (b *bench) forget() { b.Syncer = NewSyncer(b.archive, b.sb, "s1", b.epoch) }

// end ends the sandbox as a session does.
func (b *bench) end() {
	b.t.Helper()
	_, _, err := b.SyncLast(b.t.Context())
	require.NoError(b.t, err)
	require.NoError(b.t, b.sb.Terminate(b.t.Context()))
}

// path returns a path in the workspace.
func (b *bench) path(elem ...string) string {
	b.t.Helper()
	info, err := b.sb.Info(b.t.Context())
	require.NoError(b.t, err)
	return filepath.Join(append([]string{info.Paths.Workspace}, elem...)...)
}

func (b *bench) write(name, content string, mode fs.FileMode) {
	b.t.Helper()
	path := b.path(filepath.FromSlash(name))
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(b.t, os.WriteFile(path, []byte(content), mode))
	require.NoError(b.t, os.Chmod(path, mode))
}

// archived returns the files that the archive has, without the folders.
func (b *bench) archived() map[string]File {
	b.t.Helper()
	s := openStore(b.t, b.archive, "s1", 0)
	all := map[string]File{}
	for _, f := range s.Files() {
		if !f.Mode.IsDir() {
			all[f.Path] = f
		}
	}
	return all
}

// changes returns what one sync reports, as "type path".
func (b *bench) changes() (changes []string, left string) {
	b.t.Helper()
	seen, left, err := b.Sync(b.t.Context())
	require.NoError(b.t, err)
	return fileChanges(published(b.t, &b.Notifier, seen...)), left
}

// published returns the events for what is new.
func published(t *testing.T, n *Notifier, seen ...Observation) (events []event.Event) {
	t.Helper()
	require.NoError(t, n.Publish(seen, func(all []event.Event) error {
		events = all
		return nil
	}))
	return events
}

func fileChanges(events []event.Event) []string {
	var found []string
	for _, ev := range events {
		switch p := ev.Payload.(type) {
		case event.FileCreated:
			found = append(found, "created "+p.Path)
		case event.FileModified:
			found = append(found, "modified "+p.Path)
		case event.FileDeleted:
			found = append(found, "deleted "+p.Path)
		}
	}
	return found
}

// settle makes the syncer treat everything as settled.
func (b *bench) settle() {
	b.t.Helper()
	for f, err := range b.sb.CopyOut(b.t.Context(), sandbox.Selection{Area: sandbox.AreaWorkspace}) {
		require.NoError(b.t, err)
		if r, read := b.last[f.Path]; read {
			r.stamp = f.Stamp
			b.last[f.Path] = r
		}
	}
}
