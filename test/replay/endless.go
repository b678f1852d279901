package replay

import (
	"io"
	"io/fs"
	"path"
	"runtime"
)

// Endless is a home with one file of any size that is nowhere in memory: First,
// Line again and again, and Last. Not safe for concurrent use.
type Endless struct {
	// Name is the file's path.
	Name string
	// First and Line are not empty.
	First, Line, Last string
	// Lines is how often Line comes.
	Lines int64
	// Peak is the most memory that was in use while the file was read.
	Peak uint64
}

// Size is the file's length in bytes.
func (e *Endless) Size() int64 {
	return int64(len(e.First)+len(e.Last)) + e.Lines*int64(len(e.Line))
}

// Glob returns the file's path if it matches.
func (e *Endless) Glob(pattern string) ([]string, error) {
	if ok, err := path.Match(pattern, e.Name); err != nil || !ok {
		return nil, err
	}
	return []string{e.Name}, nil
}

// Open opens the file.
func (e *Endless) Open(name string) (io.ReadCloser, error) { return e.OpenAt(name, 0) }

// OpenAt opens the file behind offset bytes.
func (e *Endless) OpenAt(name string, offset int64) (io.ReadCloser, error) {
	if name != e.Name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(&endless{of: e, at: offset}), nil
}

type endless struct {
	of *Endless
	at int64
	// measured is where memory was looked at last.
	measured int64
}

// measureEvery is how many bytes are read between two looks at the memory.
const measureEvery = 4 << 20

func (r *endless) Read(p []byte) (n int, err error) {
	if r.at-r.measured >= measureEvery {
		r.measured = r.at
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		r.of.Peak = max(r.of.Peak, m.HeapAlloc)
	}
	for n < len(p) {
		rest := r.of.from(r.at)
		if rest == "" {
			return n, io.EOF
		}
		k := copy(p[n:], rest)
		n, r.at = n+k, r.at+int64(k)
	}
	return n, nil
}

// from is what follows offset bytes of the file, up to the end of its line.
func (e *Endless) from(offset int64) string {
	first, line := int64(len(e.First)), int64(len(e.Line))
	switch {
	case offset < first:
		return e.First[offset:]
	case offset < first+e.Lines*line:
		return e.Line[(offset-first)%line:]
	}
	return e.Last[min(offset-first-e.Lines*line, int64(len(e.Last))):]
}
