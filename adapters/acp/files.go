package acp

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/sojourn-run/sojourn/adapters"
)

// pieceSize is how much of a file is compared, and archived again, at once:
// databases change in pages.
const pieceSize = 64 << 10

// fileLine is one line of an export. The first names the files, the others have
// the changes in them.
type fileLine struct {
	// Export is exportBegun or exportEnded: what is between them counts as a whole.
	Export string `json:"export,omitempty"`

	Globs string `json:"globs,omitempty"`
	Path  string `json:"path,omitempty"`
	// At is the position of Data in the file, a multiple of pieceSize.
	At   int64  `json:"at,omitempty"`
	Data []byte `json:"data,omitempty"`
	// Size is the file's length, written after its pieces; Gone means that the file
	// does not exist any more.
	Size *int64 `json:"size,omitempty"`
	Gone bool   `json:"gone,omitempty"`
}

// An export of several pieces has a line at its beginning and at its end: without its
// end it was cut off, and its files would be of two moments.
const (
	exportBegun = "begun"
	exportEnded = "ended"
)

// cursor is how far files are exported: the checksums of their pieces.
type cursor struct {
	// CutOff: the lines end in an export that was cut off.
	CutOff bool `json:"cutOff,omitempty"`

	Globs string              `json:"globs,omitempty"`
	Files map[string][]string `json:"files,omitempty"`
	Sizes map[string]int64    `json:"sizes,omitempty"`
}

func newCursor(raw json.RawMessage) (*cursor, error) {
	c := &cursor{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, c); err != nil {
			return nil, fmt.Errorf("acp: cursor of the program's files: %w", err)
		}
	}
	if c.Files == nil {
		c.Files, c.Sizes = map[string][]string{}, map[string]int64{}
	}
	return c, nil
}

func sumOf(piece []byte) string {
	sum := sha256.Sum256(piece)
	return hex.EncodeToString(sum[:12])
}

// globsOf parses the value of SOJOURN_ACP_FILES.
func globsOf(value string) ([]string, error) {
	var globs []string
	for _, g := range strings.Split(strings.TrimSpace(value), ":") {
		if g == "" {
			continue
		}
		if _, err := path.Match(g, ""); err != nil || path.IsAbs(g) || slices.Contains(strings.Split(g, "/"), "..") {
			return nil, fmt.Errorf("glob %q: want a pattern below the home (no .. in it)", g)
		}
		globs = append(globs, g)
	}
	return globs, nil
}

// exportTries is how often files are read until they don't change meanwhile.
const exportTries = 4

// Export returns the pieces of the program's files that have changed. Several
// files may be one database, so they must be of one moment: they are read again,
// and count if nothing has changed in between. Files that keep changing are left
// for the next time. The pieces are collected in a temporary file, since they may
// be all that a program has.
func (*Adapter) Export(home adapters.Home, t adapters.Transcript, since json.RawMessage, take func(lines []byte) error) (json.RawMessage, error) {
	before, err := newCursor(since)
	if err != nil {
		return nil, err
	}
	value, err := readGlobs(home, t.Path)
	if err != nil {
		return nil, fmt.Errorf("acp: export: %w", err)
	}
	waiting, err := newLineFile()
	if err != nil {
		return nil, fmt.Errorf("acp: export: %w", err)
	}
	next, err := exportStill(home, value, before, waiting)
	if err == nil && next != nil {
		err = passOn(waiting, before.CutOff || waiting.size > linesAtOnce, take)
	}
	if err := errors.Join(err, waiting.close()); err != nil {
		return nil, fmt.Errorf("acp: export: %w", err)
	}
	if next == nil {
		return since, nil
	}
	return json.Marshal(next)
}

// passOn passes on the lines of an export, marked with its beginning and its end or
// not.
func passOn(lines *lineFile, marked bool, take func(lines []byte) error) error {
	if !marked {
		return lines.each("", "", take)
	}
	mark := func(what string) string { return `{"export":"` + what + `"}` + "\n" }
	return lines.each(mark(exportBegun), mark(exportEnded), take)
}

// exportStill writes what has changed since the cursor before, and returns the
// cursor behind it; nil if nothing has, or the files keep changing.
func exportStill(home adapters.Home, globs string, before *cursor, out *lineFile) (*cursor, error) {
	for range exportTries {
		if err := out.empty(); err != nil {
			return nil, err
		}
		next, err := export(home, globs, before, json.NewEncoder(out))
		if err != nil || out.size == 0 {
			return nil, err
		}
		again := &lineCounter{}
		if _, err := export(home, globs, next, json.NewEncoder(again)); err == nil && again.bytes == 0 {
			return next, nil
		}
	}
	return nil, nil
}

// lineCounter counts the bytes written to it.
type lineCounter struct{ bytes int }

func (c *lineCounter) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}

// export reads the files once.
func export(home adapters.Home, value string, before *cursor, enc *json.Encoder) (*cursor, error) {
	globs, err := globsOf(value)
	if err != nil {
		return nil, err
	}
	next := &cursor{Globs: value, Files: map[string][]string{}, Sizes: map[string]int64{}}
	if before.Globs != value {
		if err := enc.Encode(fileLine{Globs: value}); err != nil {
			return nil, err
		}
	}
	for _, g := range globs {
		found, err := home.Glob(g)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if _, twice := next.Files[name]; twice || strings.HasPrefix(name, path.Dir(recordFile)+"/") {
				continue
			}
			if err := exportFile(home, name, before, next, enc); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Files)) {
		if _, still := next.Files[name]; !still {
			if err := enc.Encode(fileLine{Path: name, Gone: true}); err != nil {
				return nil, err
			}
		}
	}
	return next, nil
}

// exportFile reads one file; folders, and files that disappear, are skipped.
func exportFile(home adapters.Home, name string, before, next *cursor, enc *json.Encoder) error {
	in, err := home.Open(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	var sums []string
	var size int64
	err = eachPiece(in, func(piece []byte) error {
		sum := sumOf(piece)
		was, at := before.Files[name], size
		sums, size = append(sums, sum), size+int64(len(piece))
		if len(sums) <= len(was) && was[len(sums)-1] == sum {
			return nil
		}
		return enc.Encode(fileLine{Path: name, At: at, Data: piece})
	})
	if errors.Is(err, syscall.EISDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("export %s: %w", name, err)
	}
	if was, known := before.Sizes[name]; !known || was != size || !slices.Equal(before.Files[name], sums) {
		if err := enc.Encode(fileLine{Path: name, Size: &size}); err != nil {
			return err
		}
	}
	next.Files[name], next.Sizes[name] = sums, size
	return nil
}

// eachPiece reads a file a piece at a time.
func eachPiece(in io.Reader, do func(piece []byte) error) error {
	piece := make([]byte, pieceSize)
	for {
		n, err := io.ReadFull(in, piece)
		if n > 0 {
			if err := do(piece[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// maxGlobs bounds the file that names the program's files, in bytes.
const maxGlobs = 64 << 10

func readGlobs(home adapters.Home, name string) (string, error) {
	in, err := home.Open(name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxGlobs+1))
	if err == nil && len(data) > maxGlobs {
		err = fmt.Errorf("%s has more than %d bytes", name, maxGlobs)
	}
	return strings.TrimSpace(string(data)), err
}

// Cursor returns the cursor behind lines that were exported earlier: if the last
// export was cut off, the one before it.
func (*Adapter) Cursor(lines io.Reader) (json.RawMessage, error) {
	c, _ := newCursor(nil)
	var whole *cursor // before the export that is not complete
	err := eachLine(lines, func(l fileLine) error {
		switch {
		case l.Export == exportEnded:
			whole = nil
		case l.Export == exportBegun:
			if whole != nil {
				c = whole
			}
			whole = c.clone()
		default:
			return c.pass(l)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("acp: cursor: %w", err)
	}
	if whole != nil {
		c, c.CutOff = whole, true
	}
	return json.Marshal(c)
}

func (c *cursor) clone() *cursor {
	files := make(map[string][]string, len(c.Files))
	for name, sums := range c.Files {
		files[name] = slices.Clone(sums)
	}
	return &cursor{Globs: c.Globs, Files: files, Sizes: maps.Clone(c.Sizes)}
}

// pass records a line that was exported.
func (c *cursor) pass(l fileLine) error {
	switch {
	case l.Globs != "":
		c.Globs = l.Globs
	case l.Gone:
		delete(c.Files, l.Path)
		delete(c.Sizes, l.Path)
	case l.Size != nil:
		pieces := int((*l.Size + pieceSize - 1) / pieceSize)
		c.Sizes[l.Path], c.Files[l.Path] = *l.Size, c.Files[l.Path][:min(pieces, len(c.Files[l.Path]))]
	default:
		sums := c.Files[l.Path]
		switch n := int(l.At / pieceSize); {
		case n < len(sums):
			sums[n] = sumOf(l.Data)
		case n == len(sums):
			c.Files[l.Path] = append(sums, sumOf(l.Data))
		default:
			return fmt.Errorf("a piece of %s at %d has none before it", l.Path, l.At)
		}
	}
	return nil
}

func eachLine(in io.Reader, do func(fileLine) error) error {
	lines := bufio.NewReaderSize(in, 1<<16)
	for number := 1; ; number++ {
		raw, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if len(bytes.TrimSpace(raw)) > 0 {
			var l fileLine
			fault := json.Unmarshal(raw, &l)
			if fault == nil {
				fault = l.check()
			}
			if fault == nil {
				fault = do(l)
			}
			if fault != nil {
				return fmt.Errorf("line %d: %w", number, fault)
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (l fileLine) check() error {
	switch {
	case l.Export == exportBegun || l.Export == exportEnded:
		return nil
	case l.Globs != "":
		_, err := globsOf(l.Globs)
		return err
	case !fs.ValidPath(l.Path) || l.Path == ".":
		return fmt.Errorf("path %q", l.Path)
	case l.At < 0 || l.At%pieceSize != 0 || len(l.Data) > pieceSize || l.Size != nil && *l.Size < 0:
		return fmt.Errorf("a piece of %s that can't be", l.Path)
	}
	return nil
}

// Import makes the program's files from an export. Records, if given, are
// restored to their path.
func (a *Adapter) Import(exported []adapters.Source, l adapters.Launch, scratch string) (map[string]string, error) {
	files := scratchFiles{scratch, map[string]string{}}
	for _, src := range exported {
		if err := a.importOne(src, l, files); err != nil {
			return nil, fmt.Errorf("acp: import %s: %w", src.Path, err)
		}
	}
	return files.of, nil
}

func (a *Adapter) importOne(src adapters.Source, l adapters.Launch, files scratchFiles) error {
	in, err := src.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	if src.ID == filesID {
		return importFiles(in, files)
	}
	return files.change(a.Place(src.Transcript, l), func(f *os.File, _ int64) error {
		_, err := io.Copy(f, in)
		return err
	})
}

// importFiles applies the lines of exports. Those of several pieces wait outside
// memory for their end: one that was cut off is ignored.
func importFiles(in io.Reader, files scratchFiles) error {
	waiting, err := newLineFile()
	if err != nil {
		return err
	}
	open := false
	err = eachLine(in, func(l fileLine) error {
		switch {
		case l.Export == exportBegun:
			open = true
			return waiting.empty()
		case l.Export == exportEnded && open:
			open = false
			return waiting.each("", "", func(lines []byte) error { return eachLine(bytes.NewReader(lines), files.apply) })
		case open:
			return json.NewEncoder(waiting).Encode(l)
		}
		return files.apply(l)
	})
	return errors.Join(err, waiting.close())
}

// scratchFiles are files built from lines. Each is on disk under a generated
// name: the paths in lines may change from folders to files and back.
type scratchFiles struct {
	dir string
	of  map[string]string
}

// change changes the file for a path, and makes it if there is none.
func (s scratchFiles) change(path string, change func(f *os.File, size int64) error) (err error) {
	if s.of[path] == "" {
		made, err := os.CreateTemp(s.dir, "")
		if err != nil {
			return err
		}
		s.of[path] = made.Name()
		if err := made.Close(); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(s.of[path], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return change(f, info.Size())
}

func (s scratchFiles) apply(l fileLine) error {
	if l.Gone {
		delete(s.of, l.Path)
		return nil
	}
	if l.Globs != "" {
		return s.change(globsFile, func(f *os.File, _ int64) error {
			_, err := f.WriteString(l.Globs + "\n")
			return errors.Join(err, f.Truncate(int64(len(l.Globs)+1)))
		})
	}
	return s.change(l.Path, func(f *os.File, size int64) error {
		switch {
		case l.Size != nil && *l.Size > size:
			return fmt.Errorf("%s has %d bytes, not %d", l.Path, size, *l.Size)
		case l.Size != nil:
			return f.Truncate(*l.Size)
		case l.At > size:
			return fmt.Errorf("a piece of %s at %d has none before it", l.Path, l.At)
		}
		_, err := f.WriteAt(l.Data, l.At)
		return err
	})
}
