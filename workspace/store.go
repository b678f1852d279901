package workspace

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/archive"
)

// Store is a session's archived workspace, as one reader or writer sees it. Only
// [Store.Commit] changes its content, all at once: a reader sees the state before
// or the one after.
//
// Contents are kept in packs, objects of at most some megabytes that hold many
// small files or a piece of a large one; the manifest is a tree of small pages,
// which are in packs as well. So the cost of a change is what has changed: a
// pack, and the head, whatever else there is. Packs of which less than a half is
// still needed are gradually rewritten, see [Store.Has].
//
// Its methods must not be called concurrently.
type Store struct {
	objects *archive.Objects
	session string
	epoch   uint64

	head head
	// tag is that of the stored head; "" if there is none.
	tag    string
	files  []File
	levels [][]page
	// packs are the objects that hold contents or pages, by name.
	packs map[string]*pack
	// pieces are the stored contents by their hashes.
	pieces map[digest]piece
	// filling is the pack that is not uploaded yet; "" for none.
	filling string
	uploads *errgroup.Group
	// uploading ends with the first upload that fails.
	uploading context.Context
	buf       []byte
}

// head is the object that names the manifest.
type head struct {
	Version int    `json:"version"`
	Epoch   uint64 `json:"epoch"`
	// Opener is random, of the writer that opened the workspace last: no two puts
	// of heads have the same bytes, and so the same tag.
	Opener string `json:"opener,omitempty"`
	// Rev is random. It identifies whose put it was if the answer was lost. It is ""
	// for a workspace that was sealed before anything was archived.
	Rev   string `json:"rev,omitempty"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
	// Height is how many levels of pages there are, Pages the uppermost.
	Height int    `json:"height"`
	Pages  []page `json:"pages,omitempty"`
}

const (
	headVersion = 2
	headName    = "head.json"
)

// Open reads the manifest of a session's workspace. An epoch other than 0 is for
// a writer: none that opened it before, with this epoch or an earlier one, can
// commit any more, and their unfinished objects are deleted. Errors:
// [archive.ErrFenced], [archive.ErrCorrupt].
func Open(ctx context.Context, a *archive.Archive, session string, epoch uint64) (*Store, error) {
	objects, err := a.Objects(session, "workspace")
	s := &Store{objects: objects, session: session, epoch: epoch}
	if err == nil {
		err = s.open(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("workspace: open that of session %s: %w", session, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if s.epoch != 0 {
		if err := s.objects.Fence(ctx, s.epoch); err != nil {
			return err
		}
	}
	var before []archive.ObjectInfo
	err := archive.Retry(ctx, func() (err error) {
		s.packs, s.pieces = map[string]*pack{}, map[digest]piece{}
		if before, err = s.list(ctx); err != nil {
			return err
		}
		if err := s.takeHead(ctx); err != nil {
			return err
		}
		return s.readManifest(ctx)
	})
	if err != nil {
		return err
	}
	for _, f := range s.files {
		s.remember(f)
	}
	err = s.sweep(ctx, before)
	s.countLive()
	return err
}

// list returns the objects that there are, for a writer.
func (s *Store) list(ctx context.Context) (all []archive.ObjectInfo, err error) {
	if s.epoch == 0 {
		return nil, nil
	}
	for o, err := range s.objects.All(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// takeHead reads the head. A writer also puts its own in place of it, even if the
// epoch is the same: a put that is still under way is refused from now on, since
// its packs will be swept.
func (s *Store) takeHead(ctx context.Context) (err error) {
	if s.head, s.tag, err = s.readHead(ctx); err != nil {
		return err
	}
	if s.head.Version > headVersion {
		return fmt.Errorf("workspace: written by a newer version: format %d, known is %d", s.head.Version, headVersion)
	}
	if s.tag == "" {
		s.head = head{Version: headVersion}
	}
	if s.epoch == 0 {
		return nil
	}
	if s.head.Epoch > s.epoch {
		return s.fenced(s.head)
	}
	s.head.Epoch, s.head.Opener = s.epoch, rand.Text()
	s.tag, err = s.swapHead(ctx, s.head)
	return err
}

func (s *Store) fenced(now head) error {
	return fmt.Errorf("epoch %d, the workspace has %d: %w", s.epoch, now.Epoch, archive.ErrFenced)
}

// readHead returns the stored head with its tag; both are zero if there is none.
func (s *Store) readHead(ctx context.Context) (h head, tag string, err error) {
	data, tag, err := s.objects.Get(ctx, headName)
	if errors.Is(err, archive.ErrNotFound) {
		return h, "", nil
	}
	if err != nil {
		return h, "", err
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, "", fmt.Errorf("workspace head: %w: %w", archive.ErrCorrupt, err)
	}
	return h, tag, nil
}

// swapHead replaces the head that the store has read.
func (s *Store) swapHead(ctx context.Context, h head) (tag string, err error) {
	data, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("encode the workspace's head: %w", err)
	}
	return s.objects.Swap(ctx, headName, s.tag, data)
}

// readManifest reads the pages. A missing page was deleted by a writer that has
// put another head, or is lost.
func (s *Store) readManifest(ctx context.Context) error {
	err := s.readPages(ctx)
	if !errors.Is(err, archive.ErrNotFound) {
		return err
	}
	_, now, herr := s.readHead(ctx)
	if herr == nil && now != s.tag {
		return archive.ErrChanged
	}
	return errors.Join(fmt.Errorf("%w: %w", archive.ErrCorrupt, err), herr)
}

// Known reports whether a workspace was ever archived, even an empty one.
func (s *Store) Known() bool { return s.head.Rev != "" || len(s.files) > 0 }

// Files returns the archived files, by path. The result must not be changed.
func (s *Store) Files() []File { return s.files }

// Commit makes the given files the archived workspace; their contents must be
// stored ([Store.Put]) or be those of Files. The files are sorted by path in
// place. Other files are dropped. If nothing has changed no request is sent.
// After an error the Store must be opened again unless the error came from the
// context; [archive.ErrFenced] means that another writer has the session.
func (s *Store) Commit(ctx context.Context, files []File) error {
	if err := s.commit(ctx, files); err != nil {
		// No upload outlives the call.
		err = errors.Join(err, s.waitUploads(ctx))
		return fmt.Errorf("workspace: commit that of session %s: %w", s.session, err)
	}
	return nil
}

// hold marks the entries with these paths as held, and no others. Their contents
// may be damaged: the same one is stored again if another file has it.
func (s *Store) hold(ctx context.Context, held map[string]string) error {
	files := slices.Clone(s.files)
	for i := range files {
		if _, files[i].Held = held[files[i].Path]; files[i].Held {
			for _, p := range files[i].pieces {
				delete(s.pieces, p.Sum)
			}
		}
	}
	return s.Commit(ctx, files)
}

func (s *Store) commit(ctx context.Context, files []File) error {
	slices.SortFunc(files, comparePaths)
	if err := checkFiles(files); err != nil {
		return err
	}
	if s.head.Rev != "" && slices.EqualFunc(files, s.files, File.equal) {
		return s.waitUploads(ctx)
	}
	for _, f := range files {
		if f.Regular() && !s.stored(f) {
			return fmt.Errorf("the content of %q is not stored", f.Path)
		}
	}
	levels, err := s.writePages(ctx, files)
	if err != nil {
		return err
	}
	if err := s.waitUploads(ctx); err != nil {
		return err
	}
	// After the uploads, which take the longest: whoever takes an epoch meanwhile has the session.
	if err := s.objects.Fence(ctx, s.epoch); err != nil {
		return err
	}
	if err := s.putHead(ctx, files, levels); err != nil {
		return err
	}
	s.files, s.levels = files, levels
	s.countLive()
	// The next writer finds what is left.
	_ = s.removeDead(ctx)
	return nil
}

func (s *Store) putHead(ctx context.Context, files []File, levels [][]page) error {
	h := head{Version: headVersion, Epoch: s.epoch, Rev: rand.Text(), Files: len(files), Height: len(levels)}
	for _, f := range files {
		h.Bytes += f.Size
	}
	if n := len(levels); n > 0 {
		h.Pages = levels[n-1]
	}
	tag, err := s.swapHead(ctx, h)
	if err != nil && ctx.Err() == nil {
		tag, err = s.putAfterAll(ctx, h, err)
	}
	if err == nil {
		s.head, s.tag = h, tag
	}
	return err
}

// putAfterAll reports whether a put of the head whose answer was lost succeeded,
// or another writer's did.
func (s *Store) putAfterAll(ctx context.Context, h head, cause error) (tag string, err error) {
	now, tag, err := s.readHead(ctx)
	switch {
	case err != nil:
		return "", errors.Join(cause, err)
	case now.Rev == h.Rev:
		return tag, nil
	case tag == s.tag:
		return "", cause
	case now.Epoch > s.epoch:
		return "", s.fenced(now)
	}
	return "", archive.ErrChanged
}

// sweep deletes the objects that the manifest does not name, of those that there
// were before the head was taken: their writers can't commit any more. A later
// object may be that of a writer that has opened the workspace since.
func (s *Store) sweep(ctx context.Context, before []archive.ObjectInfo) error {
	var dead []string
	for _, o := range before {
		name, packed := strings.CutPrefix(o.Name, packsFolder)
		if p := s.packs[name]; packed && p != nil {
			p.size = o.Size
			continue
		}
		if o.Name != headName {
			dead = append(dead, o.Name)
		}
	}
	return s.objects.Remove(ctx, dead...)
}

// removeDead deletes the packs that only the previous manifest needed.
func (s *Store) removeDead(ctx context.Context) error {
	var dead []string
	for name, p := range s.packs {
		if p.live == 0 {
			dead = append(dead, packsFolder+name)
			delete(s.packs, name)
		}
	}
	maps.DeleteFunc(s.pieces, func(_ digest, p piece) bool { return s.packs[p.Pack] == nil })
	return s.objects.Remove(ctx, dead...)
}
