package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/sandbox"
)

// Syncer archives and restores the workspace of one sandbox. It remembers what it
// read, so that the next sync reads only what changed. Safe for concurrent use;
// one sync at a time.
type Syncer struct {
	// Notifier remembers what was published of the workspace.
	Notifier Notifier

	archive *archive.Archive
	sb      sandbox.Sandbox
	session string
	epoch   uint64

	mu sync.Mutex
	// store is what the archive has; nil before it was read, and after a fault.
	store *Store
	// last are the files as they were last read, by path.
	last map[string]readFile
	// held describes what could not be restored, by path; the manifest has it too,
	// without the reasons.
	held map[string]string
	// reads counts files that were read.
	reads int
}

// readFile is a file that was read.
type readFile struct {
	// stamp is "" if it would not change with the file's next change.
	stamp string
	file  File
}

// NewSyncer returns the syncer of a session's sandbox, which has the epoch. It
// sends no request yet.
func NewSyncer(a *archive.Archive, sb sandbox.Sandbox, session string, epoch uint64) *Syncer {
	return &Syncer{archive: a, sb: sb, session: session, epoch: epoch, last: map[string]readFile{}}
}

// Provision writes the archived files into a new sandbox, or, if none were ever
// archived, the initial ones: these are archived before the agent can change
// them, and make no events. left names what was left out, "" for nothing; an
// archive that can't be read is an error.
func (s *Syncer) Provision(ctx context.Context, initial iter.Seq2[sandbox.File, error]) (left string, err error) {
	restored, left, err := s.restore(ctx)
	if err != nil {
		return left, fmt.Errorf("restore the workspace of session %s: %w", s.session, err)
	}
	if restored {
		return left, nil
	}
	if err := s.sb.CopyIn(ctx, sandbox.AreaWorkspace, initial); err != nil {
		return "", fmt.Errorf("copy the profile's files into the workspace of session %s: %w", s.session, err)
	}
	seen, left, err := s.Sync(ctx)
	known := func([]event.Event) error { return nil } // they make no events
	return left, errors.Join(err, s.Notifier.Publish(seen, known))
}

// Sync archives what changed and returns it, for [Notifier.Publish]; also after an
// error, what it observed until then. left names what was left out, "" for
// nothing. Errors: [*ReadError], [archive.ErrFenced].
func (s *Syncer) Sync(ctx context.Context) (seen []Observation, left string, err error) {
	return s.sync(ctx, false)
}

// SyncLast is [Syncer.Sync] for a sandbox that ends: it makes unreadable files
// readable.
func (s *Syncer) SyncLast(ctx context.Context) (seen []Observation, left string, err error) {
	return s.sync(ctx, true)
}

func (s *Syncer) sync(ctx context.Context, unlock bool) (seen []Observation, left string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	// A scan that was interrupted may have changed the archive without getting an
	// answer; opening the store again, once, shows it.
	for again := s.store != nil; ; again = false {
		now := &scan{Syncer: s, unlock: unlock, started: time.Now(), found: map[string]kind{}, kept: map[string]bool{}}
		err = now.run(ctx)
		seen, left = append(seen, now.seen...), leftOut(now.left)
		if err == nil {
			s.Notifier.prune(began)
			return seen, left, nil
		}
		if ctx.Err() == nil {
			s.store = nil
		}
		if !again || ctx.Err() != nil || errors.Is(err, archive.ErrFenced) {
			return seen, left, fmt.Errorf("archive the workspace of session %s: %w", s.session, err)
		}
	}
}

// Load reads what the archive has, unless that is known.
func (s *Syncer) Load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(ctx)
}

func (s *Syncer) load(ctx context.Context) error {
	if s.store != nil {
		return nil
	}
	store, err := Open(ctx, s.archive, s.session, s.epoch)
	if err != nil {
		return err
	}
	s.store = store
	s.Notifier.begin(store.Files())
	return nil
}

// restore writes the archived workspace into the sandbox and reports whether
// there was one. What can't be in the sandbox is left out and held in the archive:
// a content that is damaged, a name that this file system does not take. Any other
// failure may be one of the host, and fails the restore.
func (s *Syncer) restore(ctx context.Context) (restored bool, left string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(ctx); err != nil {
		return false, "", err
	}
	if len(s.store.Files()) == 0 {
		return s.store.Known(), "", nil
	}
	r := restore{Syncer: s, held: map[string]string{}}
	err = s.sb.CopyIn(ctx, sandbox.AreaWorkspace, r.files(ctx))
	skipped, complete := errors.AsType[*sandbox.SkippedError](err)
	switch {
	case r.fault != nil:
		return false, "", r.fault
	case ctx.Err() != nil, err != nil && !complete:
		return false, "", err
	case complete:
		for _, f := range skipped.Files {
			r.hold(f.Path, fmt.Sprintf("%s: %.500s", notRestored(f.Path), f.Err))
		}
	}
	if err := s.store.hold(ctx, r.held); err != nil {
		s.store = nil
		return false, "", err
	}
	s.held = r.held
	return true, leftOut(r.left), nil
}

// restore is one restore in progress.
type restore struct {
	*Syncer
	// held describes what is not restored, by path; left in order.
	held map[string]string
	left []string
	// fault is why the archive can't be read.
	fault error
}

func (r *restore) hold(path, words string) {
	r.held[path] = words
	r.left = append(r.left, words)
}

func (r *restore) files(ctx context.Context) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		for c, err := range r.store.Contents(ctx) {
			if err != nil {
				r.fault = err
				yield(sandbox.File{}, err)
				return
			}
			if c.Mode.Type() == fs.ModeSymlink && !sandbox.LinkStays(c.Path, c.Link) {
				r.hold(c.Path, linkHeld(c.Path))
				continue
			}
			f := sandbox.File{Path: c.Path, Mode: c.Mode, Size: c.Size, ModTime: c.ModTime, Link: c.Link}
			if c.Body != nil {
				f.Body = restoredBody{r, c.Body}
			}
			if !yield(f, nil) || r.fault != nil {
				return
			}
		}
	}
}

// restoredBody distinguishes a file that is corrupt in the archive, which is left
// out, from an archive that does not answer.
type restoredBody struct {
	restore *restore
	body    io.Reader
}

// Read implements io.Reader.
func (b restoredBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, archive.ErrCorrupt) {
		b.restore.fault = err
	}
	return n, err
}
