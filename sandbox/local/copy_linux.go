package local

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/sandbox"
)

// openArea opens an area so that nothing in it leads out.
func (b *box) openArea(area sandbox.Area) (*os.Root, error) {
	dir := area.In(b.paths())
	if dir == "" {
		return nil, fmt.Errorf("unknown area %q", area)
	}
	if dir != b.record.Workspace {
		// The worker sets its mode, whatever the agent changed it to.
		if err := unlockFolder(dir); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) && !b.exists() {
		return nil, sandbox.ErrTerminated
	}
	return root, err
}

// unlockFolder grants the owner all permissions on a folder, if it exists.
func unlockFolder(dir string) error {
	parent, err := os.Open(filepath.Dir(dir))
	if err == nil {
		defer parent.Close()
		err = unlockAt(parent, filepath.Base(dir), 0o700)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// CopyIn writes files into an area; see [sandbox.Sandbox].
func (b *box) CopyIn(ctx context.Context, area sandbox.Area, files iter.Seq2[sandbox.File, error]) error {
	root, err := b.openArea(area)
	if err != nil {
		return fmt.Errorf("sandbox %s: copy in: %w", b.record.ID, err)
	}
	defer root.Close()
	c := copyIn{root: root, limits: b.provider.options.Limits}
	err = c.all(ctx, files)
	if err == nil && len(c.skipped) > 0 {
		err = &sandbox.SkippedError{Files: c.skipped}
	}
	if err != nil {
		return fmt.Errorf("sandbox %s: copy in: %w", b.record.ID, err)
	}
	return nil
}

// copyIn is one copy in progress.
type copyIn struct {
	root    *os.Root
	limits  sandbox.Limits
	count   int
	bytes   int64
	links   []sandbox.File
	dirs    []sandbox.File
	skipped []sandbox.SkippedFile
}

// all returns the error that ended the copy.
func (c *copyIn) all(ctx context.Context, files iter.Seq2[sandbox.File, error]) error {
	for f, err := range files {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if c.count++; c.count > c.limits.Files {
			return fmt.Errorf("more than %d files: %w", c.limits.Files, sandbox.ErrLimit)
		}
		if err := c.skip(f, c.one(f)); err != nil {
			return err
		}
	}
	return c.finish()
}

// skip returns the error of a file's copy if it ends the whole; else the file is
// skipped. What the system refuses for another reason than the file's name, place
// or type (a full disk, missing permissions) it may refuse for any file.
func (c *copyIn) skip(f sandbox.File, err error) error {
	if err == nil {
		return nil
	}
	_, unread := errors.AsType[*bodyError](err)
	refused, bySystem := errors.AsType[unix.Errno](err)
	if errors.Is(err, sandbox.ErrLimit) || bySystem && !unread && !slices.Contains(ofFiles(), refused) {
		return err
	}
	c.skipped = append(c.skipped, sandbox.SkippedFile{Path: f.Path, Err: err})
	return nil
}

// ofFiles returns the errors of a file that can't be on a file system: its name is
// too long or has bytes that the file system does not take, it is too large, or
// something else is at its path or above it.
func ofFiles() []unix.Errno {
	return []unix.Errno{
		unix.ENAMETOOLONG, unix.EILSEQ, unix.EINVAL, unix.EFBIG, unix.EEXIST, unix.ENOTDIR, unix.EISDIR, unix.ELOOP,
	}
}

// bodyError is the error of reading a file's content.
type bodyError struct{ error }

// Unwrap returns the content's error.
func (e *bodyError) Unwrap() error { return e.error }

// bodyReader distinguishes the errors of a content from those of writing it.
type bodyReader struct{ io.Reader }

// Read implements io.Reader.
func (b bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	return n, err
}

func (c *copyIn) one(f sandbox.File) error {
	if err := f.Check(); err != nil {
		return err
	}
	switch f.Mode.Type() {
	case fs.ModeDir:
		err := c.root.MkdirAll(f.Path, 0o755)
		if err == nil {
			c.dirs = append(c.dirs, f)
		}
		return err
	case fs.ModeSymlink:
		c.links = append(c.links, f)
		return nil
	}
	return c.file(f)
}

// file replaces the file at a path in one step: a crash leaves the old file or
// the new one. Writing through an existing symlink, or into a file that another
// process has open, must be avoided.
func (c *copyIn) file(f sandbox.File) error {
	if err := c.makeWay(f.Path); err != nil {
		return err
	}
	fresh := freshName(f.Path)
	if err := c.fill(fresh, f); err != nil {
		// Half a file must not be taken for a whole one.
		if gone := c.root.Remove(fresh); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return err
	}
	if err := c.root.Rename(fresh, f.Path); err != nil {
		return errors.Join(fmt.Errorf("replace %s: %w", f.Path, err), c.root.Remove(fresh))
	}
	return nil
}

// freshName returns the name under which a file is written until it is whole: in
// the same folder, and the same each time, so that the next try replaces what a
// crash leaves.
func freshName(name string) string {
	return path.Join(path.Dir(name), fmt.Sprintf(".new-%08x", crc32.ChecksumIEEE([]byte(name))))
}

// fill writes a file's content, mode and time under an unused name.
func (c *copyIn) fill(name string, f sandbox.File) error {
	if err := c.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	w, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	body := f.Body
	if body == nil {
		body = eof{}
	}
	n, err := io.Copy(w, io.LimitReader(bodyReader{body}, c.limits.Bytes-c.bytes+1))
	c.bytes += n
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	if c.bytes > c.limits.Bytes {
		return fmt.Errorf("more than %d bytes: %w", c.limits.Bytes, sandbox.ErrLimit)
	}
	return c.dress(name, f)
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// makeWay makes the parent folder of a path, and fails if a folder is at the path.
func (c *copyIn) makeWay(name string) error {
	if err := c.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return fmt.Errorf("folder for %s: %w", name, err)
	}
	info, err := c.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir() {
		err = errors.New("a folder stands there")
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return nil
}

// dress sets the file's mode and time at a path.
func (c *copyIn) dress(name string, f sandbox.File) error {
	if err := c.root.Chmod(name, f.Mode.Perm()); err != nil {
		return err
	}
	if f.ModTime.IsZero() {
		return nil
	}
	return c.root.Chtimes(name, f.ModTime, f.ModTime)
}

// finish makes the symlinks, then sets the folders' modes, deepest first, since
// they may forbid writing.
func (c *copyIn) finish() error {
	for _, f := range c.links {
		if err := c.skip(f, c.link(f)); err != nil {
			return err
		}
	}
	slices.Reverse(c.dirs)
	for _, f := range c.dirs {
		if err := c.skip(f, c.dress(f.Path, f)); err != nil {
			return err
		}
	}
	return nil
}

func (c *copyIn) link(f sandbox.File) error {
	// Below a symlinked folder the target would resolve to another place than the one
	// that was checked.
	for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
		info, err := c.root.Lstat(dir)
		if err == nil && info.Mode().Type() == fs.ModeSymlink {
			return fmt.Errorf("symlink %q lies below the symlink %q: %w", f.Path, dir, sandbox.ErrEscape)
		}
	}
	if err := c.makeWay(f.Path); err != nil {
		return err
	}
	if err := c.root.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s: %w", f.Path, err)
	}
	return c.root.Symlink(f.Link, f.Path)
}
