package sandboxtest

import (
	"fmt"
	"io/fs"
	"iter"

	"github.com/sojourn-run/sojourn/sandbox"
)

// FromFS returns a file system's files in the form for CopyIn. Symlinks are copied if
// the file system can read them ([fs.ReadLinkFS]), and followed otherwise.
func FromFS(fsys fs.FS) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || name == "." {
				return err
			}
			return yieldFS(fsys, name, d, yield)
		})
		if err != nil && err != fs.SkipAll {
			yield(sandbox.File{}, fmt.Errorf("sandboxtest: read files: %w", err))
		}
	}
}

func yieldFS(fsys fs.FS, name string, d fs.DirEntry, yield func(sandbox.File, error) bool) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	f := sandbox.File{Path: name, Mode: info.Mode(), Size: info.Size(), ModTime: info.ModTime()}
	if f.Mode.Type() == fs.ModeSymlink {
		if f.Link, err = fs.ReadLink(fsys, name); err != nil {
			return err
		}
	}
	if f.Mode.IsRegular() {
		body, err := fsys.Open(name)
		if err != nil {
			return err
		}
		defer body.Close()
		f.Body = body
	}
	if !yield(f, nil) {
		return fs.SkipAll
	}
	return nil
}
