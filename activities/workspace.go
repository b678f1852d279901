package activities

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/stream"
)

// Bounds of what is kept of a workspace, so that it comes back well within the
// time that a sandbox has to be made. What is over them is left out, and that
// is said.
const (
	workspaceFileBytes = 64 << 20
	workspaceBytes     = 1 << 30
	workspaceFiles     = 10_000
)

// readAtOnce is how many files a restore reads beside each other.
const readAtOnce = 8

// What an event carries of a file's content: text up to this size, and no more
// than the sum per look.
const (
	toldFileBytes = 32 << 10
	toldBytes     = 1 << 20
)

// settled is how old a file must be for its time to tell of the next change:
// clocks of file systems tick in milliseconds, some in seconds.
const settled = 2 * time.Second

// workspaceCaches are names of folders that tools fill again by themselves;
// they are left out wherever they stand. Anything else may be somebody's work,
// dist, build and .git included.
func workspaceCaches() []string {
	return []string{"node_modules", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
}

// keeper brings the files of a sandbox's own workspace into the archive: what
// changed since the last look. Safe for concurrent use; one look at a time.
type keeper struct {
	store   *archive.Archive
	sb      sandbox.Sandbox
	session string
	epoch   uint64

	mu sync.Mutex
	// known is what the archive has, by path; nil before it was asked.
	known map[string]kept
}

// kept is an archived file.
type kept struct {
	archive.WorkspaceFile
	// seen is the time that the file had; zero if that tells nothing.
	seen time.Time
}

// keeper gives the keeper of a session's sandbox; nil if the workspace is a
// folder of the user's, which is nobody else's to keep.
func (h *Host) keeper(in Agent, sb sandbox.Sandbox, epoch uint64) *keeper {
	if in.Workspace != "" {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.keepers[sb.ID()]
	if k == nil {
		k = &keeper{store: h.o.Archive, sb: sb, session: in.SessionID, epoch: epoch}
		h.keepers[sb.ID()] = k
	}
	return k
}

func (h *Host) dropKeeper(sandboxID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.keepers, sandboxID)
}

// look is one comparison of the workspace with the archive.
type look struct {
	*keeper
	began   time.Time
	found   map[string]bool
	partial bool
	told    int
	bytes   int64
	changes []event.Event
	left    []string
}

// sync archives what changed and gives the changes as events, after an error
// those until then. What is left out for good is said in words, "" for nothing.
func (k *keeper) sync(ctx context.Context) (changes []event.Event, left string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := &look{keeper: k, began: time.Now(), found: map[string]bool{}}
	err = k.load(ctx)
	if err == nil {
		err = l.all(ctx)
	}
	if err == nil && !l.partial {
		err = l.forgetGone(ctx)
	}
	if err != nil {
		err = fmt.Errorf("archive the workspace of session %s: %w", k.session, err)
	}
	return l.changes, l.leftOut(), err
}

func (k *keeper) load(ctx context.Context) error {
	if k.known != nil {
		return nil
	}
	known := map[string]kept{}
	for f, err := range k.store.WorkspaceFiles(ctx, k.session) {
		if err != nil {
			return err
		}
		known[f.Path] = kept{WorkspaceFile: f}
	}
	k.known = known
	return nil
}

func (l *look) all(ctx context.Context) error {
	sel := sandbox.Selection{Area: sandbox.AreaWorkspace, Exclude: workspaceCaches()}
	for f, err := range l.sb.CopyOut(ctx, sel) {
		switch {
		case errors.Is(err, fs.ErrPermission):
			l.partial = true
			l.leave("what lies in an unreadable folder")
			return nil
		case err != nil:
			return err
		case f.Mode.IsDir():
			continue
		case !f.Mode.IsRegular():
			l.leave(fmt.Sprintf("symlink %q", f.Path))
			continue
		case len(l.found) == workspaceFiles:
			l.partial = true
			l.leave(fmt.Sprintf("all behind the first %d files", workspaceFiles))
			return nil
		}
		l.found[f.Path] = true
		if err := l.one(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (l *look) one(ctx context.Context, f sandbox.File) error {
	was, is := l.known[f.Path]
	l.bytes += f.Size
	switch {
	case archive.CheckPath(f.Path) != nil:
		l.leave(fmt.Sprintf("%q, by its name", f.Path))
		return nil
	case is && f.Size == was.Size && f.Mode.Perm() == was.Mode && !was.seen.IsZero() && f.ModTime.Equal(was.seen):
		return nil
	}
	tooLarge := fmt.Sprintf("%q, over %d MiB", f.Path, workspaceFileBytes>>20)
	if f.Size > workspaceFileBytes {
		l.bytes -= f.Size
		l.leave(tooLarge)
		return nil
	}
	if l.bytes > workspaceBytes {
		l.bytes -= f.Size
		l.leave(fmt.Sprintf("%q, over %d MiB in all", f.Path, workspaceBytes>>20))
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(bodyOf(f), workspaceFileBytes+1))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Gone since the listing: the next look says so.
		return nil
	case errors.Is(err, fs.ErrPermission):
		l.leave(fmt.Sprintf("%q, which can't be read", f.Path))
		return nil
	case err != nil:
		return err
	case len(data) > workspaceFileBytes:
		// It grew since the listing.
		l.leave(tooLarge)
		return nil
	}
	return l.save(ctx, f, data)
}

func bodyOf(f sandbox.File) io.Reader {
	if f.Body == nil {
		return bytes.NewReader(nil)
	}
	return f.Body
}

// save archives a file unless the archive has it.
func (l *look) save(ctx context.Context, f sandbox.File, data []byte) error {
	was, is := l.known[f.Path]
	now := kept{WorkspaceFile: was.WorkspaceFile}
	if f.ModTime.Before(l.began.Add(-settled)) {
		now.seen = f.ModTime
	}
	if !is || f.Mode.Perm() != was.Mode || sumOf(data) != was.SHA256 {
		var err error
		if now.WorkspaceFile, err = l.store.SaveWorkspaceFile(ctx, l.session, l.epoch, f.Path, f.Mode, data); err != nil {
			return err
		}
		l.tell(now.WorkspaceFile, data, is)
	}
	l.known[f.Path] = now
	return nil
}

// forgetGone takes out of the archive what is no longer in the workspace.
func (l *look) forgetGone(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(l.known)) {
		if l.found[name] {
			continue
		}
		if err := l.store.DeleteWorkspaceFile(ctx, l.session, l.epoch, name); err != nil {
			return err
		}
		delete(l.known, name)
		if toldOf(name) {
			l.changes = append(l.changes, own(event.FileDeleted{File: event.File{Path: name}}))
		}
	}
	return nil
}

func (l *look) tell(f archive.WorkspaceFile, data []byte, known bool) {
	if !toldOf(f.Path) {
		return
	}
	file := event.File{Path: f.Path, Size: f.Size, SHA256: f.SHA256}
	if len(data) <= toldFileBytes && l.told+len(data) <= toldBytes && utf8.Valid(data) && !bytes.Contains(data, []byte{0}) {
		l.told += len(data)
		text := string(data)
		file.Content = &text
	}
	if known {
		l.changes = append(l.changes, own(event.FileModified{File: file}))
	} else {
		l.changes = append(l.changes, own(event.FileCreated{File: file}))
	}
}

// toldOf says whether a file's changes are events: a repository's inner files
// are kept, but their coming and going says nothing to anybody.
func toldOf(name string) bool { return !slices.Contains(strings.Split(name, "/"), ".git") }

func (l *look) leave(what string) { l.left = append(l.left, what) }

// leftOut names the first few; the rest is counted.
func (l *look) leftOut() string {
	if len(l.left) == 0 {
		return ""
	}
	const named = 3
	words := strings.Join(l.left[:min(named, len(l.left))], "; ")
	if more := len(l.left) - named; more > 0 {
		words += fmt.Sprintf("; and %d more", more)
	}
	return "not kept of the workspace: " + words
}

// restore writes the archived workspace into the sandbox; had says whether
// there was one.
func (k *keeper) restore(ctx context.Context) (had bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err = k.load(ctx); err == nil && len(k.known) > 0 {
		err = k.sb.CopyIn(ctx, sandbox.AreaWorkspace, k.archived(ctx))
	}
	if err != nil {
		return false, fmt.Errorf("restore the workspace: %w", err)
	}
	return len(k.known) > 0, nil
}

// archived reads the files in order. An archive that was left between a
// folder's coming and the end of the file of that name has both: the folder is
// taken.
func (k *keeper) archived(ctx context.Context) iter.Seq2[sandbox.File, error] {
	folders := map[string]bool{}
	for name := range k.known {
		for dir := path.Dir(name); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(k.known)), func(name string) bool { return folders[name] })
	return func(yield func(sandbox.File, error) bool) {
		for len(names) > 0 {
			n := k.atOnce(names)
			files, err := k.read(ctx, names[:n])
			if err != nil {
				yield(sandbox.File{}, err)
				return
			}
			for _, f := range files {
				if !yield(f, nil) {
					return
				}
			}
			names = names[n:]
		}
	}
}

// atOnce is how many of the files are read together: no more bytes than one
// file may have, but always one.
func (k *keeper) atOnce(names []string) int {
	n, size := 1, k.known[names[0]].Size
	for n < min(len(names), readAtOnce) && size+k.known[names[n]].Size <= workspaceFileBytes {
		size += k.known[names[n]].Size
		n++
	}
	return n
}

func (k *keeper) read(ctx context.Context, names []string) ([]sandbox.File, error) {
	files := make([]sandbox.File, len(names))
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range names {
		g.Go(func() error {
			f, data, err := k.store.ReadWorkspaceFile(ctx, k.session, name)
			files[i] = sandbox.File{Path: name, Mode: f.Mode, Size: f.Size, Body: bytes.NewReader(data)}
			return err
		})
	}
	return files, g.Wait()
}

// furnishWorkspace gives a workspace of the sandbox's own the files that it had,
// or those that the profile begins with: these are in the archive before the
// agent can change them, and are nobody's news. A folder of the user's keeps its
// files as they are.
func (h *Host) furnishWorkspace(ctx context.Context, in Agent, sb sandbox.Sandbox, epoch uint64, profile []adapters.File) error {
	k := h.keeper(in, sb, epoch)
	if k == nil {
		return nil
	}
	if had, err := k.restore(ctx); err != nil || had {
		return err
	}
	if err := copyProfile(ctx, sb, filesOf(profile, adapters.InWorkspace), sandbox.AreaWorkspace); err != nil {
		return err
	}
	_, left, err := k.sync(ctx)
	if left != "" {
		h.o.Log.Warn(left, "session", in.SessionID)
	}
	return err
}

// keepWorkspace archives the workspace at the turn's end and tells what
// changed.
func (t *turn) keepWorkspace(ctx context.Context) (behind string) {
	k := t.host.keeper(t.in.Agent, t.agent.sb, t.in.Sandbox.Epoch)
	if k == nil {
		return ""
	}
	changes, left, err := k.sync(ctx)
	if err := t.out.Add(context.WithoutCancel(ctx), changes, stream.Position{}); err != nil {
		t.host.o.Log.Debug("changes of the workspace were not said", "session", t.in.Agent.SessionID, "error", err)
	}
	if err != nil {
		return err.Error()
	}
	if left != "" {
		t.host.o.Log.Warn(left, "session", t.in.Agent.SessionID)
	}
	return left
}

// keepLast archives the workspace before its sandbox ends.
func (h *Host) keepLast(ctx context.Context, in EndSandboxInput, sb sandbox.Sandbox) error {
	k := h.keeper(in.Agent, sb, in.Sandbox.Epoch)
	if k == nil {
		return nil
	}
	changes, left, err := k.sync(ctx)
	if left != "" {
		h.o.Log.Warn(left, "session", in.Agent.SessionID)
	}
	return errors.Join(err, h.tellFiles(ctx, in, changes))
}

// tellFiles says what changed between the last turn and the sandbox's end.
func (h *Host) tellFiles(ctx context.Context, in EndSandboxInput, changes []event.Event) error {
	if len(changes) == 0 {
		return nil
	}
	_, err := h.o.Stream.Emit(ctx, in.Agent.SessionID, stream.Emission{
		Fence: stream.Fence{Epoch: in.Sandbox.Epoch}, LastSeq: in.LastSeq,
		Key: fmt.Sprintf("files-%d-%d", in.Sandbox.Epoch, time.Now().UnixNano()), Events: changes,
	})
	return err
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
