package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/sandbox"
)

// Bounds of what is kept of a workspace, so that it comes back well within the
// time that a sandbox has to be made. What is over them is left out, and that
// is said.
const (
	workspaceFileBytes = 1 << 30
	workspaceBytes     = 4 << 30
	workspaceFiles     = 250_000
)

// settled is how old a file's last change must be for its stamp to tell of the
// next one: clocks of file systems tick in milliseconds, some in seconds.
const settled = 2 * time.Second

// workspaceCaches are names of folders that tools fill again by themselves;
// they are left out wherever they stand. Anything else may be somebody's work,
// dist, build and .git included.
func workspaceCaches() []string {
	return []string{"node_modules", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
}

// keeper brings a sandbox's own workspace into the archive: what changed since
// the last look. Safe for concurrent use; one look at a time.
type keeper struct {
	store   *archive.Archive
	sb      sandbox.Sandbox
	session string
	epoch   uint64
	teller  teller

	mu sync.Mutex
	// ws is what the archive has; nil before it was asked, and after a fault.
	ws *archive.Workspace
	// seen are the files as they were when they were read last, by path.
	seen map[string]sight
	// lost is what could not be restored, in words.
	lost []string
	// held are the links that were not made again.
	held map[string]bool
	// read counts files that were read.
	read int
	// last: the sandbox ends, so what is closed in it is opened.
	last bool
}

// sight is a file that was read.
type sight struct {
	// stamp is "" if it tells nothing.
	stamp string
	file  archive.WorkspaceFile
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
		k = &keeper{store: h.o.Archive, sb: sb, session: in.SessionID, epoch: epoch, seen: map[string]sight{}, held: map[string]bool{}}
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
	began time.Time
	files []archive.WorkspaceFile
	// found is what stands, by path.
	found map[string]kind
	// kept are paths that stay as they are archived, blind such folders.
	kept    map[string]bool
	blind   []string
	partial bool
	bytes   int64
	told    int
	news    []sighting
	left    []string
}

// kind is what stands at a path.
type kind int

const (
	absent kind = iota
	regularFile
	folder
	link
)

// sync archives what changed and gives what is news, after an error that until
// then. What is left out for good is said in words, "" for nothing.
func (k *keeper) sync(ctx context.Context) (news []sighting, left string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// A look that was broken off may have changed the archive without hearing
	// of it; that is found out by asking anew, once.
	for again := k.ws != nil; ; again = false {
		l := &look{keeper: k, began: time.Now(), found: map[string]kind{}, kept: map[string]bool{}, left: slices.Clone(k.lost)}
		err = l.run(ctx)
		news, left = append(news, l.news...), l.leftOut()
		if err == nil {
			return news, left, nil
		}
		if ctx.Err() == nil {
			k.ws = nil
		}
		if !again || ctx.Err() != nil || errors.Is(err, archive.ErrFenced) {
			return news, left, fmt.Errorf("archive the workspace of session %s: %w", k.session, err)
		}
	}
}

func (l *look) run(ctx context.Context) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	if err := l.all(ctx); err != nil {
		return errors.Join(err, l.ws.Flush(ctx))
	}
	l.carry()
	l.missed()
	return l.ws.Commit(ctx, l.files)
}

func (k *keeper) open(ctx context.Context) (err error) {
	if k.ws != nil {
		return nil
	}
	if k.ws, err = k.store.OpenWorkspace(ctx, k.session, k.epoch); err != nil {
		k.ws = nil
		return err
	}
	k.teller.begin(k.ws.Files())
	return nil
}

func (l *look) all(ctx context.Context) error {
	sel := sandbox.Selection{Area: sandbox.AreaWorkspace, Exclude: workspaceCaches(), Lenient: true, Unlock: l.last}
	for f, err := range l.sb.CopyOut(ctx, sel) {
		if err != nil {
			return asUnreadable(ctx, err)
		}
		if len(l.files) == workspaceFiles {
			l.partial = true
			l.leave(fmt.Sprintf("all behind the first %d files", workspaceFiles))
			return nil
		}
		if err := l.one(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (l *look) one(ctx context.Context, f sandbox.File) error {
	switch f.Mode.Type() {
	case fs.ModeDir:
		if f.Unreadable {
			l.leave(fmt.Sprintf("what lies in %q, an unreadable folder", cut(f.Path, 200)))
			l.blind = append(l.blind, f.Path+"/")
		}
		l.add(archive.WorkspaceFile{Path: f.Path, Mode: f.Mode})
		return nil
	case fs.ModeSymlink:
		if !sandbox.LinkStays(f.Path, f.Link) {
			l.leave(fmt.Sprintf("symlink %q, which leads outside", f.Path))
		}
		l.add(archive.WorkspaceFile{Path: f.Path, Mode: fs.ModeSymlink, Link: f.Link})
		return nil
	}
	return l.regular(ctx, f)
}

func (l *look) regular(ctx context.Context, f sandbox.File) error {
	if f.Size > workspaceFileBytes {
		l.keep(f.Path, fmt.Sprintf("%q, over %d MiB", f.Path, workspaceFileBytes>>20))
		return nil
	}
	if l.bytes+f.Size > workspaceBytes {
		l.keep(f.Path, fmt.Sprintf("%q, over %d MiB in all", f.Path, workspaceBytes>>20))
		return nil
	}
	now := archive.WorkspaceFile{Path: f.Path, Mode: f.Mode, ModTime: f.ModTime.UTC()}
	if s := l.seen[f.Path]; s.stamp != "" && s.stamp == f.Stamp && l.ws.Has(s.file) {
		l.add(now.WithContent(s.file))
		return nil
	}
	beginning := &beginning{limit: toldFileBytes + 1}
	l.read++
	body := &readErrors{Reader: bodyOf(f)}
	content, err := l.ws.Store(ctx, io.TeeReader(io.LimitReader(body, workspaceFileBytes+1), beginning))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Gone since the listing: the next look says so.
		return nil
	case body.err != nil && ctx.Err() == nil:
		l.keep(f.Path, fmt.Sprintf("%q, which can't be read", f.Path))
		return nil
	case err != nil:
		return err
	}
	now = now.WithContent(content)
	s := sight{file: now}
	if f.Changed.Before(l.began.Add(-settled)) {
		s.stamp = f.Stamp
	}
	l.seen[f.Path] = s
	l.add(now)
	l.saw(now, beginning)
	return nil
}

func bodyOf(f sandbox.File) io.Reader {
	if f.Body == nil {
		return strings.NewReader("")
	}
	return f.Body
}

func (l *look) add(f archive.WorkspaceFile) {
	l.files = append(l.files, f)
	switch f.Mode.Type() {
	case 0:
		l.found[f.Path] = regularFile
	case fs.ModeDir:
		l.found[f.Path] = folder
	default:
		l.found[f.Path] = link
	}
	l.bytes += f.Size
}

// keep leaves a path as it is archived.
func (l *look) keep(name, why string) {
	l.kept[name] = true
	l.leave(why)
}

// carry takes over what is archived and was not looked at; what is no more is
// forgotten.
func (l *look) carry() {
	for _, f := range l.ws.Files() {
		if l.found[f.Path] != absent {
			continue
		}
		f.Held = f.Held || l.held[f.Path]
		dir := path.Dir(f.Path)
		if (f.Held || l.stays(f.Path)) && (dir == "." || l.found[dir] == folder) {
			l.add(f)
			if f.Held {
				l.leave(fmt.Sprintf("symlink %q, which leads outside and is not made again", f.Path))
			}
			continue
		}
		delete(l.seen, f.Path)
	}
}

// stays says whether a path that was not found may stand all the same.
func (l *look) stays(name string) bool {
	return l.partial || l.kept[name] || slices.ContainsFunc(l.blind, func(dir string) bool { return strings.HasPrefix(name, dir) })
}

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
