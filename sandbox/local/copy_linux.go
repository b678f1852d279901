package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"

	"github.com/sojourn-run/sojourn/sandbox"
)

// openArea opens an area so that nothing in it leads out.
func (b *box) openArea(area sandbox.Area) (*os.Root, error) {
	dir := area.In(b.paths())
	if dir == "" {
		return nil, fmt.Errorf("unknown area %q", area)
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) && !b.stands() {
		return nil, sandbox.ErrTerminated
	}
	return root, err
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
	if err = errors.Join(append([]error{err}, c.bad...)...); err != nil {
		return fmt.Errorf("sandbox %s: copy in: %w", b.record.ID, err)
	}
	return nil
}

// copyIn is one copy under way.
type copyIn struct {
	root   *os.Root
	limits sandbox.Limits
	count  int
	bytes  int64
	links  []sandbox.File
	dirs   []sandbox.File
	bad    []error
}

// all returns what ended the copy; what was skipped is in bad.
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
		if err := c.one(f); errors.Is(err, sandbox.ErrLimit) {
			return err
		} else if err != nil {
			c.bad = append(c.bad, err)
		}
	}
	c.finish()
	return nil
}

func (c *copyIn) one(f sandbox.File) error {
	if err := f.Check(); err != nil {
		return err
	}
	switch f.Mode.Type() {
	case fs.ModeDir:
		c.dirs = append(c.dirs, f)
		return c.root.MkdirAll(f.Path, 0o755)
	case fs.ModeSymlink:
		c.links = append(c.links, f)
		return nil
	}
	return c.file(f)
}

// file replaces whatever stands at the path: writing through a standing
// symlink, or into a file that something has open, would surprise.
func (c *copyIn) file(f sandbox.File) error {
	if err := c.makeWay(f.Path); err != nil {
		return err
	}
	w, err := c.root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	body := f.Body
	if body == nil {
		body = eof{}
	}
	n, err := io.Copy(w, io.LimitReader(body, c.limits.Bytes-c.bytes+1))
	c.bytes += n
	if err = errors.Join(err, w.Close()); err != nil {
		// Half a file must not be taken for one.
		return errors.Join(fmt.Errorf("write %s: %w", f.Path, err), c.root.Remove(f.Path))
	}
	if c.bytes > c.limits.Bytes {
		return fmt.Errorf("more than %d bytes: %w", c.limits.Bytes, sandbox.ErrLimit)
	}
	return c.dress(f)
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

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
	if err == nil {
		err = c.root.Remove(name)
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return nil
}

// dress gives mode and time.
func (c *copyIn) dress(f sandbox.File) error {
	if err := c.root.Chmod(f.Path, f.Mode.Perm()); err != nil {
		return err
	}
	if f.ModTime.IsZero() {
		return nil
	}
	return c.root.Chtimes(f.Path, f.ModTime, f.ModTime)
}

// finish makes the symlinks, then gives folders their modes, deepest first,
// since they may forbid writing.
func (c *copyIn) finish() {
	for _, f := range c.links {
		if err := c.link(f); err != nil {
			c.bad = append(c.bad, err)
		}
	}
	slices.Reverse(c.dirs)
	for _, f := range c.dirs {
		if err := c.dress(f); err != nil {
			c.bad = append(c.bad, err)
		}
	}
}

func (c *copyIn) link(f sandbox.File) error {
	// Below a symlinked folder the target's words would mean another place
	// than the one that was checked.
	for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
		info, err := c.root.Lstat(dir)
		if err == nil && info.Mode().Type() == fs.ModeSymlink {
			return fmt.Errorf("symlink %q lies below the symlink %q: %w", f.Path, dir, sandbox.ErrEscape)
		}
	}
	if err := c.makeWay(f.Path); err != nil {
		return err
	}
	return c.root.Symlink(f.Link, f.Path)
}
