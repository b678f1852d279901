package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Names of a folder are read this many at a time; of what can't be removed
// the first few are named.
const (
	namesAtOnce = 1024
	leftNamed   = 3
	// So many folders of one folder are removed before more are moved up.
	foldersAtOnce = 4096
)

// remover removes a folder with everything below it, whatever an agent left
// there. Each subfolder is first moved up into the folder being removed: so depth
// costs neither descriptors nor stack, and no path is ever longer than two names.
// Everything is opened in its folder, no link is followed and no mount is
// entered.
type remover struct {
	root *os.File
	// stack are the folders in root that are being removed, the newest last.
	stack []doomed
	// waiting are the names of the folders on it.
	waiting map[string]bool
	// fresh is the prefix of the names of folders that were moved up; moved counts
	// them.
	fresh string
	moved int
	// stuck are names in root that can't be removed.
	stuck map[string]bool
	// left describes, by path, what can't be removed.
	left map[string]error
	// found has the paths of the first few of left, in order.
	found []string
}

// doomed is a folder to remove.
type doomed struct {
	// name is its name in root, path its original path, shortened.
	name, path string
}

// removeTree removes a folder and everything below it. What can't be removed is
// left, and named in the error.
func removeTree(ctx context.Context, dir string) error {
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	defer parent.Close()
	// This removes whatever is not a folder.
	if err := unlink(parent, filepath.Base(dir)); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	root, err := openForRemoval(parent, filepath.Base(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	defer root.Close()
	r := remover{root: root, fresh: ".up-" + rand.Text(), waiting: map[string]bool{}, stuck: map[string]bool{}, left: map[string]error{}}
	if err := r.run(ctx); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if len(r.left) > 0 {
		return fmt.Errorf("remove %s: %w", dir, r.fault())
	}
	err = unix.Unlinkat(int(parent.Fd()), filepath.Base(dir), unix.AT_REMOVEDIR)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

func (r *remover) run(ctx context.Context) error {
	r.stack = []doomed{{path: ""}}
	for len(r.stack) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		top := r.stack[len(r.stack)-1]
		if !r.folder(ctx, top) {
			r.stack = r.stack[:len(r.stack)-1]
			delete(r.waiting, top.name)
		}
	}
	return nil
}

// folder empties a folder and removes it. It reports whether its subfolders must
// be removed first.
func (r *remover) folder(ctx context.Context, d doomed) (more bool) {
	dir := r.root
	if d.name != "" {
		var err error
		if dir, err = openForRemoval(r.root, d.name); err != nil {
			r.leave(d, err)
			return false
		}
		defer dir.Close()
	}
	before := len(r.stack)
	if err := r.empty(ctx, dir, d); err != nil {
		r.leave(d, err)
		return false
	}
	if len(r.stack) > before {
		return true
	}
	if d.name == "" || ctx.Err() != nil {
		return false
	}
	if err := unix.Unlinkat(int(r.root.Fd()), d.name, unix.AT_REMOVEDIR); err != nil {
		r.leave(d, err)
	}
	return false
}

// empty removes the files in a folder and puts its folders on the stack.
func (r *remover) empty(ctx context.Context, dir *os.File, d doomed) error {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return err
	}
	before := len(r.stack)
	for removed := true; ; {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			removed = r.entry(dir, d, name) || removed
		}
		switch {
		case ctx.Err() != nil, len(r.stack) > before+foldersAtOnce:
			return nil
		case len(names) > 0 && err == nil:
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case !removed:
			return nil
		default:
			// A removal may hide other names from the listing in progress.
			removed = false
			if _, err := dir.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
	}
}

// entry removes a name in a folder, or puts it on the stack if it is a folder
// that is not empty. It reports whether the name is gone from its folder.
func (r *remover) entry(dir *os.File, d doomed, name string) (gone bool) {
	if dir == r.root && (r.stuck[name] || r.waiting[name]) {
		return false
	}
	at := doomed{name: name, path: shortened(d.path, name)}
	err := unlink(dir, name)
	if errors.Is(err, unix.EISDIR) {
		return r.subfolder(dir, at)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		if dir != r.root {
			at.name = ""
		}
		r.leave(at, err)
		return false
	}
	return true
}

// push puts a folder in root on the stack.
func (r *remover) push(d doomed) {
	r.stack = append(r.stack, d)
	r.waiting[d.name] = true
}

func (r *remover) subfolder(dir *os.File, at doomed) (gone bool) {
	if unix.Unlinkat(int(dir.Fd()), at.name, unix.AT_REMOVEDIR) == nil {
		return true
	}
	if dir == r.root {
		r.push(at)
		return false
	}
	up := doomed{name: fmt.Sprintf("%s-%d", r.fresh, r.moved), path: at.path}
	r.moved++
	err := moveUp(dir, at.name, r.root, up.name)
	if err != nil {
		r.leave(doomed{path: at.path}, err)
		return false
	}
	r.push(up)
	return true
}

// leave records what can't be removed.
func (r *remover) leave(d doomed, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if d.name != "" {
		r.stuck[d.name] = true
	}
	if len(r.left) > 0 && errors.Is(err, unix.ENOTEMPTY) {
		return // because of what is left in it
	}
	if _, known := r.left[d.path]; !known && len(r.found) < leftNamed {
		r.found = append(r.found, d.path)
	}
	r.left[d.path] = err
}

// fault returns an error that names the first few of what is left.
func (r *remover) fault() error {
	var errs []error
	for _, path := range r.found {
		errs = append(errs, fmt.Errorf("%q: %w", path, r.left[path]))
	}
	if more := len(r.left) - len(r.found); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// pathShown bounds a path for display, in bytes.
const pathShown = 256

// shortened joins a folder's path and a name, and drops the middle of what is too
// long to show.
func shortened(dir, name string) string {
	path := filepath.Join(dir, name)
	if len(path) <= pathShown {
		return path
	}
	return path[:pathShown/2] + "…" + path[len(path)-pathShown/2:]
}
