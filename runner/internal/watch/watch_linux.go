package watch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/runner"
)

// Options of [Run].
type Options struct {
	// Dir is the folder; required.
	Dir string
	// Ignore are names, not paths, of folders that are skipped.
	Ignore []string
	// Since is a time: files that changed after it are reported at the start.
	// Default: none are.
	Since time.Time
	// Quiet is how long there must be no change before changes are reported, Longest
	// how long they are delayed at most. Default: 200 ms and 1 s.
	Quiet, Longest time.Duration
	// Burst is how many files are reported per Quiet. Default: 100.
	Burst int
	// ContentBytes is the longest text that is reported. Default: 32 KiB.
	ContentBytes int64
	// FileBytes is the largest file whose changes are reported, since all of a file
	// is read. Default: 8 MiB.
	FileBytes int64
	// Again is how often everything is scanned if the kernel can watch no more
	// folders. Default: 5 s.
	Again time.Duration

	// notices opens the source of notices, for tests.
	notices func() (notices, error)
	// rescanned is called after everything was scanned again, for tests.
	rescanned func()
}

// notices is the kernel's queue.
type notices interface {
	// watch reports changes in a folder under a number.
	watch(dir *os.File) (int, error)
	forget(number int)
	// next blocks for some changes; after an error there are no more.
	next() ([]notice, error)
	close() error
}

// notice is a change in a watched folder.
type notice struct {
	number int
	name   string
	folder bool
	// lost means that notices before this one were lost.
	lost bool
	// dropped means that the number is not used any more.
	dropped bool
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&o.Quiet, 200*time.Millisecond)
	set(&o.Longest, time.Second)
	set(&o.Again, 5*time.Second)
	if o.Burst == 0 {
		o.Burst = 100
	}
	if o.ContentBytes == 0 {
		o.ContentBytes = 32 << 10
	}
	if o.FileBytes == 0 {
		o.FileBytes = 8 << 20
	}
	if o.notices == nil {
		o.notices = openInotify
	}
	return o
}

// state is a file as it was last seen.
type state struct {
	stamp [4]int64
	sum   string
	mode  fs.FileMode
}

type watcher struct {
	o      Options
	root   *os.Root
	report func(runner.FileChange) error
	in     notices

	numbers map[int]string
	folders map[string]int
	files   map[string]state
	// dirty are paths that may have changed.
	dirty map[string]bool
	// blind means that not every folder is watched.
	blind bool
}

// Run calls report with changes until ctx ends, or until report or the folder fails.
func Run(ctx context.Context, o Options, report func(runner.FileChange) error) error {
	o = o.withDefaults()
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer root.Close()
	in, err := o.notices()
	if err != nil {
		return fmt.Errorf("watch %s: %w", o.Dir, err)
	}
	w := &watcher{
		o: o, root: root, report: report, in: in, numbers: map[int]string{}, folders: map[string]int{},
		files: map[string]state{}, dirty: map[string]bool{},
	}
	come, done := make(chan []notice, 64), make(chan struct{})
	go func() {
		defer close(done)
		defer close(come)
		w.pump(ctx, come)
	}()
	err = w.run(ctx, come)
	err = errors.Join(err, in.close())
	for range come { // until the pump has seen the end
	}
	<-done
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (w *watcher) pump(ctx context.Context, come chan<- []notice) {
	for {
		some, err := w.in.next()
		if err != nil {
			return
		}
		select {
		case come <- some:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watcher) run(ctx context.Context, come <-chan []notice) error {
	w.scan(".", true)
	quiet, longest, again := newAlarm(), newAlarm(), time.NewTicker(w.o.Again)
	defer again.Stop()
	defer quiet.off()
	defer longest.off()
	for {
		if len(w.dirty) > 0 {
			longest.on(w.o.Longest)
			quiet.on(w.o.Quiet)
		}
		select {
		case <-ctx.Done():
			return nil
		case some, more := <-come:
			if !more {
				return errors.New("the kernel's notices ended")
			}
			w.note(some)
			quiet.off()
		case <-again.C:
			if w.blind {
				w.rescan()
			}
		case <-quiet.C():
			if err := w.flush(); err != nil {
				return err
			}
			quiet.off()
			longest.off()
		case <-longest.C():
			if err := w.flush(); err != nil {
				return err
			}
			quiet.off()
			longest.off()
		}
	}
}

// alarm is a timer that is set once at a time.
type alarm struct{ timer *time.Timer }

func newAlarm() *alarm { return &alarm{} }

func (a *alarm) on(after time.Duration) {
	if a.timer == nil {
		a.timer = time.NewTimer(after)
	}
}

func (a *alarm) off() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// C never fires while the alarm is off.
func (a *alarm) C() <-chan time.Time {
	if a.timer == nil {
		return nil
	}
	return a.timer.C
}

func (w *watcher) note(some []notice) {
	for _, n := range some {
		if n.lost {
			w.rescan()
			return
		}
		dir, known := w.numbers[n.number]
		switch {
		case !known:
		case n.dropped:
			w.drop(n.number)
		case n.name == "" || w.ignored(n.name):
		case n.folder:
			w.renewed(path.Join(dir, n.name))
		default:
			w.dirty[path.Join(dir, n.name)] = true
		}
	}
}

func (w *watcher) ignored(name string) bool { return slices.Contains(w.o.Ignore, name) }

func (w *watcher) drop(number int) {
	if dir, known := w.numbers[number]; known {
		delete(w.numbers, number)
		if w.folders[dir] == number {
			delete(w.folders, dir)
		}
	}
}

// renewed handles a folder that was created, removed or moved: files known below
// it may be gone, and others may be new.
func (w *watcher) renewed(dir string) {
	if _, known := w.folders[dir]; !known {
		w.scan(dir, false)
		return
	}
	below := dir + "/"
	for name := range w.files {
		if strings.HasPrefix(name, below) {
			w.dirty[name] = true
		}
	}
	for name, number := range w.folders {
		if name == dir || strings.HasPrefix(name, below) {
			w.drop(number)
			w.in.forget(number)
		}
	}
	w.scan(dir, false)
}

// rescan scans everything, since notices were lost.
func (w *watcher) rescan() {
	was := maps.Clone(w.files)
	w.blind = false
	for name := range w.scan(".", false) {
		delete(was, name)
	}
	for name := range was {
		w.dirty[name] = true
	}
	if w.o.rescanned != nil {
		w.o.rescanned()
	}
}

// scan watches a folder and all below it, and marks the files that changed. At
// the beginning, files older than Since are recorded without being reported. It
// returns the files found.
func (w *watcher) scan(dir string, beginning bool) map[string]bool {
	found := map[string]bool{}
	for todo := []string{dir}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range w.list(at) {
			name := path.Join(at, e.Name())
			if w.ignored(e.Name()) {
				continue
			}
			if e.IsDir() {
				todo = append(todo, name)
				continue
			}
			found[name] = true
			w.compare(name, e, beginning)
		}
	}
	return found
}

// list watches a folder and then reads it, so that no change in between is
// missed.
func (w *watcher) list(dir string) []fs.DirEntry {
	f, err := w.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if _, known := w.folders[dir]; !known {
		number, err := w.in.watch(f)
		if err != nil {
			w.blind = true
		} else {
			w.numbers[number], w.folders[dir] = dir, number
		}
	}
	// What can't be read is left out.
	entries, _ := f.ReadDir(-1)
	return entries
}

func (w *watcher) compare(name string, e fs.DirEntry, beginning bool) {
	info, err := e.Info()
	if err != nil {
		return
	}
	stamp, changed := stampOf(info)
	was, known := w.files[name]
	switch {
	case beginning && (w.o.Since.IsZero() || changed.Before(w.o.Since)):
		w.files[name] = state{stamp: stamp}
	case !known || was.stamp != stamp:
		w.dirty[name] = true
	}
}

func stampOf(info fs.FileInfo) (stamp [4]int64, changed time.Time) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return [4]int64{info.Size(), info.ModTime().UnixNano()}, info.ModTime()
	}
	return [4]int64{int64(st.Ino), st.Size, st.Ctim.Nano(), int64(st.Mode)}, time.Unix(st.Ctim.Unix())
}

// flush reports some of the dirty files; the rest waits for the next time.
func (w *watcher) flush() error {
	names := slices.Sorted(maps.Keys(w.dirty))
	for _, name := range names[:min(len(names), w.o.Burst)] {
		delete(w.dirty, name)
		c, news := w.look(name)
		if !news {
			continue
		}
		if err := w.report(c); err != nil {
			return err
		}
	}
	return nil
}

// look reads a file; news reports whether it differs from the last read.
func (w *watcher) look(name string) (c runner.FileChange, news bool) {
	was, known := w.files[name]
	f, info, err := w.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		delete(w.files, name)
		return runner.FileChange{Path: name, Gone: true}, known
	}
	if err != nil {
		return c, false
	}
	defer f.Close()
	stamp, _ := stampOf(info)
	c = runner.FileChange{Path: name, Mode: info.Mode().Perm()}
	if info.Size() <= w.o.FileBytes {
		if err := w.read(f, &c); err != nil {
			return c, false
		}
	}
	w.files[name] = state{stamp, c.SHA256, c.Mode}
	return c, c.SHA256 != "" && (c.SHA256 != was.sum || c.Mode != was.mode)
}

// open opens a regular file, and nothing else that replaced it.
func (w *watcher) open(name string) (*os.File, fs.FileInfo, error) {
	current, err := w.root.Lstat(name)
	if errors.Is(err, syscall.ENOTDIR) || err == nil && !current.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(current, info) {
		err = errSwapped
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// errSwapped means that the file was replaced by another one while it was read;
// the kernel reports that one as well.
var errSwapped = errors.New("the file was replaced")

func (w *watcher) read(f *os.File, c *runner.FileChange) error {
	data, err := io.ReadAll(io.LimitReader(f, w.o.FileBytes+1))
	if err != nil || int64(len(data)) > w.o.FileBytes {
		return err
	}
	sum := sha256.Sum256(data)
	c.Size, c.SHA256 = int64(len(data)), hex.EncodeToString(sum[:])
	if int64(len(data)) <= w.o.ContentBytes && utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		text := string(data)
		c.Content = &text
	}
	return nil
}
