package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/sandbox"
)

// Limits of what is archived of a workspace, so that it is restored well within
// the time for making a sandbox. What exceeds them is left out, and reported.
const (
	maxFileBytes = 1 << 30
	maxBytes     = 4 << 30
	maxFiles     = 250_000
)

// An event carries a file's content if it is text up to this size, within the sum
// per scan.
const (
	maxEventFileBytes = 32 << 10
	maxEventBytes     = 1 << 20
)

// settled is how old a file's last change must be for its stamp to differ from
// that of the next one: clocks of file systems tick in milliseconds, some in
// seconds.
const settled = 2 * time.Second

// caches returns the names of folders that tools recreate by themselves; they are
// left out wherever they are. Anything else may be a person's work, including
// dist, build and .git.
func caches() []string {
	return []string{"node_modules", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
}

// ReadError means that what an agent left in its sandbox can't be read, as
// opposed to an archive that does not answer: a retry has the same result.
type ReadError struct{ Err error }

// Error returns the read's error text.
func (e *ReadError) Error() string { return e.Err.Error() }

// Unwrap returns the read's error.
func (e *ReadError) Unwrap() error { return e.Err }

// scan is one comparison of the workspace with the archive.
type scan struct {
	*Syncer
	// unlock makes unreadable files of the sandbox readable.
	unlock  bool
	started time.Time
	files   []File
	// found is what exists, by path.
	found map[string]kind
	// kept are paths that stay as they are archived, including unreadable folders.
	kept    map[string]bool
	unread  []string
	partial bool
	bytes   int64
	// eventBytes is how much text the observations have.
	eventBytes int
	seen       []Observation
	left       []string
}

// kind is the type of what is at a path.
type kind int

const (
	absent kind = iota
	regularFile
	folder
	link
)

func (s *scan) run(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	err := s.compare(ctx)
	_, unread := errors.AsType[*ReadError](err)
	if err != nil && !unread {
		return errors.Join(err, s.store.Flush(ctx))
	}
	// What was read until then is archived; the rest may exist.
	s.partial = s.partial || unread
	s.carry()
	s.observeGone()
	return errors.Join(err, s.store.Commit(ctx, s.files))
}

func (s *scan) compare(ctx context.Context) error {
	sel := sandbox.Selection{Area: sandbox.AreaWorkspace, Exclude: caches(), Lenient: true, Unlock: s.unlock}
	for f, err := range s.sb.CopyOut(ctx, sel) {
		if isOfContent(ctx, err) {
			err = &ReadError{err}
		}
		if err != nil {
			return err
		}
		if len(s.files) == maxFiles {
			s.partial = true
			s.leave("all behind the first %d files", maxFiles)
			return nil
		}
		if err := s.file(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) file(ctx context.Context, f sandbox.File) error {
	if checkPath(f.Path) != nil {
		s.leave("%.200q…, whose path is %d bytes", f.Path, len(f.Path)) // one refused path would refuse all
		return nil
	}
	switch f.Mode.Type() {
	case fs.ModeDir:
		if f.Unreadable {
			s.leave("what lies in %.200q, an unreadable folder", f.Path)
			s.unread = append(s.unread, f.Path+"/")
		}
		s.add(File{Path: f.Path, Mode: f.Mode})
		return nil
	case fs.ModeSymlink:
		if !sandbox.LinkStays(f.Path, f.Link) {
			s.leave("symlink %q, which leads outside", f.Path)
		}
		s.add(File{Path: f.Path, Mode: fs.ModeSymlink, Link: f.Link})
		return nil
	}
	return s.regular(ctx, f)
}

func (s *scan) regular(ctx context.Context, f sandbox.File) error {
	if f.Size > maxFileBytes {
		s.keep(f.Path, fmt.Sprintf("over %d MiB", maxFileBytes>>20))
		return nil
	}
	if s.bytes+f.Size > maxBytes {
		s.keep(f.Path, fmt.Sprintf("over %d MiB in all", maxBytes>>20))
		return nil
	}
	now := File{Path: f.Path, Mode: f.Mode, ModTime: timeOf(f)}
	if last := s.last[f.Path]; last.stamp != "" && last.stamp == f.Stamp && s.store.Has(last.file) {
		s.add(now.WithContent(last.file))
		return nil
	}
	start := &prefix{limit: maxEventFileBytes + 1}
	s.reads++
	body := &errorReader{Reader: bodyOf(f)}
	content, err := s.store.Put(ctx, io.TeeReader(io.LimitReader(body, maxFileBytes+1), start))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// It was removed since the listing: the next scan notices.
		return nil
	case isOfContent(ctx, body.err):
		s.keep(f.Path, "which can't be read")
		return nil
	case err != nil:
		return err
	}
	now = now.WithContent(content)
	read := readFile{file: now}
	if f.Changed.Before(s.started.Add(-settled)) {
		read.stamp = f.Stamp
	}
	s.last[f.Path] = read
	s.add(now)
	s.observe(now, start.data)
	return nil
}

// isOfContent reports whether an error of a read is one of what was to be read: the read was
// not canceled, and the host not too short for it.
func isOfContent(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && !errors.Is(err, sandbox.ErrShort)
}

// timeOf returns a file's time, or zero for one that a manifest could not have or a
// restore could not set: a file system may have any, and an agent may set it.
func timeOf(f sandbox.File) time.Time {
	if !time.Unix(0, f.ModTime.UnixNano()).Equal(f.ModTime) {
		return time.Time{}
	}
	return f.ModTime.UTC()
}

func bodyOf(f sandbox.File) io.Reader {
	if f.Body == nil {
		return strings.NewReader("")
	}
	return f.Body
}

func (s *scan) add(f File) {
	s.files = append(s.files, f)
	switch f.Mode.Type() {
	case 0:
		s.found[f.Path] = regularFile
	case fs.ModeDir:
		s.found[f.Path] = folder
	default:
		s.found[f.Path] = link
	}
	s.bytes += f.Size
}

// keep leaves a file as it is archived.
func (s *scan) keep(name, why string) {
	s.kept[name] = true
	s.leave("%q, %s", name, why)
}

// carry takes over archived entries that were not scanned; the others do not
// exist any more and are dropped.
func (s *scan) carry() {
	for _, f := range s.store.Files() {
		if s.found[f.Path] != absent {
			continue
		}
		dir := path.Dir(f.Path)
		if (f.Held || s.mayExist(f.Path)) && (dir == "." || s.found[dir] == folder) {
			s.add(f)
			if f.Held {
				s.leave("%s", cmp.Or(s.held[f.Path], heldOf(f)))
			}
			continue
		}
		delete(s.last, f.Path)
	}
}

// heldOf describes an entry that is in the archive only.
func heldOf(f File) string {
	if f.Mode.Type() == fs.ModeSymlink && !sandbox.LinkStays(f.Path, f.Link) {
		return linkHeld(f.Path)
	}
	return notRestored(f.Path)
}

func linkHeld(path string) string {
	return fmt.Sprintf("symlink %q, which leads outside and is not made again", path)
}

func notRestored(path string) string {
	return fmt.Sprintf("%q, which could not be restored and stays as it is archived", path)
}

// mayExist reports whether a path that was not found may exist all the same.
func (s *scan) mayExist(name string) bool {
	return s.partial || s.kept[name] || slices.ContainsFunc(s.unread, func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// observe records a file that was read, with the beginning of its content.
func (s *scan) observe(f File, start []byte) {
	o := Observation{Path: f.Path, SHA256: f.SHA256, Mode: f.Mode.Perm(), Size: f.Size, At: s.started}
	if quiet(f.Path) || !s.Notifier.isNews(o) {
		return
	}
	if len(start) <= maxEventFileBytes && s.eventBytes+len(start) <= maxEventBytes && isText(start) {
		s.eventBytes += len(start)
		o.Content = new(string(start))
	}
	s.seen = append(s.seen, o)
}

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// observeGone records what was published and does not exist any more.
func (s *scan) observeGone() {
	for _, name := range s.Notifier.existing() {
		if s.found[name] != regularFile && !s.mayExist(name) {
			s.seen = append(s.seen, Observation{Path: name, Gone: true, At: s.started})
		}
	}
}

func (s *scan) leave(format string, args ...any) {
	s.left = append(s.left, fmt.Sprintf(format, args...))
}

// leftOut describes what is not archived, "" for nothing: the first few by name,
// the rest by number.
func leftOut(left []string) string {
	if len(left) == 0 {
		return ""
	}
	const named = 3
	words := strings.Join(left[:min(named, len(left))], "; ")
	if more := len(left) - named; more > 0 {
		words += fmt.Sprintf("; and %d more", more)
	}
	return "not kept of the workspace: " + words
}

// prefix keeps the first bytes written to it.
type prefix struct {
	limit int
	data  []byte
}

// Write implements io.Writer and never fails.
func (b *prefix) Write(p []byte) (int, error) {
	b.data = append(b.data, p[:min(len(p), b.limit-len(b.data))]...)
	return len(p), nil
}

// errorReader keeps the error of a read, to distinguish it from one of the
// destination.
type errorReader struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (r *errorReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
