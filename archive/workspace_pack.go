package archive

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// packsFolder is where the packs lie, below the workspace's key.
const packsFolder = "packs/"

// What shapes packs: a piece of a file is at most pieceSize, a pack is closed
// when it has packSize, and so many are uploaded beside each other.
const (
	pieceSize = 8 << 20
	packSize  = 8 << 20
	packsUp   = 4
)

// What makes a pack wasteful: most of it is dead and that is worth something,
// or it is one of too many small ones. What is still needed of wasteful packs is
// written anew, so much at a time.
const (
	deadBytes    = 64 << 10
	smallPack    = 1 << 20
	smallPacks   = 128
	rewriteBytes = 64 << 20
)

type digest [sha256.Size]byte

// MarshalText gives base64.
func (d digest) MarshalText() ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(nil, d[:]), nil
}

// UnmarshalText takes what MarshalText gives.
func (d *digest) UnmarshalText(text []byte) error {
	b, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil || len(b) != len(d) {
		return fmt.Errorf("%w hash %q", ErrInvalid, text)
	}
	copy(d[:], b)
	return nil
}

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// part is a stretch of a pack.
type part struct {
	Sum  digest `json:"h"`
	Pack string `json:"k"`
	At   int64  `json:"o"`
	Size int64  `json:"n"`
}

// pack is an object of contents and pages. Its name begins with the epoch of
// its writer and is never used again, so a late deletion hits nothing that
// another writer needs.
type pack struct {
	size int64
	// live is how much of it the last manifest needs.
	live     int64
	wasteful bool
	// failed says that its upload did not succeed.
	failed atomic.Bool
	data   []byte
}

func (w *Workspace) packKey(name string) string {
	return w.a.workspaceKey(w.session) + packsFolder + name
}

// Store stores a content and gives a file that has it: see
// [WorkspaceFile.WithContent]. It is there for readers after the next Commit. A
// content that is stored already is read and not written again. An error of r
// comes back as it is.
func (w *Workspace) Store(ctx context.Context, r io.Reader) (WorkspaceFile, error) {
	if w.buf == nil {
		w.buf = make([]byte, pieceSize)
	}
	var f WorkspaceFile
	var whole hash.Hash
	for {
		n, err := io.ReadFull(r, w.buf)
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return WorkspaceFile{}, err
		}
		if n > 0 {
			p, err := w.keep(ctx, w.buf[:n])
			if err != nil {
				return WorkspaceFile{}, fmt.Errorf("archive: store a file of session %s: %w", w.session, err)
			}
			f.parts, f.Size = append(f.parts, p), f.Size+int64(n)
		}
		if whole == nil && !last {
			whole = sha256.New()
		}
		if whole != nil {
			whole.Write(w.buf[:n])
		}
		if last {
			break
		}
	}
	f.SHA256 = wholeSum(f.parts, whole)
	return f, nil
}

func wholeSum(parts []part, whole hash.Hash) string {
	switch {
	case whole != nil:
		return hex.EncodeToString(whole.Sum(nil))
	case len(parts) == 0:
		return digest(sha256.Sum256(nil)).String()
	}
	return parts[0].Sum.String()
}

// keep puts a piece into the pack that is being filled, unless it is stored.
func (w *Workspace) keep(ctx context.Context, data []byte) (part, error) {
	sum := digest(sha256.Sum256(data))
	if p, known := w.contents[sum]; known && w.good(p) {
		return p, nil
	}
	p, err := w.add(ctx, sum, data)
	if err == nil {
		w.contents[sum] = p
	}
	return p, err
}

func (w *Workspace) add(ctx context.Context, sum digest, data []byte) (part, error) {
	if w.filling != nil && w.packs[w.filling.name].size+int64(len(data)) > packSize {
		if err := w.flush(ctx); err != nil {
			return part{}, err
		}
	}
	if w.filling == nil {
		w.filling = &filling{name: fmt.Sprintf("%d-%s", w.epoch, rand.Text())}
		w.packs[w.filling.name] = &pack{}
	}
	to := w.packs[w.filling.name]
	p := part{Sum: sum, Pack: w.filling.name, At: to.size, Size: int64(len(data))}
	to.data = append(to.data, data...)
	to.size += p.Size
	return p, nil
}

// filling is the pack that is not uploaded yet.
type filling struct{ name string }

// flush uploads the pack that is being filled, beside the others.
func (w *Workspace) flush(ctx context.Context) error {
	if w.uploads == nil {
		w.uploads, w.uploading = errgroup.WithContext(ctx)
		w.uploads.SetLimit(packsUp)
	}
	if w.filling != nil {
		name, p, up := w.filling.name, w.packs[w.filling.name], w.uploading
		w.filling = nil
		w.uploads.Go(func() error {
			err := w.a.put(up, w.packKey(name), p.data)
			p.data = nil
			p.failed.Store(err != nil)
			return err
		})
	}
	return context.Cause(w.uploading)
}

// Flush uploads what was stored and waits for it: for a writer that ends
// without a Commit. The next one of the same Workspace goes on from there.
func (w *Workspace) Flush(ctx context.Context) error {
	if err := w.settle(ctx); err != nil {
		return fmt.Errorf("archive: store files of session %s: %w", w.session, err)
	}
	return nil
}

func (w *Workspace) settle(ctx context.Context) error {
	if w.filling == nil && w.uploads == nil {
		return nil
	}
	// Its error is that of an upload, which Wait gives.
	_ = w.flush(ctx)
	err := w.uploads.Wait()
	w.uploads, w.uploading = nil, nil
	return err
}

// Has says whether a file's content is stored for good. Where it is not, or
// where it lies in a pack that had better go, it should be stored again.
func (w *Workspace) Has(f WorkspaceFile) bool {
	return w.has(f) && !slices.ContainsFunc(f.parts, func(p part) bool { return w.packs[p.Pack].wasteful })
}

func (w *Workspace) has(f WorkspaceFile) bool {
	return !slices.ContainsFunc(f.parts, func(p part) bool { return !w.there(p) })
}

func (w *Workspace) there(p part) bool {
	in := w.packs[p.Pack]
	return in != nil && !in.failed.Load()
}

func (w *Workspace) good(p part) bool { return w.there(p) && !w.packs[p.Pack].wasteful }

// remember notes where the contents of a file lie.
func (w *Workspace) remember(f WorkspaceFile) {
	for _, p := range f.parts {
		w.contents[p.Sum] = p
		w.note(p)
	}
}

func (w *Workspace) note(p part) {
	if w.packs[p.Pack] == nil {
		w.packs[p.Pack] = &pack{}
	}
}

// count finds out how much of each pack is needed, and which are wasteful.
func (w *Workspace) count() {
	for _, p := range w.packs {
		p.live, p.wasteful = 0, false
	}
	seen := make(map[part]bool, len(w.contents))
	once := func(p part) {
		if !seen[p] {
			seen[p] = true
			w.packs[p.Pack].live += p.Size
		}
	}
	for _, f := range w.files {
		for _, p := range f.parts {
			once(p)
		}
	}
	for _, level := range w.levels {
		for _, p := range level {
			once(p.Part)
		}
	}
	w.judge()
}

func (w *Workspace) judge() {
	small := 0
	for _, p := range w.packs {
		if p.live > 0 && p.size < smallPack {
			small++
		}
	}
	budget := int64(rewriteBytes)
	for _, name := range slices.Sorted(maps.Keys(w.packs)) {
		p := w.packs[name]
		p.wasteful = budget > 0 && (p.size-p.live > max(deadBytes, p.live) || small > smallPacks && p.size < smallPack)
		if p.wasteful {
			budget -= p.live
		}
	}
}
