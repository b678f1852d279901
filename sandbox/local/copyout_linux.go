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
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/sandbox"
)

// CopyOut reads files; see [sandbox.Sandbox].
func (b *box) CopyOut(ctx context.Context, sel sandbox.Selection) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		root, err := b.openArea(sel.Area)
		if err == nil {
			defer root.Close()
			c := copyOut{ctx: ctx, root: root, sel: sel, yield: yield}
			err = c.all()
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(sandbox.File{}, fmt.Errorf("sandbox %s: copy out: %w", b.record.ID, short(err)))
		}
	}
}

// short marks an error that says nothing of what was to be read, with [sandbox.ErrShort].
func short(err error) error {
	for _, lack := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if errors.Is(err, lack) {
			return fmt.Errorf("%w: %w", sandbox.ErrShort, err)
		}
	}
	return err
}

// errEnough means that the caller stopped.
var errEnough = errors.New("enough")

// errNotCopied marks sockets, devices and pipes.
var errNotCopied = errors.New("not a file")

// copyOut walks by descriptors: each folder is opened in the one above it, and
// each name is inspected and opened in its folder, links never followed. So a
// swap by an agent can't lead elsewhere, and a name is bytes.
type copyOut struct {
	ctx   context.Context
	root  *os.Root
	sel   sandbox.Selection
	yield func(sandbox.File, error) bool
	// level is how deep below the selected path the walk is.
	level int
}

func (c *copyOut) all() error {
	paths := c.sel.Paths
	if len(paths) == 0 {
		paths = []string{"."}
	}
	for _, p := range paths {
		if p != "." && !sandbox.CleanPath(p) {
			return fmt.Errorf("path %q: %w", p, sandbox.ErrEscape)
		}
		if err := c.begin(p); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
	return nil
}

// begin opens the folder of a path through the root, which lets links lead
// elsewhere inside, and continues with descriptors. Nothing is below what is no folder:
// opened as a file, a named pipe would wait for a writer.
func (c *copyOut) begin(p string) error {
	dir, err := c.root.OpenFile(path.Dir(p), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	if p == "." {
		return c.folder(dir, "")
	}
	return c.entry(dir, path.Dir(p), path.Base(p))
}

func (c *copyOut) folder(dir *os.File, at string) error {
	names, err := namesIn(dir)
	if err != nil {
		return fmt.Errorf("folder %q: %w", at, err)
	}
	return c.entries(dir, at, names)
}

// namesAtMost bounds the names of one folder, which are in memory at once.
const namesAtMost = 1_000_000

func namesIn(dir *os.File) ([]string, error) {
	names, err := dir.Readdirnames(namesAtMost + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && len(names) > namesAtMost {
		err = fmt.Errorf("more than %d names: %w", namesAtMost, sandbox.ErrLimit)
	}
	slices.Sort(names)
	return names, err
}

func (c *copyOut) entries(dir *os.File, at string, names []string) error {
	c.level++
	defer func() { c.level-- }()
	for _, name := range names {
		if slices.Contains(c.sel.Exclude, name) {
			continue
		}
		if err := c.entry(dir, at, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// entry yields the entry with a name in a folder, and everything below it.
func (c *copyOut) entry(dir *os.File, at, name string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	f, err := look(dir, path.Join(at, name), name)
	if errors.Is(err, errNotCopied) {
		return nil
	}
	if err != nil {
		return err
	}
	if f.Mode.IsDir() {
		return c.below(dir, f, name)
	}
	body := &lazyBody{dir: dir, name: name, from: c.sel.From[f.Path], unlock: c.sel.Unlock}
	defer body.close()
	if f.Mode.IsRegular() {
		f.Body = body
	}
	return c.give(f)
}

func (c *copyOut) give(f sandbox.File) error {
	if !c.yield(f, nil) {
		return errEnough
	}
	return nil
}

func (c *copyOut) below(dir *os.File, f sandbox.File, name string) error {
	if c.sel.Depth > 0 && c.level >= c.sel.Depth {
		return c.give(f)
	}
	sub, names, err := c.openFolder(dir, f.Path, name)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, fs.ErrNotExist) {
		// It was replaced by something else.
		return fs.ErrNotExist
	}
	err = short(err)
	if err != nil && (!c.sel.Lenient || errors.Is(err, sandbox.ErrShort)) {
		return fmt.Errorf("folder %q: %w", f.Path, err)
	}
	if err != nil {
		f.Unreadable = true
		return c.give(f)
	}
	defer sub.Close()
	if err := c.give(f); err != nil {
		return err
	}
	return c.entries(sub, f.Path, names)
}

// levelsAtMost bounds how deep a walk goes, and so the descriptors that it holds;
// a path is bounded by the limit of system calls.
const levelsAtMost = 256

// openFolder opens a folder for a walk, with its names.
func (c *copyOut) openFolder(dir *os.File, at, name string) (sub *os.File, names []string, err error) {
	if c.level > levelsAtMost || len(at) >= unix.PathMax {
		return nil, nil, fmt.Errorf("more than %d levels or %d bytes deep: %w", levelsAtMost, unix.PathMax, sandbox.ErrLimit)
	}
	sub, err = openAt(dir, name, unix.O_DIRECTORY)
	if forbidden(err) && c.sel.Unlock && unlockAt(dir, name, 0o700) == nil {
		sub, err = openAt(dir, name, unix.O_DIRECTORY)
	}
	if err != nil {
		return nil, nil, err
	}
	if c.sel.Unlock {
		_ = unlock(int(sub.Fd()), 0o700) // the next error shows what it could not unlock
	}
	// A folder may be listable although its entries can't be reached.
	err = unix.Faccessat(int(sub.Fd()), ".", unix.X_OK, unix.AT_EACCESS)
	if err == nil {
		names, err = namesIn(sub)
	}
	if err != nil {
		return nil, nil, errors.Join(err, sub.Close())
	}
	return sub, names, nil
}

// openAt opens a name in a folder. A link is not followed, and a pipe that has
// replaced a file does not block.
func openAt(dir *os.File, name string, flags int) (*os.File, error) {
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Openat(int(dir.Fd()), name, flags|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func look(dir *os.File, at, name string) (sandbox.File, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return sandbox.File{}, &fs.PathError{Op: "lstat", Path: at, Err: err}
	}
	f := sandbox.File{
		Path: at, Mode: fs.FileMode(st.Mode & 0o777), Size: st.Size,
		ModTime: time.Unix(st.Mtim.Unix()), Changed: time.Unix(st.Ctim.Unix()), Stamp: stampOf(&st),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		f.Mode |= fs.ModeDir
	case unix.S_IFLNK:
		f.Mode |= fs.ModeSymlink
		return f, readLink(dir, name, &f)
	default:
		return f, errNotCopied
	}
	return f, nil
}

// stampOf returns a stamp with the change time, which, unlike the modification
// time, no program can set back.
func stampOf(st *unix.Stat_t) string {
	b := make([]byte, 0, 64)
	for _, n := range []int64{int64(st.Ino), st.Size, st.Ctim.Nano(), st.Mtim.Nano()} {
		b = append(strconv.AppendInt(b, n, 36), '.')
	}
	return string(b)
}

func readLink(dir *os.File, name string, f *sandbox.File) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if errors.Is(err, unix.EINVAL) {
		// It is not a link any more.
		return fs.ErrNotExist
	}
	if err != nil {
		return &fs.PathError{Op: "readlink", Path: f.Path, Err: err}
	}
	f.Link = string(buf[:n])
	return nil
}

// lazyBody opens the file at the first Read: a caller that only lists opens
// nothing.
type lazyBody struct {
	dir  *os.File
	name string
	from int64
	// unlock opens a file that its owner may not read.
	unlock bool
	file   *os.File
	err    error
}

func (l *lazyBody) Read(p []byte) (int, error) {
	if l.file == nil && l.err == nil {
		l.file, l.err = l.open()
	}
	if l.err != nil {
		return 0, short(l.err)
	}
	n, err := l.file.Read(p)
	return n, short(err)
}

func (l *lazyBody) open() (*os.File, error) {
	f, err := openAt(l.dir, l.name, 0)
	if forbidden(err) && l.unlock && unlockAt(l.dir, l.name, 0o600) == nil {
		f, err = openAt(l.dir, l.name, 0)
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		// A link or a socket has replaced the file.
		return nil, fmt.Errorf("file %q: %w", l.name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = fmt.Errorf("file %q: %w", l.name, fs.ErrNotExist)
	}
	if err == nil && l.from > 0 {
		_, err = f.Seek(l.from, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (l *lazyBody) close() {
	if l.file != nil {
		l.file.Close()
	}
}
