package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/runner"
)

// watched is a folder that is being watched.
type watched struct {
	t    *testing.T
	dir  string
	told chan runner.FileChange
	// now is what was reported last, by path.
	now map[string]runner.FileChange
	// count is how often each path was reported.
	count map[string]int
}

func watchFolder(t *testing.T, dir string, o Options) *watched {
	t.Helper()
	w := &watched{t: t, dir: dir, told: make(chan runner.FileChange, 10_000), now: map[string]runner.FileChange{}, count: map[string]int{}}
	o.Dir = dir
	if o.Quiet == 0 {
		o.Quiet = 20 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, o, func(c runner.FileChange) error { w.told <- c; return nil })
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return w
}

// ready waits until changes are reported.
func (w *watched) ready() *watched {
	w.t.Helper()
	for i := 0; ; i++ {
		w.write(fmt.Sprint("ready", i), "x")
		select {
		case <-w.told:
			return w
		case <-time.After(50 * time.Millisecond):
			require.Less(w.t, i, 400)
		}
	}
}

func (w *watched) path(name string) string { return filepath.Join(w.dir, name) }

func (w *watched) write(name, content string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(content), 0o644))
}

// until waits until a condition on the reported changes holds.
func (w *watched) until(what string, holds func() bool) {
	w.t.Helper()
	patience := time.After(time.Minute)
	for !holds() {
		select {
		case c := <-w.told:
			w.now[c.Path] = c
			w.count[c.Path]++
		case <-patience:
			require.Fail(w.t, "was not told: "+what)
		}
	}
}

func (w *watched) untilText(name, content string) {
	w.t.Helper()
	w.until(name, func() bool { c := w.now[name].Content; return c != nil && *c == content })
}

func (w *watched) untilGone(name string) {
	w.t.Helper()
	w.until(name+" is gone", func() bool { return w.now[name].Gone })
}

func TestWatchTellsChanges(t *testing.T) {
	t.Parallel()
	w := watchFolder(t, t.TempDir(), Options{Ignore: []string{".git", "node_modules"}}).ready()
	w.write("a/b/c.txt", "one")
	w.untilText("a/b/c.txt", "one")
	w.write("a/b/c.txt", "two")
	w.untilText("a/b/c.txt", "two")
	require.NoError(t, os.Chmod(w.path("a/b/c.txt"), 0o755))
	w.until("the mode", func() bool { return w.now["a/b/c.txt"].Mode == 0o755 })
	require.NoError(t, os.Rename(w.path("a/b"), w.path("moved")))
	w.untilGone("a/b/c.txt")
	w.untilText("moved/c.txt", "two")
	w.write("moved/d", "in a folder that moved")
	w.untilText("moved/d", "in a folder that moved")
	require.NoError(t, os.RemoveAll(w.path("moved")))
	w.untilGone("moved/c.txt")
	w.untilGone("moved/d")
	w.write("n\xff", "odd")
	w.untilText("n\xff", "odd")

	w.write(".git/HEAD", "x")
	w.write("x/node_modules/y", "x")
	w.write("raw", "\x00\x01")
	w.write("long", strings.Repeat("x", 32<<10+1))
	w.write("z", "last")
	w.untilText("z", "last")
	require.Nil(t, w.now["raw"].Content, "no text")
	require.Equal(t, int64(2), w.now["raw"].Size)
	require.Nil(t, w.now["long"].Content)
	for name := range w.now {
		require.NotContains(t, name, ".git/")
		require.NotContains(t, name, "node_modules")
	}
}

// Links are not followed, whether they existed before or replace a file.
func TestWatchFollowsNoLink(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o600))
	w := watchFolder(t, t.TempDir(), Options{}).ready()
	w.write("f", "mine")
	w.untilText("f", "mine")
	require.NoError(t, os.Symlink(outside, w.path("d")))
	require.NoError(t, os.Symlink(w.path("f"), w.path("inside")))
	require.NoError(t, os.Remove(w.path("f")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "f"), w.path("f")))
	w.untilGone("f")
	w.write("z", "last")
	w.untilText("z", "last")
	for name, c := range w.now {
		require.False(t, strings.HasPrefix(name, "d/") || name == "inside", name)
		require.True(t, c.Content == nil || *c.Content != "secret", name)
	}
}

// What existed before is not reported; what changed since the given time is.
func TestWatchSince(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), []byte("new"), 0o600))
	w := watchFolder(t, dir, Options{Since: time.Now().Add(-time.Hour)})
	w.untilText("new", "new")
	later := watchFolder(t, dir, Options{Since: time.Now().Add(time.Hour)}).ready()
	require.NoError(t, os.Remove(filepath.Join(dir, "new")))
	later.untilGone("new")
	require.Equal(t, 1, later.count["new"])
}

// A burst is reported at a bounded rate, each file once; one that is written in
// steps is not reported step by step.
func TestWatchGathers(t *testing.T) {
	t.Parallel()
	w := watchFolder(t, t.TempDir(), Options{Burst: 20}).ready()
	f, err := os.Create(w.path("steps"))
	require.NoError(t, err)
	for i := range 500 {
		_, err := fmt.Fprintln(f, i)
		require.NoError(t, err)
		w.write(fmt.Sprintf("many/%03d", i), "x")
	}
	require.NoError(t, f.Close())
	w.until("all", func() bool { return len(w.now) >= 501 && w.now["steps"].Size == 1890 })
	require.Less(t, w.count["steps"], 250, "of 500 steps")
	require.LessOrEqual(t, w.count["many/400"], 2, "empty, then written")
}

// lossy is the kernel's queue, which overflows when the test wants.
type lossy struct {
	notices
	mu   sync.Mutex
	drop bool
	// dropped is closed when the folder "deep" was dropped, the last of them: nothing
	// below it is watched.
	dropped chan struct{}
	over    chan struct{}
	came    chan []notice
	end     chan struct{}
	once    sync.Once
}

func newLossy(t *testing.T) *lossy {
	t.Helper()
	real, err := openInotify()
	require.NoError(t, err)
	l := &lossy{notices: real, dropped: make(chan struct{}), over: make(chan struct{}), came: make(chan []notice), end: make(chan struct{})}
	go func() {
		for {
			some, err := real.next()
			if err != nil {
				l.once.Do(func() { close(l.end) })
				return
			}
			l.mu.Lock()
			drop := l.drop
			l.mu.Unlock()
			if drop {
				if slices.ContainsFunc(some, func(n notice) bool { return n.name == "deep" }) {
					close(l.dropped)
				}
				continue
			}
			select {
			case l.came <- some:
			case <-l.end:
				return
			}
		}
	}()
	return l
}

func (l *lossy) set(drop bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop = drop
}

func (l *lossy) next() ([]notice, error) {
	select {
	case some := <-l.came:
		return some, nil
	case <-l.over:
		return []notice{{lost: true}}, nil
	case <-l.end:
		return nil, os.ErrClosed
	}
}

func (l *lossy) close() error {
	l.once.Do(func() { close(l.end) })
	return l.notices.close()
}

// What the kernel's queue lost is found by scanning everything again, and new
// folders are watched from then on.
func TestWatchRescansOnOverflow(t *testing.T) {
	t.Parallel()
	queue := newLossy(t)
	rescanned := make(chan struct{}, 10)
	w := watchFolder(t, t.TempDir(), Options{
		notices: func() (notices, error) { return queue, nil }, rescanned: func() { rescanned <- struct{}{} },
	}).ready()
	w.write("gone", "x")
	w.write("changed", "one")
	w.untilText("gone", "x")
	w.untilText("changed", "one")
	queue.set(true)
	require.NoError(t, os.Remove(w.path("gone")))
	w.write("changed", "two")
	w.write("deep/er/new", "new")
	<-queue.dropped
	queue.set(false)
	queue.over <- struct{}{}
	<-rescanned
	w.untilGone("gone")
	w.untilText("changed", "two")
	w.untilText("deep/er/new", "new")
	w.write("deep/er/later", "later")
	w.untilText("deep/er/later", "later")
}

// If the kernel watches no more folders, all are scanned periodically.
func TestWatchWithoutWatches(t *testing.T) {
	t.Parallel()
	real, err := openInotify()
	require.NoError(t, err)
	w := watchFolder(t, t.TempDir(), Options{Again: 20 * time.Millisecond, notices: func() (notices, error) { return full{real}, nil }}).ready()
	w.write("a/b", "seen")
	w.untilText("a/b", "seen")
	require.NoError(t, os.RemoveAll(w.path("a")))
	w.untilGone("a/b")
}

// full is a kernel that watches no more.
type full struct{ notices }

func (full) watch(*os.File) (int, error) { return 0, os.ErrPermission }
