package archive

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// WorkspaceFile is a file, folder or symlink of the session's workspace.
type WorkspaceFile struct {
	// Path is relative to the workspace: bytes, not always UTF-8. In JSON such
	// a path is an object with the field "base64".
	Path string
	// Mode has the type (regular, fs.ModeDir or fs.ModeSymlink) and the
	// permission bits; a symlink's are none.
	Mode fs.FileMode
	// Size of a regular file, in bytes.
	Size int64
	// SHA256 of a regular file's content, in hex.
	SHA256 string
	// ModTime is a regular file's; zero is unknown.
	ModTime time.Time
	// Link is a symlink's target, bytes as Path is.
	Link string
	// Held says that the entry stands in the archive and not in the workspace:
	// a symlink that leads outside is not made again.
	Held bool

	// parts are the content, in order.
	parts []part
}

// Regular says whether it is a file with a content.
func (f WorkspaceFile) Regular() bool { return f.Mode.Type() == 0 }

func (f WorkspaceFile) equal(o WorkspaceFile) bool {
	return f.Path == o.Path && f.Mode == o.Mode && f.Size == o.Size && f.SHA256 == o.SHA256 && f.ModTime.Equal(o.ModTime) &&
		f.Link == o.Link && f.Held == o.Held && slices.Equal(f.parts, o.parts)
}

// WithContent is the file with the content of another one.
func (f WorkspaceFile) WithContent(of WorkspaceFile) WorkspaceFile {
	f.Size, f.SHA256, f.parts = of.Size, of.SHA256, of.parts
	return f
}

// Workspace is a session's archived workspace, as one reader or writer knows
// it. What is in it changes by [Workspace.Commit] alone, all at once: whoever
// reads meanwhile sees the one state or the other.
//
// Contents lie in packs, objects of at most some megabytes that hold many small
// files or a piece of a large one; the manifest is a tree of small pages, which
// lie in packs as well. So a change costs what has changed: a pack, and the
// head, whatever else there is. Packs of which less than a half is still needed
// are written anew bit by bit, see [Workspace.Has].
//
// Its methods must not be called concurrently.
type Workspace struct {
	a       *Archive
	session string
	epoch   uint64

	head   stored[workspaceHead]
	files  []WorkspaceFile
	levels [][]sheet
	// packs are the objects that hold contents or pages.
	packs map[string]*pack
	// contents are the stored pieces by their hashes.
	contents map[digest]part
	filling  *filling
	uploads  *errgroup.Group
	// uploading ends with the first upload that fails.
	uploading context.Context
	buf       []byte
}

// workspaceHead is the object that names the manifest; the only one that is
// written anew.
type workspaceHead struct {
	Version int    `json:"version"`
	Epoch   uint64 `json:"epoch"`
	// Rev is random: whose put it was, when the answer got lost. It is "" for a
	// workspace that was sealed before anything was archived.
	Rev   string `json:"rev,omitempty"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
	// Height is how many levels of pages there are, Pages the uppermost.
	Height int     `json:"height"`
	Pages  []sheet `json:"pages,omitempty"`
}

const workspaceVersion = 2

func (a *Archive) workspaceHeadKey(session string) string {
	return a.workspaceKey(session) + "head.json"
}

// OpenWorkspace reads a session's manifest. An epoch other than 0 is for a
// writer: no earlier one can commit any more, and what such ones left unfinished
// is deleted. Errors: [ErrFenced], [ErrCorrupt].
func (a *Archive) OpenWorkspace(ctx context.Context, session string, epoch uint64) (*Workspace, error) {
	w := &Workspace{a: a, session: session, epoch: epoch}
	if err := w.open(ctx); err != nil {
		return nil, fmt.Errorf("archive: open workspace of session %s: %w", session, err)
	}
	return w, nil
}

func (w *Workspace) open(ctx context.Context) (err error) {
	if w.epoch == 0 {
		err = checkSession(w.session)
	} else {
		err = w.a.fence(ctx, w.session, w.epoch)
	}
	if err != nil {
		return err
	}
	err = retry(ctx, func(int) error {
		w.packs, w.contents = map[string]*pack{}, map[digest]part{}
		if err := w.loadHead(ctx); err != nil {
			return err
		}
		return w.loadManifest(ctx)
	})
	if err != nil {
		return err
	}
	for _, f := range w.files {
		w.remember(f)
	}
	w.count()
	if w.epoch == 0 {
		return nil
	}
	return w.sweep(ctx)
}

// loadHead reads the head, and a writer puts its epoch into it.
func (w *Workspace) loadHead(ctx context.Context) (err error) {
	key := w.a.workspaceHeadKey(w.session)
	if w.head, err = load[workspaceHead](ctx, w.a, key); err != nil {
		return err
	}
	h := &w.head.value
	if h.Version > workspaceVersion {
		return fmt.Errorf("%s: written by a newer version: format %d, known is %d", key, h.Version, workspaceVersion)
	}
	if w.head.tag == "" {
		*h = workspaceHead{Version: workspaceVersion}
	}
	if w.epoch == 0 || h.Epoch == w.epoch {
		return nil
	}
	if h.Epoch > w.epoch {
		return fmt.Errorf("epoch %d, the workspace has %d: %w", w.epoch, h.Epoch, ErrFenced)
	}
	h.Epoch = w.epoch
	w.head, err = save(ctx, w.a, key, w.head)
	return err
}

// loadManifest reads the pages. A page that is not there any more was deleted
// by a writer that has put another head.
func (w *Workspace) loadManifest(ctx context.Context) error {
	err := w.readTree(ctx)
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	now, lerr := load[workspaceHead](ctx, w.a, w.a.workspaceHeadKey(w.session))
	if lerr == nil && now.tag != w.head.tag {
		return errLost
	}
	return errors.Join(fmt.Errorf("%w: %w", ErrCorrupt, err), lerr)
}

// Known says whether a workspace was ever archived, be it an empty one.
func (w *Workspace) Known() bool { return w.head.value.Rev != "" || len(w.files) > 0 }

// Files are what is archived, by path. They must not be changed.
func (w *Workspace) Files() []WorkspaceFile { return w.files }

// Commit makes the given files the archived workspace; their contents have been
// stored ([Workspace.Store]) or are those of Files. The files are sorted by
// path in place. What is not given is forgotten. Where nothing has changed
// nothing is asked of the store. After an error the Workspace must be opened
// anew unless the error came from the context; [ErrFenced] says that another
// writer has the session.
func (w *Workspace) Commit(ctx context.Context, files []WorkspaceFile) error {
	if err := w.commit(ctx, files); err != nil {
		// No upload outlives the call.
		err = errors.Join(err, w.settle(ctx))
		return fmt.Errorf("archive: commit workspace of session %s: %w", w.session, err)
	}
	return nil
}

func (w *Workspace) commit(ctx context.Context, files []WorkspaceFile) error {
	slices.SortFunc(files, func(x, y WorkspaceFile) int { return cmp.Compare(x.Path, y.Path) })
	if err := checkWorkspace(files); err != nil {
		return err
	}
	if w.head.value.Rev != "" && slices.EqualFunc(files, w.files, WorkspaceFile.equal) {
		return w.settle(ctx)
	}
	for _, f := range files {
		if f.Regular() && !w.has(f) {
			return fmt.Errorf("the content of %q is not stored", f.Path)
		}
	}
	if err := w.a.fence(ctx, w.session, w.epoch); err != nil {
		return err
	}
	levels, err := w.writeTree(ctx, files)
	if err != nil {
		return err
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	if err := w.putHead(ctx, files, levels); err != nil {
		return err
	}
	w.files, w.levels = files, levels
	w.count()
	// What stays behind is found by the next writer.
	_ = w.clean(ctx)
	return nil
}

func (w *Workspace) putHead(ctx context.Context, files []WorkspaceFile, levels [][]sheet) error {
	h := workspaceHead{Version: workspaceVersion, Epoch: w.epoch, Rev: rand.Text(), Files: len(files), Height: len(levels)}
	for _, f := range files {
		h.Bytes += f.Size
	}
	if n := len(levels); n > 0 {
		h.Pages = levels[n-1]
	}
	key := w.a.workspaceHeadKey(w.session)
	s, err := save(ctx, w.a, key, stored[workspaceHead]{value: h, tag: w.head.tag})
	if err != nil && ctx.Err() == nil {
		s, err = w.wasOurs(ctx, key, h, err)
	}
	if err == nil {
		w.head = s
	}
	return err
}

// wasOurs tells a put whose answer got lost from one that another writer won.
func (w *Workspace) wasOurs(ctx context.Context, key string, h workspaceHead, cause error) (stored[workspaceHead], error) {
	now, err := load[workspaceHead](ctx, w.a, key)
	switch {
	case err != nil:
		return now, errors.Join(cause, err)
	case now.value.Rev == h.Rev:
		return now, nil
	case now.tag == w.head.tag:
		return now, cause
	case now.value.Epoch > w.epoch:
		return now, fmt.Errorf("epoch %d, the workspace has %d: %w", w.epoch, now.value.Epoch, ErrFenced)
	}
	return now, errLost
}

// checkWorkspace wants clean paths, each once, and nothing below what is no
// folder. The files are sorted.
func checkWorkspace(files []WorkspaceFile) error {
	folders := map[string]bool{}
	for _, f := range files {
		if f.Mode.IsDir() {
			folders[f.Path] = true
		}
	}
	seen := make(map[string]bool, len(files))
	for _, f := range files {
		if err := checkBytes(f.Path); err != nil {
			return err
		}
		if seen[f.Path] {
			return fmt.Errorf("%w path %q: it is there twice", ErrInvalid, f.Path)
		}
		seen[f.Path] = true
	}
	for _, f := range files {
		if i := strings.LastIndexByte(f.Path, '/'); i > 0 && seen[f.Path[:i]] && !folders[f.Path[:i]] {
			return fmt.Errorf("%w path %q: what stands above it is no folder", ErrInvalid, f.Path)
		}
	}
	return nil
}

// checkBytes is for paths that come from a file system and go back to one: they
// are bytes.
func checkBytes(path string) error {
	bad := len(path) > 4096 || strings.ContainsRune(path, 0)
	for part := range strings.SplitSeq(path, "/") {
		bad = bad || part == "" || part == "." || part == ".." || len(part) > 255
	}
	if bad {
		return fmt.Errorf("%w path %q: want a relative path without \"..\"", ErrInvalid, path)
	}
	return nil
}

// SaveWorkspaceFile keeps a file of the workspace; what stood at the path, below
// it, or as a file above it is replaced. It reads the manifest: for many files
// use [Archive.OpenWorkspace]. Errors: [ErrFenced].
func (a *Archive) SaveWorkspaceFile(ctx context.Context, session string, epoch uint64, path string, mode fs.FileMode, data []byte) (WorkspaceFile, error) {
	f := WorkspaceFile{Path: path, Mode: mode.Perm()}
	err := a.changeWorkspace(ctx, session, epoch, path, func(w *Workspace) error {
		content, err := w.Store(ctx, strings.NewReader(string(data)))
		f = f.WithContent(content)
		if err != nil {
			return err
		}
		kept := slices.DeleteFunc(slices.Clone(w.files), func(o WorkspaceFile) bool {
			return o.Path == path || strings.HasPrefix(o.Path, path+"/") || !o.Mode.IsDir() && strings.HasPrefix(path, o.Path+"/")
		})
		return w.commit(ctx, append(kept, f))
	})
	if err != nil {
		return f, fmt.Errorf("archive: save workspace file %q of session %s: %w", path, session, err)
	}
	return f, nil
}

// DeleteWorkspaceFile forgets a file; an unknown one is no error. Errors:
// [ErrFenced].
func (a *Archive) DeleteWorkspaceFile(ctx context.Context, session string, epoch uint64, path string) error {
	err := a.changeWorkspace(ctx, session, epoch, path, func(w *Workspace) error {
		return w.commit(ctx, slices.DeleteFunc(slices.Clone(w.files), func(o WorkspaceFile) bool { return o.Path == path }))
	})
	if err != nil {
		return fmt.Errorf("archive: delete workspace file %q of session %s: %w", path, session, err)
	}
	return nil
}

func (a *Archive) changeWorkspace(ctx context.Context, session string, epoch uint64, path string, change func(*Workspace) error) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	if epoch == 0 {
		return fmt.Errorf("epoch 0: %w", ErrFenced)
	}
	return retry(ctx, func(int) error {
		w := &Workspace{a: a, session: session, epoch: epoch}
		err := w.open(ctx)
		if err == nil {
			err = change(w)
		}
		return errors.Join(err, w.settle(ctx))
	})
}

// WorkspaceFiles are the workspace's files and symlinks by path, without its
// folders. The error ends it.
func (a *Archive) WorkspaceFiles(ctx context.Context, session string) iter.Seq2[WorkspaceFile, error] {
	return func(yield func(WorkspaceFile, error) bool) {
		w, err := a.OpenWorkspace(ctx, session, 0)
		if err != nil {
			yield(WorkspaceFile{}, err)
			return
		}
		for _, f := range w.files {
			if !f.Mode.IsDir() && !yield(f, nil) {
				return
			}
		}
	}
}

// sweep deletes the objects that no manifest names.
func (w *Workspace) sweep(ctx context.Context) error {
	var dead []string
	prefix := w.a.workspaceKey(w.session)
	for o, err := range w.a.listObjects(ctx, prefix) {
		if err != nil {
			return err
		}
		name, packed := strings.CutPrefix(o.name, packsFolder)
		if p := w.packs[name]; packed && p != nil {
			p.size = o.size
			continue
		}
		if o.name != "head.json" {
			dead = append(dead, prefix+o.name)
		}
	}
	return w.a.remove(ctx, dead...)
}

// clean deletes what the manifest needed before the last commit.
func (w *Workspace) clean(ctx context.Context) error {
	var dead []string
	for name, p := range w.packs {
		if p.live == 0 {
			dead = append(dead, w.packKey(name))
			delete(w.packs, name)
		}
	}
	maps.DeleteFunc(w.contents, func(_ digest, p part) bool { return w.packs[p.Pack] == nil })
	return w.a.remove(ctx, dead...)
}
