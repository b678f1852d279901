package sandbox

import (
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"
)

// File is one file, folder or symlink of a copy.
type File struct {
	// Path is relative to the area, with slashes, clean, without "..". Names
	// are bytes, as the file system has them: not always UTF-8.
	Path string
	// Mode has the type (regular, fs.ModeDir or fs.ModeSymlink; nothing else
	// is copied) and the permission bits; setuid and the like are dropped.
	Mode fs.FileMode
	// Size is the whole file's length in bytes when it was read; with a Selection's
	// From the Body is shorter.
	Size    int64
	ModTime time.Time
	// Stamp identifies the file and its last change, in the provider's own form:
	// while a path has one stamp, nothing of the file has changed, except within a
	// tick of the file system's clock after Changed. CopyOut sets both if the
	// provider can; "" means not known. CopyIn ignores them.
	Stamp string
	// Changed is when anything of the file last changed, by a time that no program
	// can set back.
	Changed time.Time
	// Unreadable means that a folder could not be listed.
	Unreadable bool
	// Link is a symlink's target.
	Link string
	// Body is a regular file's content; nil means empty.
	Body io.Reader
}

// Selection selects what CopyOut reads.
type Selection struct {
	// Area is the area to read; required.
	Area Area
	// Paths are files or folders (with all below them) relative to the area. A
	// missing one is skipped. Default: the whole area.
	Paths []string
	// From is, by path, the offset at which a file's Body begins, for files that only
	// grow. A file that is shorter than that has an empty Body.
	From map[string]int64
	// Exclude are names (not paths) such as node_modules that are left out wherever
	// they are, with everything below them.
	Exclude []string
	// Lenient yields a folder that can't be listed, or is nested too deeply, as
	// Unreadable and continues; [ErrShort] remains an error. Default: it is an error.
	Lenient bool
	// Unlock grants the owner permissions on folders and files that their owner may
	// not read, if possible; the Modes are those from before. Default: they are as
	// unreadable as any other.
	Unlock bool
	// Depth is how many levels are read: 1 is the Paths themselves, or the entries of
	// the area. Default: all.
	Depth int
}

// Limits bound a copy into a sandbox.
type Limits struct {
	// Files is the greatest number of entries. Default: 1 000 000.
	Files int
	// Bytes is the greatest sum of contents. Default: 64 GiB.
	Bytes int64
}

// WithDefaults returns l with zero fields set to their defaults.
func (l Limits) WithDefaults() Limits {
	if l.Files == 0 {
		l.Files = 1_000_000
	}
	if l.Bytes == 0 {
		l.Bytes = 64 << 30
	}
	return l
}

// Check returns an error unless the file may be written into an area: a clean
// relative path, a type that is copied, and a symlink that stays inside. The
// error is [ErrEscape] or names what is wrong.
func (f File) Check() error {
	if !CleanPath(f.Path) {
		return fmt.Errorf("file %q: %w", f.Path, ErrEscape)
	}
	switch f.Mode.Type() {
	case 0, fs.ModeDir:
		return nil
	case fs.ModeSymlink:
		if !LinkStays(f.Path, f.Link) {
			return fmt.Errorf("symlink %q to %q: %w", f.Path, f.Link, ErrEscape)
		}
		return nil
	}
	return fmt.Errorf("file %q: type %v is not copied", f.Path, f.Mode.Type())
}

// CleanPath reports whether a path is relative and clean, without "..", and is
// not ".". Unlike [fs.ValidPath] it accepts names that are not UTF-8: a file
// system has them, and so has an archive.
func CleanPath(name string) bool {
	if name == "" || strings.ContainsRune(name, 0) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// LinkStays reports whether a symlink at the path stays inside, whatever other
// links there are, as long as those do so too and no folder above it is one. So
// ".." may be only at the target's beginning: behind a name that is a link itself
// it would resolve to another place than it says.
func LinkStays(name, target string) bool {
	if target == "" || path.IsAbs(target) || strings.ContainsRune(target, 0) {
		return false
	}
	depth, below := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; below || depth < 0 {
				return false
			}
		default:
			below = true
		}
	}
	return true
}

// Files returns a fixed list in the form that CopyIn takes.
func Files(files ...File) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for _, f := range files {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// Text returns a regular file with the given content, mode 0644.
func Text(name, content string) File {
	return File{Path: name, Mode: 0o644, Size: int64(len(content)), Body: strings.NewReader(content)}
}
