package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/archive"
)

// Reads of pieces that are close to each other are one request, up to a size; so
// many are in progress ahead of a restore, or at once for a manifest.
const (
	nearBytes = 64 << 10
	runBytes  = 8 << 20
	runsAhead = 6
	parallel  = 16
)

// run is consecutive pieces that one request reads.
type run struct {
	pack     string
	from, to int64
	// first and last (exclusive) are the pieces.
	first, last int
}

// runsOf joins neighbours; the pieces' order does not change.
func runsOf(pieces []piece) (runs []run) {
	for i, p := range pieces {
		if n := len(runs) - 1; n >= 0 {
			r := &runs[n]
			if r.pack == p.Pack && p.At >= r.from && p.At <= r.to+nearBytes && max(r.to, p.At+p.Size)-r.from <= runBytes {
				r.to, r.last = max(r.to, p.At+p.Size), i+1
				continue
			}
		}
		runs = append(runs, run{p.Pack, p.At, p.At + p.Size, i, i + 1})
	}
	return runs
}

func (s *Store) readRun(ctx context.Context, r run) ([]byte, error) {
	return s.objects.GetRange(ctx, packsFolder+r.pack, r.from, r.to-r.from)
}

// cut extracts a piece from a run and checks it.
func (r run) cut(data []byte, p piece) ([]byte, error) {
	content := data[p.At-r.from:][:p.Size]
	if sum := digestOf(content); sum != p.Sum {
		return nil, fmt.Errorf("pack %s at %d: %w: sha256 %s, want %s", p.Pack, p.At, archive.ErrCorrupt, sum, p.Sum)
	}
	return content, nil
}

// readPieces reads pieces into memory, in the given order.
func (s *Store) readPieces(ctx context.Context, pieces []piece) ([][]byte, error) {
	order := make([]int, len(pieces))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return comparePlaces(pieces[x], pieces[y]) })
	sorted := make([]piece, len(pieces))
	for i, at := range order {
		sorted[i] = pieces[at]
	}
	contents := make([][]byte, len(pieces))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, r := range runsOf(sorted) {
		g.Go(func() error {
			data, err := s.readRun(ctx, r)
			for i := r.first; i < r.last && err == nil; i++ {
				contents[order[i]], err = r.cut(data, sorted[i])
			}
			return err
		})
	}
	return contents, g.Wait()
}

func comparePlaces(x, y piece) int {
	return cmp.Or(cmp.Compare(x.Pack, y.Pack), cmp.Compare(x.At, y.At))
}

// Content is a file with its content.
type Content struct {
	File
	// Body is a regular file's content, checked while it is read: a wrong byte is
	// [archive.ErrCorrupt], at its end at the latest. It is valid until the next step
	// and need not be read. Nil for an empty file and for what is not a regular file.
	Body io.Reader
}

// Contents yields everything that is archived: folders first, then files in the
// order in which they are stored, symlinks last; including those that are not to
// be restored ([File.Held]). The error ends it.
func (s *Store) Contents(ctx context.Context) iter.Seq2[Content, error] {
	return func(yield func(Content, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		folders, files, links := s.byKind()
		ahead := s.readAhead(ctx, files)
		defer ahead.wait()
		defer cancel()
		for _, f := range folders {
			if !yield(Content{File: f}, nil) {
				return
			}
		}
		for _, f := range files {
			if !yield(ahead.content(f), nil) {
				return
			}
		}
		for _, f := range links {
			if !yield(Content{File: f}, nil) {
				return
			}
		}
	}
}

// OpenFile opens a regular file's content, checked while it is read like that of
// [Content]. Errors wrap [fs.ErrNotExist] for a path that has none.
func (s *Store) OpenFile(ctx context.Context, path string) (io.ReadCloser, error) {
	at := slices.IndexFunc(s.files, func(f File) bool { return f.Path == path && f.Regular() })
	if at < 0 {
		return nil, fmt.Errorf("workspace of session %s: file %q: %w", s.session, path, fs.ErrNotExist)
	}
	ctx, cancel := context.WithCancel(ctx)
	ahead := s.readAhead(ctx, s.files[at:at+1])
	var in io.Reader = strings.NewReader("")
	if c := ahead.content(s.files[at]); c.Body != nil {
		in = c.Body
	}
	return &openFile{Reader: in, end: func() { cancel(); ahead.wait() }}, nil
}

type openFile struct {
	io.Reader
	end func()
}

func (f *openFile) Close() error {
	f.end()
	return nil
}

func (s *Store) byKind() (folders, files, links []File) {
	for _, f := range s.files {
		switch {
		case f.Mode.IsDir():
			folders = append(folders, f)
		case f.Regular():
			files = append(files, f)
		default:
			links = append(links, f)
		}
	}
	slices.SortStableFunc(files, func(x, y File) int {
		if len(x.pieces) == 0 || len(y.pieces) == 0 {
			return cmp.Compare(len(x.pieces), len(y.pieces))
		}
		return comparePlaces(x.pieces[0], y.pieces[0])
	})
	return folders, files, links
}

// readAhead reads the pieces of files in their order, some runs ahead.
type readAhead struct {
	// ctx is that of the sequence that this is a part of.
	ctx    context.Context
	s      *Store
	pieces []piece
	// given is how many pieces the files so far have.
	given   int
	fetched chan *fetch
	fetches errgroup.Group
	now     *fetch
}

// fetch is a run that is being read. Its data and err are set when it is done.
type fetch struct {
	run
	done chan struct{}
	data []byte
	err  error
}

func (s *Store) readAhead(ctx context.Context, files []File) *readAhead {
	a := &readAhead{ctx: ctx, s: s, fetched: make(chan *fetch, runsAhead), now: &fetch{}}
	for _, f := range files {
		a.pieces = append(a.pieces, f.pieces...)
	}
	a.fetches.Go(func() error {
		defer close(a.fetched)
		for _, r := range runsOf(a.pieces) {
			next := &fetch{run: r, done: make(chan struct{})}
			select {
			case a.fetched <- next:
			case <-ctx.Done():
				return ctx.Err()
			}
			a.fetches.Go(func() error {
				defer close(next.done)
				next.data, next.err = s.readRun(ctx, r)
				return next.err
			})
		}
		return nil
	})
	return a
}

// wait waits for the reads in progress; their context has ended. Their errors
// were returned with the files that they concern.
func (a *readAhead) wait() { _ = a.fetches.Wait() }

// content returns the next file.
func (a *readAhead) content(f File) Content {
	c := Content{File: f}
	if len(f.pieces) > 0 {
		c.Body = &body{ahead: a, file: f, next: a.given, end: a.given + len(f.pieces), whole: sha256.New()}
		a.given += len(f.pieces)
	}
	return c
}

// piece returns a piece's content; pieces are requested in order, and not all of
// them.
func (a *readAhead) piece(i int) ([]byte, error) {
	for i >= a.now.last {
		next, more := <-a.fetched
		if !more {
			return nil, context.Cause(a.ctx)
		}
		a.now = next
		<-next.done
	}
	if errors.Is(a.now.err, archive.ErrNotFound) {
		a.now.err = a.s.explainMissing(a.ctx, a.now.pack, a.now.err)
	}
	if a.now.err != nil {
		return nil, a.now.err
	}
	return a.now.cut(a.now.data, a.pieces[i])
}

// explainMissing returns why a pack that the manifest names does not exist:
// either another writer has since moved what is needed of it, or it is lost.
func (s *Store) explainMissing(ctx context.Context, pack string, missing error) error {
	_, now, err := s.readHead(ctx)
	if err != nil {
		return err
	}
	if now != s.tag {
		return fmt.Errorf("%w: the workspace changed while it was read: %w", archive.ErrBusy, missing)
	}
	return fmt.Errorf("%w: the pack %s is missing", archive.ErrCorrupt, pack)
}

// body reads a file's pieces.
type body struct {
	ahead     *readAhead
	file      File
	next, end int
	rest      []byte
	whole     hash.Hash
}

// Read implements io.Reader; at the end the hash of the whole has been compared.
func (b *body) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.next == b.end {
			if sum := hex.EncodeToString(b.whole.Sum(nil)); sum != b.file.SHA256 {
				return 0, fmt.Errorf("workspace file %q: %w: sha256 %s, want %s", b.file.Path, archive.ErrCorrupt, sum, b.file.SHA256)
			}
			return 0, io.EOF
		}
		content, err := b.ahead.piece(b.next)
		if err != nil {
			return 0, fmt.Errorf("workspace file %q: %w", b.file.Path, err)
		}
		b.whole.Write(content)
		b.rest = content
		b.next++
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
