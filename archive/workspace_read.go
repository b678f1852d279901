package archive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"
)

// Reads of pieces that lie so near to each other are one request, up to a
// size; so many are under way before a restore needs them.
const (
	nearBytes = 64 << 10
	runBytes  = 8 << 20
	runsAhead = 6
)

// run is consecutive pieces that one request reads.
type run struct {
	pack     string
	from, to int64
	// first and last (exclusive) are the pieces.
	first, last int
}

// runsOf joins neighbours; the pieces' order stays.
func runsOf(parts []part) (runs []run) {
	for i, p := range parts {
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

func (w *Workspace) readRun(ctx context.Context, r run) ([]byte, error) {
	return w.a.getRange(ctx, w.packKey(r.pack), r.from, r.to-r.from)
}

// cut takes a piece out of a run and checks it.
func (r run) cut(data []byte, p part) ([]byte, error) {
	piece := data[p.At-r.from:][:p.Size]
	if sum := digest(sha256.Sum256(piece)); sum != p.Sum {
		return nil, fmt.Errorf("pack %s at %d: %w: sha256 %s, want %s", p.Pack, p.At, ErrCorrupt, sum, p.Sum)
	}
	return piece, nil
}

// readParts reads pieces into memory, in the order given.
func (w *Workspace) readParts(ctx context.Context, parts []part) ([][]byte, error) {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Or(cmp.Compare(parts[x].Pack, parts[y].Pack), cmp.Compare(parts[x].At, parts[y].At))
	})
	sorted := make([]part, len(parts))
	for i, at := range order {
		sorted[i] = parts[at]
	}
	pieces := make([][]byte, len(parts))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, r := range runsOf(sorted) {
		g.Go(func() error {
			data, err := w.readRun(ctx, r)
			for i := r.first; i < r.last && err == nil; i++ {
				pieces[order[i]], err = r.cut(data, sorted[i])
			}
			return err
		})
	}
	return pieces, g.Wait()
}

// getRange reads a stretch of an object, all of it or none.
func (a *Archive) getRange(ctx context.Context, key string, from, n int64) (data []byte, err error) {
	for range readTries {
		if data, err = a.getRangeOnce(ctx, key, from, n); err == nil {
			return data, nil
		}
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || statusOf(err) != 0 || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func (a *Archive) getRangeOnce(ctx context.Context, key string, from, n int64) ([]byte, error) {
	out, err := a.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &a.bucket, Key: &key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", from, from+n-1))})
	switch {
	case isMissing(err) && !hasCode(err, "NoSuchBucket"):
		return nil, fmt.Errorf("%s: %w", key, ErrNotFound)
	case hasCode(err, "InvalidRange"):
		return nil, fmt.Errorf("get %s: %w: it is too short", key, ErrCorrupt)
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	defer func() { _ = out.Body.Close() }() // the body has been read, or its read failed
	data, err := io.ReadAll(io.LimitReader(out.Body, n+1))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	if int64(len(data)) != n {
		return nil, fmt.Errorf("get %s: %w: %d bytes at %d, want %d", key, ErrCorrupt, len(data), from, n)
	}
	return data, nil
}

// WorkspaceContent is a file with what is in it.
type WorkspaceContent struct {
	WorkspaceFile
	// Body is a regular file's content, checked while it is read: a wrong byte
	// is [ErrCorrupt], at its end at the latest. It is valid until the next
	// step and need not be read. Nil for an empty file and for what is none.
	Body io.Reader
}

// Contents gives everything that is archived: folders first, then files in the
// order in which they lie in the store, symlinks last. What is not to be made
// again ([WorkspaceFile.Held]) is given too. The error ends it.
func (w *Workspace) Contents(ctx context.Context) iter.Seq2[WorkspaceContent, error] {
	return func(yield func(WorkspaceContent, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		folders, files, links := w.sorted()
		flow := w.newFlow(ctx, files)
		defer flow.wait()
		defer cancel()
		for _, f := range folders {
			if !yield(WorkspaceContent{WorkspaceFile: f}, nil) {
				return
			}
		}
		for _, f := range files {
			if !yield(flow.content(f), nil) {
				return
			}
		}
		for _, f := range links {
			if !yield(WorkspaceContent{WorkspaceFile: f}, nil) {
				return
			}
		}
	}
}

func (w *Workspace) sorted() (folders, files, links []WorkspaceFile) {
	for _, f := range w.files {
		switch {
		case f.Mode.IsDir():
			folders = append(folders, f)
		case f.Regular():
			files = append(files, f)
		default:
			links = append(links, f)
		}
	}
	slices.SortStableFunc(files, func(x, y WorkspaceFile) int {
		if len(x.parts) == 0 || len(y.parts) == 0 {
			return cmp.Compare(len(x.parts), len(y.parts))
		}
		return cmp.Or(cmp.Compare(x.parts[0].Pack, y.parts[0].Pack), cmp.Compare(x.parts[0].At, y.parts[0].At))
	})
	return folders, files, links
}

// flow reads the pieces of files in their order, some runs ahead.
type flow struct {
	w     *Workspace
	parts []part
	// taken is how many pieces the files until now have.
	taken   int
	ahead   chan fetched
	fetches *errgroup.Group
	now     fetched
	data    []byte
	// err is why the run that is read now could not be.
	err error
}

// fetched is a run that is being read.
type fetched struct {
	run
	data chan []byte
}

func (w *Workspace) newFlow(ctx context.Context, files []WorkspaceFile) *flow {
	f := &flow{w: w, ahead: make(chan fetched, runsAhead), fetches: &errgroup.Group{}}
	for _, file := range files {
		f.parts = append(f.parts, file.parts...)
	}
	f.fetches.Go(func() error {
		defer close(f.ahead)
		for _, r := range runsOf(f.parts) {
			next := fetched{run: r, data: make(chan []byte, 1)}
			select {
			case f.ahead <- next:
			case <-ctx.Done():
				return ctx.Err()
			}
			f.fetches.Go(func() error {
				defer close(next.data)
				data, err := w.readRun(ctx, r)
				if err == nil {
					next.data <- data
				}
				return err
			})
		}
		return nil
	})
	return f
}

// wait ends what was read ahead; its context has ended. The errors were given
// with the files that they concern.
func (f *flow) wait() { _ = f.fetches.Wait() }

// content is the next file in the flow.
func (f *flow) content(file WorkspaceFile) WorkspaceContent {
	c := WorkspaceContent{WorkspaceFile: file}
	if len(file.parts) > 0 {
		c.Body = &body{flow: f, file: file, next: f.taken, end: f.taken + len(file.parts), whole: sha256.New()}
		f.taken += len(file.parts)
	}
	return c
}

// piece gives a piece; they are asked for in order, and not all of them.
func (f *flow) piece(i int) ([]byte, error) {
	for i >= f.now.last {
		next, more := <-f.ahead
		if !more {
			return nil, context.Canceled
		}
		f.now, f.err = next, nil
		if f.data = <-next.data; f.data == nil && i < next.last {
			f.err = f.fault()
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.now.cut(f.data, f.parts[i])
}

// fault is why a run could not be read.
func (f *flow) fault() error {
	ctx := context.Background()
	_, err := f.w.readRun(ctx, f.now.run)
	if errors.Is(err, ErrNotFound) {
		err = f.w.explainMissing(ctx, f.now.pack, err)
	}
	return cmp.Or(err, io.ErrUnexpectedEOF)
}

// explainMissing: a pack that the manifest names is not there. Either another
// writer has put what is needed of it elsewhere since, or it is lost.
func (w *Workspace) explainMissing(ctx context.Context, pack string, missing error) error {
	now, err := load[workspaceHead](ctx, w.a, w.a.workspaceHeadKey(w.session))
	if err != nil {
		return err
	}
	if now.tag != w.head.tag {
		return fmt.Errorf("%w: the workspace changed while it was read: %w", ErrBusy, missing)
	}
	return fmt.Errorf("%w: the pack %s is missing", ErrCorrupt, pack)
}

// body reads a file's pieces.
type body struct {
	flow      *flow
	file      WorkspaceFile
	next, end int
	rest      []byte
	whole     hash.Hash
}

// Read gives the content; at its end the hash of the whole has been compared.
func (b *body) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.next == b.end {
			if sum := hex.EncodeToString(b.whole.Sum(nil)); sum != b.file.SHA256 {
				return 0, fmt.Errorf("workspace file %q: %w: sha256 %s, want %s", b.file.Path, ErrCorrupt, sum, b.file.SHA256)
			}
			return 0, io.EOF
		}
		piece, err := b.flow.piece(b.next)
		if err != nil {
			return 0, fmt.Errorf("workspace file %q: %w", b.file.Path, err)
		}
		b.whole.Write(piece)
		b.rest = piece
		b.next++
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// ReadWorkspaceFile is a file's content, checked; [ErrNotFound] for an unknown
// one. It reads the manifest: for many files use [Workspace.Contents].
func (a *Archive) ReadWorkspaceFile(ctx context.Context, session, path string) (WorkspaceFile, []byte, error) {
	w, err := a.OpenWorkspace(ctx, session, 0)
	if err != nil {
		return WorkspaceFile{}, nil, err
	}
	f, data, err := w.readFile(ctx, path)
	if err != nil {
		return f, nil, fmt.Errorf("archive: read workspace file %q of session %s: %w", path, session, err)
	}
	return f, data, nil
}

func (w *Workspace) readFile(ctx context.Context, path string) (f WorkspaceFile, data []byte, err error) {
	i, found := slices.BinarySearchFunc(w.files, path, func(f WorkspaceFile, path string) int { return strings.Compare(f.Path, path) })
	if !found {
		return f, nil, ErrNotFound
	}
	f = w.files[i]
	pieces, err := w.readParts(ctx, f.parts)
	if errors.Is(err, ErrNotFound) {
		err = w.explainMissing(ctx, f.parts[0].Pack, err)
	}
	if err != nil {
		return f, nil, err
	}
	data = slices.Concat(pieces...)
	if sum := sha256.Sum256(data); f.Regular() && hex.EncodeToString(sum[:]) != f.SHA256 {
		return f, nil, fmt.Errorf("%w: sha256 %x, want %s", ErrCorrupt, sum, f.SHA256)
	}
	return f, data, nil
}
