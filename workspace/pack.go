package workspace

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

	"github.com/sojourn-run/sojourn/archive"
)

// packsFolder is the folder of the packs among the workspace's objects.
const packsFolder = "packs/"

// Sizes of packs: a piece of a file is at most pieceSize, a pack is closed when
// it has packSize, and so many are uploaded concurrently.
const (
	pieceSize = 8 << 20
	packSize  = 8 << 20
	packsUp   = 4
)

// A pack is wasteful if most of it is dead and that is worth something, or if it
// is one of too many small ones. What is still needed of wasteful packs is
// written again, so much at a time.
const (
	deadBytes    = 64 << 10
	smallPack    = 1 << 20
	smallPacks   = 128
	rewriteBytes = 64 << 20
)

type digest [sha256.Size]byte

func digestOf(data []byte) digest { return sha256.Sum256(data) }

// MarshalText returns base64.
func (d digest) MarshalText() ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(nil, d[:]), nil
}

// UnmarshalText reads what MarshalText returns.
func (d *digest) UnmarshalText(text []byte) error {
	b, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil || len(b) != len(d) {
		return fmt.Errorf("%w hash %q", archive.ErrInvalid, text)
	}
	copy(d[:], b)
	return nil
}

// String returns hex.
func (d digest) String() string { return hex.EncodeToString(d[:]) }

// piece is a range of a pack.
type piece struct {
	Sum  digest `json:"h"`
	Pack string `json:"k"`
	At   int64  `json:"o"`
	Size int64  `json:"n"`
}

// valid reports whether a piece that was read can be one of at most limit bytes.
func (p piece) valid(limit int64) bool {
	return p.At >= 0 && p.Size > 0 && p.Size <= limit && archive.SafeName(p.Pack)
}

// pack is an object of contents and pages. Its name begins with the epoch of its
// writer and is never used again, so a late deletion can't remove what another
// writer needs.
type pack struct {
	size int64
	// live is how many bytes of it the last manifest needs.
	live     int64
	wasteful bool
	// failed is set when its upload did not succeed.
	failed atomic.Bool
	data   []byte
}

// Put stores a content and returns a file that has it: see [File.WithContent].
// Readers see it after the next Commit. A content that is already stored is read
// and not written again. An error of r is returned unchanged.
func (s *Store) Put(ctx context.Context, r io.Reader) (File, error) {
	if s.buf == nil {
		s.buf = make([]byte, pieceSize)
	}
	var f File
	var whole hash.Hash
	for {
		n, err := io.ReadFull(r, s.buf)
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return File{}, err
		}
		if n > 0 {
			p, err := s.putPiece(ctx, s.buf[:n])
			if err != nil {
				return File{}, fmt.Errorf("workspace: store a file of session %s: %w", s.session, err)
			}
			f.pieces, f.Size = append(f.pieces, p), f.Size+int64(n)
		}
		if whole == nil && !last {
			whole = sha256.New()
		}
		if whole != nil {
			whole.Write(s.buf[:n])
		}
		if last {
			break
		}
	}
	if f.SHA256 = sumOf(f.pieces); whole != nil {
		f.SHA256 = hex.EncodeToString(whole.Sum(nil))
	}
	return f, nil
}

// sumOf returns the hash of a content of at most one piece, which is the
// piece's.
func sumOf(pieces []piece) string {
	if len(pieces) == 0 {
		return digestOf(nil).String()
	}
	return pieces[0].Sum.String()
}

// putPiece adds data to the current pack, unless it is stored.
func (s *Store) putPiece(ctx context.Context, data []byte) (piece, error) {
	sum := digestOf(data)
	if p, known := s.pieces[sum]; known && s.good(p) {
		return p, nil
	}
	p, err := s.add(ctx, sum, data)
	if err == nil {
		s.pieces[sum] = p
	}
	return p, err
}

func (s *Store) add(ctx context.Context, sum digest, data []byte) (piece, error) {
	if s.filling != "" && s.packs[s.filling].size+int64(len(data)) > packSize {
		if err := s.upload(ctx); err != nil {
			return piece{}, err
		}
	}
	if s.filling == "" {
		s.filling = fmt.Sprintf("%d-%s", s.epoch, rand.Text())
		s.packs[s.filling] = &pack{}
	}
	to := s.packs[s.filling]
	p := piece{Sum: sum, Pack: s.filling, At: to.size, Size: int64(len(data))}
	to.data = append(to.data, data...)
	to.size += p.Size
	return p, nil
}

// upload starts to upload the current pack, concurrently with others.
func (s *Store) upload(ctx context.Context) error {
	if s.uploads == nil {
		s.uploads, s.uploading = errgroup.WithContext(ctx)
		s.uploads.SetLimit(packsUp)
	}
	if s.filling != "" {
		name, p, ctx := s.filling, s.packs[s.filling], s.uploading
		s.filling = ""
		s.uploads.Go(func() error {
			err := s.objects.Put(ctx, packsFolder+name, p.data)
			p.data = nil
			p.failed.Store(err != nil)
			return err
		})
	}
	return context.Cause(s.uploading)
}

// Flush uploads what was stored and waits for it: for a writer that ends without
// a Commit. The next Commit of the same Store continues from there.
func (s *Store) Flush(ctx context.Context) error {
	if err := s.waitUploads(ctx); err != nil {
		return fmt.Errorf("workspace: store files of session %s: %w", s.session, err)
	}
	return nil
}

func (s *Store) waitUploads(ctx context.Context) error {
	if s.filling == "" && s.uploads == nil {
		return nil
	}
	// An upload's error is returned by Wait.
	_ = s.upload(ctx)
	err := s.uploads.Wait()
	s.uploads, s.uploading = nil, nil
	return err
}

// Has reports whether a file's content is stored for good. If it is not, or if it
// is in a pack that should be removed, it should be stored again.
func (s *Store) Has(f File) bool {
	return !slices.ContainsFunc(f.pieces, func(p piece) bool { return !s.good(p) })
}

// stored reports whether a file's content can be read.
func (s *Store) stored(f File) bool {
	return !slices.ContainsFunc(f.pieces, func(p piece) bool { return !s.there(p) })
}

func (s *Store) there(p piece) bool {
	in := s.packs[p.Pack]
	return in != nil && !in.failed.Load()
}

func (s *Store) good(p piece) bool { return s.there(p) && !s.packs[p.Pack].wasteful }

// remember records where the contents of a file are; those of one that is held may
// be damaged.
func (s *Store) remember(f File) {
	for _, p := range f.pieces {
		if !f.Held {
			s.pieces[p.Sum] = p
		}
		s.notePack(p.Pack)
	}
}

func (s *Store) notePack(name string) {
	if s.packs[name] == nil {
		s.packs[name] = &pack{}
	}
}

// countLive computes how much of each pack is needed, and which are wasteful.
func (s *Store) countLive() {
	for _, p := range s.packs {
		p.live = 0
	}
	seen := make(map[piece]bool, len(s.pieces))
	once := func(p piece) {
		if !seen[p] {
			seen[p] = true
			s.packs[p.Pack].live += p.Size
		}
	}
	for _, f := range s.files {
		for _, p := range f.pieces {
			once(p)
		}
	}
	for _, level := range s.levels {
		for _, p := range level {
			once(p.Piece)
		}
	}
	s.markWasteful()
}

func (s *Store) markWasteful() {
	small := 0
	for _, p := range s.packs {
		if p.live > 0 && p.size < smallPack {
			small++
		}
	}
	budget := int64(rewriteBytes)
	for _, name := range slices.Sorted(maps.Keys(s.packs)) {
		p := s.packs[name]
		p.wasteful = budget > 0 && (p.size-p.live > max(deadBytes, p.live) || small > smallPacks && p.size < smallPack)
		if p.wasteful {
			budget -= p.live
		}
	}
}
