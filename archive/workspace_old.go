package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// The former format had one object per file, named by the hash of the path, with
// a line of JSON before the content. It is read, and replaced by the first
// commit.

func hexBytes(s string) ([]byte, error) { return hex.DecodeString(s) }

func (a *Archive) oldWorkspaceKey(session, path string) string {
	sum := sha256.Sum256([]byte(path))
	return a.workspaceKey(session) + hex.EncodeToString(sum[:])
}

// loadOld reads what the session has in the former format. An archive that was
// left between a folder's coming and the end of the file of that name has both:
// the folder is taken.
func (w *Workspace) loadOld(ctx context.Context) error {
	w.olds = nil
	prefix := w.a.workspaceKey(w.session)
	for o, err := range w.a.listObjects(ctx, prefix) {
		if err != nil {
			return err
		}
		if raw, err := hexBytes(o.name); err == nil && len(raw) == sha256.Size {
			w.olds = append(w.olds, prefix+o.name)
		}
	}
	files, err := w.readOlds(ctx)
	if err != nil {
		return err
	}
	folders := map[string]bool{}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	w.files = slices.DeleteFunc(files, func(f WorkspaceFile) bool { return folders[f.Path] })
	slices.SortFunc(w.files, func(x, y WorkspaceFile) int { return strings.Compare(x.Path, y.Path) })
	return nil
}

func (w *Workspace) readOlds(ctx context.Context) (files []WorkspaceFile, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, key := range w.olds {
		g.Go(func() error {
			f, _, err := w.a.oldFile(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			files = append(files, f)
			return err
		})
	}
	return files, g.Wait()
}

func (a *Archive) oldFile(ctx context.Context, key string) (f WorkspaceFile, data []byte, err error) {
	all, _, err := a.get(ctx, key)
	if err != nil {
		return f, nil, err
	}
	line, data, _ := bytes.Cut(all, []byte("\n"))
	if err := json.Unmarshal(line, &f); err != nil {
		return f, nil, fmt.Errorf("%s: %w: %w", key, ErrCorrupt, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.SHA256 || CheckPath(f.Path) != nil {
		return f, nil, fmt.Errorf("%s: %w: file %q, sha256 %x", key, ErrCorrupt, f.Path, sum)
	}
	f.Mode, f.old = f.Mode&fs.ModePerm, true
	return f, data, nil
}

func (a *Archive) readOld(ctx context.Context, session string, f WorkspaceFile) ([]byte, error) {
	_, data, err := a.oldFile(ctx, a.oldWorkspaceKey(session, f.Path))
	return data, err
}

// renew stores the contents of the former format anew.
func (w *Workspace) renew(ctx context.Context) error {
	for i, f := range w.files {
		if !f.old {
			continue
		}
		data, err := w.a.readOld(ctx, w.session, f)
		if err != nil {
			return err
		}
		content, err := w.Store(ctx, bytes.NewReader(data))
		if err != nil {
			return err
		}
		w.files[i] = f.WithContent(content)
	}
	return nil
}

// oldKeys are the objects of the former format that are not needed any more.
func (w *Workspace) oldKeys() []string {
	keys := w.olds
	w.olds = nil
	return keys
}
