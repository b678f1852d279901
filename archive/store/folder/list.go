package folder

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/archive/store"
)

// List yields objects or folders below a prefix.
func (f *Folder) List(ctx context.Context, prefix, after string, folders bool) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		w := walk{f: f, prefix: prefix, behind: prefix + after, yield: yield}
		base := prefix[:strings.LastIndex(prefix, "/")+1]
		err := f.listable(ctx, base)
		switch {
		case err != nil:
		case folders:
			_, err = w.folders(ctx, base)
		default:
			_, err = w.files(ctx, base)
		}
		if err != nil {
			yield(store.Object{}, fmt.Errorf("list %s: %w", prefix, err))
		}
	}
}

// listable returns an error if there is no folder of objects, or none may have such a key.
func (f *Folder) listable(ctx context.Context, base string) error {
	there, err := f.Exists(ctx)
	if err == nil && !there {
		err = fmt.Errorf("folder %s is not there", f.dir)
	}
	if err == nil && base != "" {
		err = CheckKey(strings.TrimSuffix(base, "/"))
	}
	return err
}

// walk yields what has a prefix and is behind a key.
type walk struct {
	f              *Folder
	prefix, behind string
	yield          func(store.Object, error) bool
}

// files yields the files below a folder, whose key ends with a slash. more is false when there is
// no wish for more.
func (w *walk) files(ctx context.Context, below string) (more bool, err error) {
	names, err := w.f.names(ctx, below)
	for _, name := range names {
		key := below + name
		switch isFolder := strings.HasSuffix(name, "/"); {
		case !strings.HasPrefix(key, w.prefix):
			continue
		case isFolder && key < w.behind && !strings.HasPrefix(w.behind, key), !isFolder && key <= w.behind:
			continue // all of it is before
		case isFolder:
			more, err = w.files(ctx, key)
		default:
			more, err = w.file(key)
		}
		if err != nil || !more {
			return false, err
		}
	}
	return true, err
}

func (w *walk) file(key string) (more bool, err error) {
	info, err := os.Stat(filepath.Join(w.f.dir, filepath.FromSlash(key)))
	if isMissing(err) {
		return true, nil // deleted meanwhile
	}
	if err != nil {
		return false, err
	}
	return w.yield(store.Object{Name: strings.TrimPrefix(key, w.prefix), Size: info.Size()}, nil), nil
}

// folders yields the folders in a folder that have a file.
func (w *walk) folders(ctx context.Context, in string) (more bool, err error) {
	names, err := w.f.names(ctx, in)
	for _, name := range names {
		key := in + name
		if !strings.HasSuffix(name, "/") || !strings.HasPrefix(key, w.prefix) || key <= w.behind {
			continue
		}
		empty := true
		for _, err := range w.f.List(ctx, key, "", false) {
			if err != nil {
				return false, err
			}
			empty = false
			break
		}
		if !empty && !w.yield(store.Object{Name: strings.TrimPrefix(key, w.prefix)}, nil) {
			return false, nil
		}
	}
	return true, err
}

// names returns the names in a folder, those of folders with their slash, in the order of the
// keys that they begin.
func (f *Folder) names(ctx context.Context, of string) (names []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(f.dir, filepath.FromSlash(of)))
	if isMissing(err) {
		return nil, nil
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, err
}
