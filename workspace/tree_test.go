package workspace

import (
	"context"
	cryptorand "crypto/rand"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/skip"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// treeOf returns everything below a folder, byte for byte: by path its mode, its
// content or target, and a file's time.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		body := ""
		switch {
		case d.Type() == fs.ModeSymlink:
			body, err = os.Readlink(p)
		case d.Type().IsRegular():
			var raw []byte
			raw, err = os.ReadFile(p)
			body = info.ModTime().UTC().String() + " " + string(raw)
		}
		all[strings.TrimPrefix(p, dir+"/")] = fmt.Sprint(info.Mode(), " ", body)
		return err
	}))
	return all
}

func requireTree(t *testing.T, want map[string]string, dir string) {
	t.Helper()
	got := treeOf(t, dir)
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name := range want {
		require.Equalf(t, want[name], got[name], "%q", name)
	}
}

// gardener makes and changes random trees.
type gardener struct {
	t   *testing.T
	rnd *rand.Rand
	dir string
}

var oddNames = []string{"a", "b.txt", "n\xf6t utf-8", "\xff\xfe", "back\\slash", "co:lon", "new\nline", " ", "-", "ümlaut", "\u202e", "x=%2F", ".git", "dist", strings.Repeat("l", 255)}

func (g gardener) name() string {
	if g.rnd.IntN(2) == 0 {
		return oddNames[g.rnd.IntN(len(oddNames))]
	}
	return fmt.Sprintf("f%02d", g.rnd.IntN(30))
}

// folder returns one of the existing folders.
func (g gardener) folder() string {
	dirs := []string{g.dir}
	require.NoError(g.t, filepath.WalkDir(g.dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, p)
		}
		return err
	}))
	return dirs[g.rnd.IntN(len(dirs))]
}

func (g gardener) content() []byte {
	size := []int{0, 1, 100, 5000, 70_000, 3 << 20}[g.rnd.IntN(6)]
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(g.rnd.UintN(256))
	}
	return data
}

func (g gardener) step() {
	p := filepath.Join(g.folder(), g.name())
	if len(p) > 1500 {
		return
	}
	switch g.rnd.IntN(10) {
	case 0, 1:
		_ = os.RemoveAll(p)
	case 2, 3:
		_ = os.Mkdir(p, []fs.FileMode{0o755, 0o700, 0o750}[g.rnd.IntN(3)])
	case 4:
		_ = os.Symlink([]string{"f01", "../f02", "a/b/c", "\xff", "."}[g.rnd.IntN(5)], p)
	case 5:
		_ = os.Rename(filepath.Join(g.folder(), g.name()), p)
	default:
		if info, err := os.Lstat(p); err == nil && !info.Mode().IsRegular() {
			return
		}
		require.NoError(g.t, os.WriteFile(p, g.content(), 0o600))
		require.NoError(g.t, os.Chmod(p, []fs.FileMode{0o644, 0o755, 0o600, 0o444}[g.rnd.IntN(4)]))
		if g.rnd.IntN(3) == 0 {
			at := time.Unix(g.rnd.Int64N(2e9), g.rnd.Int64N(1e9))
			require.NoError(g.t, os.Chtimes(p, at, at))
		}
	}
}

// fence removes the links that lead outside: those are left out, which has its
// own test.
func (g gardener) fence() {
	require.NoError(g.t, filepath.WalkDir(g.dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == fs.ModeSymlink {
			if to, _ := os.Readlink(p); to == "../f02" && filepath.Dir(p) == g.dir {
				return os.Remove(p)
			}
		}
		return err
	}))
}

// A workspace is restored byte for byte, whatever is in it and however often it
// was changed, archived and restored.
func TestWorkspaceComesBackByteForByte(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			if seed > 0 {
				skip.InShort(t, "seed 0")
			}
			t.Parallel()
			b := provisioned(t, newArchive(t))
			rnd := rand.New(rand.NewPCG(seed, 1))
			for range 4 {
				g := gardener{t, rnd, b.path()}
				for range 3 {
					for range 60 {
						g.step()
					}
					g.fence()
					_, left := b.changes()
					require.Empty(t, left)
				}
				want := treeOf(t, b.path())
				b.end()
				b.forget()
				b.create()
				requireTree(t, want, b.path())
				changes, left := b.changes()
				require.Empty(t, changes, "what came back is no news")
				require.Empty(t, left)
			}
		})
	}
}

// A link that leads outside is archived as a link, is never followed and not
// restored, and that is reported as long as it is so.
func TestLinksThatLeadOutside(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("theirs"), 0o600))
	require.NoError(t, os.Mkdir(b.path("sub"), 0o755))
	links := map[string]string{
		"etc": "/etc", "secret": secret, "up": "../..", "sub/up": "../../x", "good": "sub", "sub/root": "..", "sub/out": "root/../../x",
	}
	for name, to := range links {
		require.NoError(t, os.Symlink(to, b.path(filepath.FromSlash(name))))
	}
	_, left := b.changes()
	require.Contains(t, left, "which leads outside")
	for _, outside := range []string{"etc", "secret", "up", "sub/up", "sub/out"} {
		require.Equal(t, links[outside], b.archived()[outside].Link)
	}
	b.end()
	b.create()
	for range 2 {
		got := treeOf(t, b.path())
		require.Equal(t, []string{"good", "sub", "sub/root"}, slices.Sorted(maps.Keys(got)))
		_, left = b.changes()
		require.Contains(t, left, "is not made again")
		require.Equal(t, "/etc", b.archived()["etc"].Link, "named until something else stands there")
		b.forget()
	}
	require.NoError(t, os.WriteFile(b.path("etc"), nil, 0o600))
	require.NoError(t, os.RemoveAll(b.path("sub")))
	b.changes()
	require.Equal(t, []string{"etc", "good", "secret", "up"}, slices.Sorted(maps.Keys(b.archived())))
	require.Empty(t, b.archived()["etc"].Link)
}

// An agent that constantly swaps files, folders and links gets nothing from
// outside into the archive.
func TestSwapsDuringASync(t *testing.T) {
	t.Parallel()
	b := provisioned(t, newArchive(t))
	outside := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(outside, "d"), 0o755))
	for _, name := range []string{"f", "d/f"} {
		require.NoError(t, os.WriteFile(filepath.Join(outside, name), []byte("secret"), 0o600))
	}
	require.NoError(t, os.MkdirAll(b.path("d"), 0o755))
	b.write("d/f", "mine", 0o600)
	b.write("f", "mine", 0o600)
	stop, swapped := make(chan struct{}), make(chan struct{})
	d, f := b.path("d"), b.path("f")
	go func() {
		defer close(swapped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, p := range []string{d, f} {
				_ = os.Rename(p, p+"-real")
				_ = os.Symlink(filepath.Join(outside, filepath.Base(p)), p)
				_ = os.Remove(p)
				_ = os.Rename(p+"-real", p)
			}
		}
	}()
	for range 60 {
		b.changes()
		for name, file := range b.archived() {
			if file.Regular() {
				require.Equalf(t, int64(4), file.Size, "%s is not ours", name)
			}
		}
	}
	close(stop)
	<-swapped
}

// stopwatch returns the elapsed time, and how much of it this process computed.
func stopwatch(t *testing.T) func() string {
	t.Helper()
	cpu := func() time.Duration {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began, used := time.Now(), cpu()
	return func() string {
		return fmt.Sprint(time.Since(began).Round(time.Millisecond), " (", (cpu() - used).Round(time.Millisecond), " of CPU)")
	}
}

// manyFiles is how many files the test of many has: with SOJOURN_LONG set, in
// the nightly runs, a hundred thousand.
func manyFiles() (folders, files int) {
	if os.Getenv("SOJOURN_LONG") != "" {
		return 500, 200
	}
	return 50, 100
}

// Many files cost requests by their bytes, nothing while they don't change, and
// the change of one costs a few kilobytes.
func TestWorkspaceOfManyFiles(t *testing.T) {
	skip.InShort(t, "it writes ten thousands of files")
	t.Parallel()
	wire := &teststack.Wire{}
	b := provisioned(t, archiveIn(t, strings.ToLower(cryptorand.Text()), wire))
	folders, files := manyFiles()
	for i := range folders {
		dir := b.path("src", fmt.Sprintf("pkg%03d", i))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for j := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%03d.go", j)), fmt.Appendf(nil, "package pkg%03d // %d\n", i, j), 0o644))
		}
	}
	look := func(what string) (requests, bytes int64, read int) {
		b.reads = 0
		wire.Asked()
		took := stopwatch(t)
		_, left, err := b.Sync(t.Context())
		require.NoError(t, err)
		require.Empty(t, left)
		requests, bytes = wire.Asked()
		t.Logf("%-12s %4d requests, %8d bytes up, %6d files read, %s", what, requests, bytes, b.reads, took())
		return requests, bytes, b.reads
	}
	requests, _, read := look("first")
	require.Equal(t, folders*files, read)
	require.Less(t, requests, int64(20))
	b.settle()
	requests, sent, read := look("unchanged")
	require.Zero(t, requests)
	require.Zero(t, sent)
	require.Zero(t, read)
	b.write("src/pkg025/file050.go", "package changed\n", 0o644)
	requests, sent, read = look("one changed")
	require.Equal(t, 1, read)
	require.LessOrEqual(t, requests, int64(4))
	require.Less(t, sent, int64(64<<10))

	b.forget()
	requests, _, read = look("new worker")
	require.Equal(t, folders*files, read)
	require.Less(t, requests, int64(20))
	wire.Asked()
	took := stopwatch(t)
	b.create()
	requests, _ = wire.Asked()
	t.Logf("%-12s %4d requests, %s", "restored", requests, took())
	require.Less(t, requests, int64(40))
	got, err := os.ReadFile(b.path("src", "pkg025", "file050.go"))
	require.NoError(t, err)
	require.Equal(t, "package changed\n", string(got))
	entries, err := os.ReadDir(b.path("src"))
	require.NoError(t, err)
	require.Len(t, entries, folders)
}

// A scan that is interrupted at any request leaves nothing that disturbs the next
// one.
func TestSyncsThatAreBrokenOff(t *testing.T) {
	t.Parallel()
	wire := &teststack.Wire{}
	b := provisioned(t, archiveIn(t, strings.ToLower(cryptorand.Text()), wire))
	for at := 1; at <= 5; at++ {
		name := fmt.Sprint("file", at)
		b.write(name, "content", 0o644)
		ctx, cancel := context.WithCancel(t.Context())
		before := wire.Count()
		wire.Cut = func(n int) (bool, bool) {
			if n == before+at {
				cancel()
			}
			return false, n == before+at
		}
		seen, _, err := b.Sync(ctx)
		events := fileChanges(published(t, &b.Notifier, seen...))
		if err != nil {
			require.Error(t, ctx.Err())
		}
		wire.Cut = nil
		cancel()
		changes, _ := b.changes()
		require.Equal(t, []string{"created " + name}, append(events, changes...), "told once")
		require.Contains(t, b.archived(), name)
	}
}
