package archive

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"slices"
	"time"
	"unicode/utf8"
)

// The manifest is a tree over all entries in the order of their paths. Where a
// page begins is decided by the hash of the path that begins it, and of nothing
// else: a change touches its own page and those above it, however many entries
// there are, and in however few or many folders.
const (
	// fanBits is how many bits of the hash decide at each level: a page has 64
	// entries on average.
	fanBits = 6
	// topPages is how many pages the head names.
	topPages = 24
	// maxHeight bounds the tree where somebody chose names that split badly.
	maxHeight = 8
)

// sheet is a page of the manifest: entries, or pages of the level below.
type sheet struct {
	First words `json:"f"`
	Part  part  `json:"p"`
	// from and to are what it holds of the level below.
	from, to int
}

// entry is a file in a page.
type entry struct {
	Path  words       `json:"p"`
	Mode  fs.FileMode `json:"m"`
	Size  int64       `json:"n,omitempty"`
	Time  time.Time   `json:"t,omitzero"`
	Link  words       `json:"l,omitempty"`
	Held  bool        `json:"x,omitempty"`
	Sum   *digest     `json:"s,omitempty"`
	Parts []part      `json:"c,omitempty"`
}

// words are bytes that are mostly UTF-8: a JSON string then, else an object.
type words string

type bytesText struct {
	Base64 string `json:"base64"`
}

// MarshalJSON keeps every byte.
func (t words) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(bytesText{base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON takes what MarshalJSON gives.
func (t *words) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, (*string)(t))
	}
	var b bytesText
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(b.Base64)
	*t = words(raw)
	return err
}

// fileJSON is a WorkspaceFile as the world sees it.
type fileJSON struct {
	Path    words       `json:"path"`
	Mode    fs.FileMode `json:"mode"`
	Size    int64       `json:"size"`
	SHA256  string      `json:"sha256,omitempty"`
	ModTime time.Time   `json:"modTime,omitzero"`
	Link    words       `json:"link,omitempty"`
	Held    bool        `json:"held,omitempty"`
}

// MarshalJSON writes what is exported of it.
func (f WorkspaceFile) MarshalJSON() ([]byte, error) {
	return json.Marshal(fileJSON{words(f.Path), f.Mode, f.Size, f.SHA256, f.ModTime, words(f.Link), f.Held})
}

// UnmarshalJSON takes what MarshalJSON gives.
func (f *WorkspaceFile) UnmarshalJSON(data []byte) error {
	var j fileJSON
	err := json.Unmarshal(data, &j)
	*f = WorkspaceFile{Path: string(j.Path), Mode: j.Mode, Size: j.Size, SHA256: j.SHA256, ModTime: j.ModTime, Link: string(j.Link), Held: j.Held}
	return err
}

func entryOf(f WorkspaceFile) entry {
	e := entry{Path: words(f.Path), Mode: f.Mode, Size: f.Size, Time: f.ModTime, Link: words(f.Link), Held: f.Held, Parts: f.parts}
	if len(f.parts) > 1 {
		// One piece has the hash of the whole.
		var sum digest
		if err := sum.fromHex(f.SHA256); err == nil {
			e.Sum = &sum
		}
	}
	return e
}

func (d *digest) fromHex(s string) error {
	raw, err := hex.DecodeString(s)
	copy(d[:], raw)
	return err
}

// file checks what was read: it goes to a file system.
func (e entry) file() (WorkspaceFile, error) {
	f := WorkspaceFile{Path: string(e.Path), Mode: e.Mode & (fs.ModeType | fs.ModePerm), Size: e.Size, ModTime: e.Time, Link: string(e.Link), Held: e.Held, parts: e.Parts}
	if err := checkBytes(f.Path); err != nil {
		return f, err
	}
	var size int64
	for _, p := range e.Parts {
		if p.At < 0 || p.Size <= 0 || p.Size > pieceSize || !packName(p.Pack) {
			return f, fmt.Errorf("%w piece of %q", ErrInvalid, f.Path)
		}
		size += p.Size
	}
	switch {
	case size != f.Size:
		return f, fmt.Errorf("%w size of %q: %d, its pieces have %d", ErrInvalid, f.Path, f.Size, size)
	case e.Sum != nil:
		f.SHA256 = e.Sum.String()
	case len(e.Parts) > 1:
		return f, fmt.Errorf("%w %q: it has no hash", ErrInvalid, f.Path)
	case f.Regular():
		f.SHA256 = wholeSum(e.Parts, nil)
	}
	return f, nil
}

// packName says whether it is a name that we give: one component of a key.
func packName(name string) bool {
	return name != "" && len(name) <= 64 && escape(name) == name
}

// begins says whether a path begins a page of the level.
func begins(path string, level int) bool {
	h := fnv.New64a()
	_, _ = io.WriteString(h, path)
	sum := h.Sum64()
	// The lower bits of this hash follow the last bytes too closely.
	sum ^= sum >> 32
	sum *= 0x9e3779b97f4a7c15
	return sum>>(64-fanBits*(level+1))&(1<<fanBits-1) == 0
}

// writeTree gives the pages of all levels; what the last manifest has of them
// is not written again.
func (w *Workspace) writeTree(ctx context.Context, files []WorkspaceFile) (levels [][]sheet, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	low, err := writeLevel(ctx, w, 0, files, w.files, func(f WorkspaceFile) string { return f.Path }, WorkspaceFile.equal, entryOf)
	levels = append(levels, low)
	for err == nil && len(low) > topPages && len(levels) < maxHeight {
		var was []sheet
		if len(w.levels) >= len(levels) {
			was = w.levels[len(levels)-1]
		}
		low, err = writeLevel(ctx, w, len(levels), low, was,
			func(p sheet) string { return string(p.First) }, func(x, y sheet) bool { return x.Part == y.Part }, func(p sheet) sheet { return p })
		levels = append(levels, low)
	}
	return levels, err
}

// writeLevel cuts items into pages and writes those that are new.
func writeLevel[T, E any](ctx context.Context, w *Workspace, level int, items, was []T, key func(T) string, same func(T, T) bool, encoded func(T) E) (pages []sheet, err error) {
	known := map[words]sheet{}
	if level < len(w.levels) {
		for _, p := range w.levels[level] {
			known[p.First] = p
		}
	}
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && !begins(key(items[to]), level) {
			to++
		}
		p, stands := known[words(key(items[from]))]
		if !stands || !w.good(p.Part) || !slices.EqualFunc(items[from:to], was[p.from:p.to], same) {
			p = sheet{First: words(key(items[from]))}
			if p.Part, err = writePage(ctx, w, items[from:to], encoded); err != nil {
				return nil, err
			}
		}
		p.from, p.to = from, to
		pages = append(pages, p)
		from = to
	}
	return pages, nil
}

func writePage[T, E any](ctx context.Context, w *Workspace, items []T, encoded func(T) E) (part, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	lines := json.NewEncoder(z)
	for _, item := range items {
		if err := lines.Encode(encoded(item)); err != nil {
			return part{}, err
		}
	}
	if err := z.Close(); err != nil {
		return part{}, err
	}
	return w.add(ctx, sha256.Sum256(b.Bytes()), b.Bytes())
}

// readTree reads the manifest from the head down.
func (w *Workspace) readTree(ctx context.Context) error {
	h := w.head.value
	w.files, w.levels = nil, make([][]sheet, h.Height)
	if h.Height == 0 {
		return nil
	}
	if h.Height > maxHeight {
		return fmt.Errorf("workspace: %w: height %d", ErrCorrupt, h.Height)
	}
	w.levels[h.Height-1] = h.Pages
	for level := h.Height - 1; level > 0; level-- {
		pages, err := readLevel[sheet](ctx, w, level)
		if err != nil {
			return err
		}
		w.levels[level-1] = pages
	}
	entries, err := readLevel[entry](ctx, w, 0)
	if err != nil {
		return err
	}
	w.files = make([]WorkspaceFile, len(entries))
	for i, e := range entries {
		if w.files[i], err = e.file(); err != nil {
			return fmt.Errorf("workspace: %w: %w", ErrCorrupt, err)
		}
	}
	if !slices.IsSortedFunc(w.files, func(x, y WorkspaceFile) int { return cmp.Compare(x.Path, y.Path) }) || len(w.files) != h.Files {
		return fmt.Errorf("workspace: %w: %d files out of order, want %d", ErrCorrupt, len(w.files), h.Files)
	}
	if err := checkWorkspace(w.files); err != nil {
		return fmt.Errorf("workspace: %w: %w", ErrCorrupt, err)
	}
	return nil
}

// readLevel reads what the pages of a level hold.
func readLevel[T any](ctx context.Context, w *Workspace, level int) (all []T, err error) {
	pages := w.levels[level]
	parts := make([]part, len(pages))
	for i, p := range pages {
		if p.Part.At < 0 || p.Part.Size <= 0 || p.Part.Size > maxSheet || !packName(p.Part.Pack) {
			return nil, fmt.Errorf("workspace: %w: page %q", ErrCorrupt, p.First)
		}
		parts[i] = p.Part
		w.note(p.Part)
	}
	data, err := w.readParts(ctx, parts)
	if err != nil {
		return nil, err
	}
	for i := range pages {
		pages[i].from = len(all)
		if all, err = decodePage(data[i], all); err != nil {
			return nil, fmt.Errorf("workspace page %s: %w: %w", parts[i].Pack, ErrCorrupt, err)
		}
		pages[i].to = len(all)
	}
	return all, nil
}

// maxSheet bounds a page in memory, packed; even names that split badly stay
// below it.
const maxSheet = 256 << 20

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
