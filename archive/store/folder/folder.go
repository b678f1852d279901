// Package folder keeps objects as files below a folder, for the processes of one machine. Of a
// file system that machines share, one may see late what another has written.
package folder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/sojourn-run/sojourn/archive/store"
)

var _ store.Store = (*Folder)(nil)

// Folder is a folder with objects. A file is written beside the others, made durable, and
// renamed. Who writes an object holds a lock for it, which the system releases with its process.
// Names that begin with a dot are the folder's own. Safe for concurrent use.
type Folder struct{ dir string }

const (
	// drafts has files that are being written.
	drafts = ".drafts"
	// locks has one file for each of the locks; an object has that of its key's hash.
	locks     = ".locks"
	lockCount = 64
	// lockEvery is the interval at which a lock that another process holds is tried.
	lockEvery = 2 * time.Millisecond
	// draftAge is how old a file gets that its writer left, before Setup deletes it.
	draftAge = time.Hour
)

// Open returns the folder. It makes nothing: see Setup. Errors: the path is relative; the system
// can't rename and delete files that are open.
func Open(dir string) (*Folder, error) {
	if runtime.GOOS == "windows" {
		return nil, fmt.Errorf("folder %s: an archive in a folder needs a Unix system", dir)
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("folder %q: want an absolute path", dir)
	}
	return &Folder{filepath.Clean(dir)}, nil
}

// Name returns the folder's path.
func (f *Folder) Name() string { return f.dir }

// Exists reports whether Setup has made the folder.
func (f *Folder) Exists(context.Context) (bool, error) {
	_, err := os.Stat(filepath.Join(f.dir, locks))
	if isMissing(err) {
		return false, nil
	}
	return err == nil, err
}

// Setup makes the folder and writes into it.
func (f *Folder) Setup(context.Context) error {
	err := f.setup()
	if err == nil {
		return nil
	}
	return &store.ConnectError{
		Where: "folder " + f.dir, Hint: "set SOJOURN_ARCHIVE_DIR to a folder that this user may make and write to", Cause: err, Err: err,
	}
}

func (f *Folder) setup() error {
	top := f.dir // the lowest folder that there is already
	for _, err := os.Stat(top); isMissing(err) && top != filepath.Dir(top); _, err = os.Stat(top) {
		top = filepath.Dir(top)
	}
	for _, dir := range []string{drafts, locks} {
		if err := os.MkdirAll(filepath.Join(f.dir, dir), 0o700); err != nil {
			return err
		}
	}
	if err := settle(f.dir, top); err != nil {
		return err
	}
	left, err := os.ReadDir(filepath.Join(f.dir, drafts))
	if err != nil {
		return err
	}
	for _, d := range left {
		info, err := d.Info()
		if err == nil && time.Since(info.ModTime()) > draftAge {
			err = os.Remove(filepath.Join(f.dir, drafts, d.Name()))
		}
		if err != nil && !isMissing(err) { // its writer was still at work, or another Setup
			return err
		}
	}
	draft, err := f.draft(nil)
	if err != nil {
		return err
	}
	return os.Remove(draft)
}

// CheckKey returns an error for a key that a folder can't have.
func CheckKey(key string) error {
	if !fs.ValidPath(key) || key == "." || strings.HasPrefix(key, ".") || strings.Contains(key, "/.") || strings.Contains(key, `\`) {
		return fmt.Errorf("key %q: want a relative path whose names begin with no dot", key)
	}
	return nil
}

// path returns the file of an object.
func (f *Folder) path(key string) (string, error) {
	return filepath.Join(f.dir, filepath.FromSlash(key)), CheckKey(key)
}

// none returns the error for an object that is not there; another one if the folder itself is
// not, such as that of a disk that is not mounted.
func (f *Folder) none(ctx context.Context, key string) error {
	switch there, err := f.Exists(ctx); {
	case err != nil:
		return fmt.Errorf("get %s: %w", key, err)
	case !there:
		return fmt.Errorf("get %s: folder %s is not there", key, f.dir)
	}
	return fmt.Errorf("%s: %w", key, store.ErrNotFound)
}

// isMissing reports whether there is no file of that name, also because a part of its path is
// a file, or because it is a folder.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)
}

// Get reads an object. Its tag is the SHA-256 of its bytes.
func (f *Folder) Get(ctx context.Context, key string) (data []byte, tag string, err error) {
	path, err := f.path(key)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, "", fmt.Errorf("get: %w", err)
	}
	data, err = os.ReadFile(path)
	if isMissing(err) {
		return nil, "", f.none(ctx, key)
	}
	if err != nil {
		return nil, "", fmt.Errorf("get %s: %w", key, err)
	}
	return data, tagOf(data), nil
}

func tagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// GetRange reads n bytes of an object from an offset on.
func (f *Folder) GetRange(ctx context.Context, key string, from, n int64) ([]byte, error) {
	path, err := f.path(key)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	data := make([]byte, n)
	file, err := os.Open(path)
	if err == nil {
		_, err = file.ReadAt(data, from)
		err = errors.Join(err, file.Close())
	}
	switch {
	case isMissing(err):
		return nil, f.none(ctx, key)
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("get %s: %w: want %d bytes at %d", key, store.ErrShort, n, from)
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return data, nil
}

// Put writes an object.
func (f *Folder) Put(ctx context.Context, key string, data []byte) error {
	return f.change(ctx, "put", key, func(path string) error { return f.write(ctx, path, data) })
}

// Swap writes an object if it has not changed.
func (f *Folder) Swap(ctx context.Context, key, tag string, data []byte) (string, error) {
	return tagOf(data), f.change(ctx, "put", key, func(path string) error {
		_, have, err := f.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if have != tag {
			return store.ErrChanged
		}
		return f.write(ctx, path, data)
	})
}

// Delete deletes an object, and the folders that it leaves empty.
func (f *Folder) Delete(ctx context.Context, key string) error {
	return f.change(ctx, "delete", key, func(path string) error {
		info, err := os.Lstat(path)
		if isMissing(err) || err == nil && info.IsDir() {
			return nil
		}
		if err = errors.Join(err, os.Remove(path)); err != nil {
			return err
		}
		dir := filepath.Dir(path)
		for ; dir != f.dir && os.Remove(dir) == nil; dir = filepath.Dir(dir) { // to the first one that has something
		}
		return settle(dir, f.dir)
	})
}

// change calls do with the file of an object, under its lock.
func (f *Folder) change(ctx context.Context, what, key string, do func(path string) error) error {
	path, err := f.path(key)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	sum := fnv.New32a()
	sum.Write([]byte(key))
	lock := flock.New(filepath.Join(f.dir, locks, fmt.Sprint(sum.Sum32()%lockCount)))
	if _, err := lock.TryLockContext(ctx, lockEvery); err != nil {
		return fmt.Errorf("%s %s: lock: %w", what, key, err)
	}
	err = do(path)
	if err = errors.Join(err, lock.Close()); err != nil {
		return fmt.Errorf("%s %s: %w", what, key, err)
	}
	return nil
}

// write replaces a file, durably.
func (f *Folder) write(ctx context.Context, path string, data []byte) error {
	draft, err := f.draft(data)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	for again := true; again && ctx.Err() == nil; {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = os.Rename(draft, path)
		}
		// A delete of a folder's last file may have removed the folder meanwhile.
		_, gone := os.Stat(draft)
		again = errors.Is(err, fs.ErrNotExist) && gone == nil
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		if left := os.Remove(draft); !isMissing(left) {
			err = errors.Join(err, left)
		}
		return err
	}
	return settle(dir, f.dir)
}

// draft writes a file that is to be renamed.
func (f *Folder) draft(data []byte) (string, error) {
	file, err := os.CreateTemp(filepath.Join(f.dir, drafts), "")
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// settle makes the names in a folder durable, and those in the folders above it up to another
// one: each of them may be new, also by another writer who has not come to this yet.
func settle(dir, top string) error {
	for ; ; dir = filepath.Dir(dir) {
		open, err := os.Open(dir)
		if err == nil {
			err = errors.Join(open.Sync(), open.Close())
		}
		if isMissing(err) {
			err = nil // it was deleted with its last file
		}
		if err != nil || dir == top {
			return err
		}
	}
}
