package replay

import (
	"io"
	"io/fs"
	"path"
	"runtime"
)

// Endless is a home with one file of any size that is never in memory as a whole:
// First, then Line repeated, then Last. Not safe for concurrent use.
type Endless struct {
	// Name is the file's path.
	Name string
	// First and Line must not be empty.
	First, Line, Last string
	// Lines is the number of repetitions of Line.
	Lines int64
	// Peak is the highest heap use seen while the file was read.
	Peak uint64
}

// Size returns the file's length in bytes.
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

// OpenAt opens the file at a byte offset.
func (e *Endless) OpenAt(name string, offset int64) (io.ReadCloser, error) {
	if name != e.Name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(&endless{of: e, at: offset}), nil
}

type endless struct {
	of *Endless
	at int64
	// measured is the offset at which memory was last measured.
	measured int64
}

// measureEvery is the number of bytes between two measurements of the memory.
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

// from returns the rest of the line at a byte offset.
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
