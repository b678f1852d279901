package workspace

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/archive"
)

// The manifest is a tree over all entries in the order of their paths. Only the
// hash of a path decides whether a page begins with it: a change touches its own
// page and those above it, however many entries and folders there are.
const (
	// fanBits is how many bits of the hash decide at each level: a page has 64
	// entries on average.
	fanBits = 6
	// topPages is how many pages the head names.
	topPages = 24
	// maxHeight bounds the tree if names were chosen to split badly.
	maxHeight = 8
	// maxPage bounds a page in memory, packed; even names that split badly stay
	// below it.
	maxPage = 256 << 20
)

// page is a page of the manifest: entries, or pages of the level below.
type page struct {
	First rawString `json:"f"`
	Piece piece     `json:"p"`
	// from and to are the range of its entries in the level below.
	from, to int
}

// entry is a file in a page.
type entry struct {
	Path   rawString   `json:"p"`
	Mode   fs.FileMode `json:"m"`
	Size   int64       `json:"n,omitempty"`
	Time   time.Time   `json:"t,omitzero"`
	Link   rawString   `json:"l,omitempty"`
	Held   bool        `json:"x,omitempty"`
	Sum    *digest     `json:"s,omitempty"`
	Pieces []piece     `json:"c,omitempty"`
}

func entryOf(f File) entry {
	e := entry{Path: rawString(f.Path), Mode: f.Mode, Size: f.Size, Time: f.ModTime, Link: rawString(f.Link), Held: f.Held, Pieces: f.pieces}
	if len(f.pieces) > 1 {
		// One piece has the hash of the whole.
		var sum digest
		if _, err := hex.Decode(sum[:], []byte(f.SHA256)); err == nil {
			e.Sum = &sum
		}
	}
	return e
}

// file validates an entry that was read, since it will be written to a file
// system.
func (e entry) file() (File, error) {
	f := File{Path: string(e.Path), Mode: e.Mode & (fs.ModeType | fs.ModePerm), Size: e.Size, ModTime: e.Time, Link: string(e.Link), Held: e.Held, pieces: e.Pieces}
	if err := checkPath(f.Path); err != nil {
		return f, err
	}
	var size int64
	for _, p := range e.Pieces {
		if !p.valid(pieceSize) {
			return f, fmt.Errorf("%w piece of %q", archive.ErrInvalid, f.Path)
		}
		size += p.Size
	}
	switch {
	case size != f.Size:
		return f, fmt.Errorf("%w size of %q: %d, its pieces have %d", archive.ErrInvalid, f.Path, f.Size, size)
	case e.Sum != nil:
		f.SHA256 = e.Sum.String()
	case len(e.Pieces) > 1:
		return f, fmt.Errorf("%w %q: it has no hash", archive.ErrInvalid, f.Path)
	case f.Regular():
		f.SHA256 = sumOf(e.Pieces)
	}
	return f, nil
}

// begins reports whether a path begins a page of the level.
func begins(path string, level int) bool {
	h := fnv.New64a()
	_, _ = io.WriteString(h, path)
	sum := h.Sum64()
	// The lower bits of this hash depend too much on the last bytes.
	sum ^= sum >> 32
	sum *= 0x9e3779b97f4a7c15
	return sum>>(64-fanBits*(level+1))&(1<<fanBits-1) == 0
}

// writePages returns the pages of all levels; those that the last manifest has
// are not written again.
func (s *Store) writePages(ctx context.Context, files []File) (levels [][]page, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	low, err := writeLevel(ctx, s, 0, files, s.files, func(f File) string { return f.Path }, File.equal, entryOf)
	levels = append(levels, low)
	for err == nil && len(low) > topPages && len(levels) < maxHeight {
		var was []page
		if len(s.levels) >= len(levels) {
			was = s.levels[len(levels)-1]
		}
		low, err = writeLevel(ctx, s, len(levels), low, was,
			func(p page) string { return string(p.First) }, func(x, y page) bool { return x.Piece == y.Piece }, func(p page) page { return p })
		levels = append(levels, low)
	}
	return levels, err
}

// writeLevel splits items into pages and writes those that are new.
func writeLevel[T, E any](ctx context.Context, s *Store, level int, items, was []T, key func(T) string, same func(T, T) bool, encoded func(T) E) (pages []page, err error) {
	known := map[rawString]page{}
	if level < len(s.levels) {
		for _, p := range s.levels[level] {
			known[p.First] = p
		}
	}
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && !begins(key(items[to]), level) {
			to++
		}
		p, found := known[rawString(key(items[from]))]
		if !found || !s.good(p.Piece) || !slices.EqualFunc(items[from:to], was[p.from:p.to], same) {
			p = page{First: rawString(key(items[from]))}
			if p.Piece, err = writePage(ctx, s, items[from:to], encoded); err != nil {
				return nil, err
			}
		}
		p.from, p.to = from, to
		pages = append(pages, p)
		from = to
	}
	return pages, nil
}

func writePage[T, E any](ctx context.Context, s *Store, items []T, encoded func(T) E) (piece, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	lines := json.NewEncoder(z)
	for _, item := range items {
		if err := lines.Encode(encoded(item)); err != nil {
			return piece{}, err
		}
	}
	if err := z.Close(); err != nil {
		return piece{}, err
	}
	return s.add(ctx, digestOf(b.Bytes()), b.Bytes())
}

// readPages reads the manifest from the head down.
func (s *Store) readPages(ctx context.Context) error {
	if s.head.Height < 0 || s.head.Height > maxHeight {
		return fmt.Errorf("workspace: %w: height %d", archive.ErrCorrupt, s.head.Height)
	}
	s.files, s.levels = nil, make([][]page, s.head.Height)
	if s.head.Height == 0 {
		return nil
	}
	s.levels[s.head.Height-1] = s.head.Pages
	for level := s.head.Height - 1; level > 0; level-- {
		pages, err := readLevel[page](ctx, s, level)
		if err != nil {
			return err
		}
		s.levels[level-1] = pages
	}
	entries, err := readLevel[entry](ctx, s, 0)
	if err != nil {
		return err
	}
	s.files = make([]File, len(entries))
	for i, e := range entries {
		if s.files[i], err = e.file(); err != nil {
			return fmt.Errorf("workspace: %w: %w", archive.ErrCorrupt, err)
		}
	}
	if !slices.IsSortedFunc(s.files, comparePaths) || len(s.files) != s.head.Files {
		return fmt.Errorf("workspace: %w: %d files out of order, want %d", archive.ErrCorrupt, len(s.files), s.head.Files)
	}
	if err := checkFiles(s.files); err != nil {
		return fmt.Errorf("workspace: %w: %w", archive.ErrCorrupt, err)
	}
	return nil
}

// readLevel reads the content of a level's pages.
func readLevel[T any](ctx context.Context, s *Store, level int) (all []T, err error) {
	pages := s.levels[level]
	pieces := make([]piece, len(pages))
	for i, p := range pages {
		if !p.Piece.valid(maxPage) {
			return nil, fmt.Errorf("workspace: %w: page %q", archive.ErrCorrupt, p.First)
		}
		pieces[i] = p.Piece
		s.notePack(p.Piece.Pack)
	}
	data, err := s.readPieces(ctx, pieces)
	if err != nil {
		return nil, err
	}
	for i := range pages {
		pages[i].from = len(all)
		if all, err = decodePage(data[i], all); err != nil {
			return nil, fmt.Errorf("workspace page in %s: %w: %w", pieces[i].Pack, archive.ErrCorrupt, err)
		}
		pages[i].to = len(all)
	}
	return all, nil
}

func decodePage[T any](data []byte, all []T) ([]T, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for lines := json.NewDecoder(z); ; {
		var item T
		err := lines.Decode(&item)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
}
