package adapters

import (
	"bytes"
	"fmt"
	"io"
)

// Move gives a file of an agent's home another path, both relative to the home.
// It is moved in one step: a reader of the home, also after a crash, finds it
// once.
type Move struct{ From, To string }

// Repair is a file of an agent's home to write before a start: a part of an
// existing file, and what follows it. Both may be empty. It has the position of
// the bytes rather than the bytes, so that no transcript is held in memory.
type Repair struct {
	// Path is the file to write, relative to the home. It may be From: the file is
	// replaced in one step.
	Path string
	// From is a file of the home whose bytes from Begin up to End are the beginning
	// of the file. Default: none.
	From       string
	Begin, End int64
	// Add follows them.
	Add []byte
}

// Size returns the length of the file in bytes.
func (r Repair) Size() int64 { return r.End - r.Begin + int64(len(r.Add)) }

// Open opens the content of the file. Reading fails with io.ErrUnexpectedEOF if
// From is shorter than it was.
func (r Repair) Open(home Home) (io.ReadCloser, error) {
	if r.From == "" {
		return io.NopCloser(bytes.NewReader(r.Add)), nil
	}
	in, err := home.OpenAt(r.From, r.Begin)
	if err != nil {
		return nil, fmt.Errorf("repair %s: %w", r.Path, err)
	}
	kept := &exactly{in: io.LimitReader(in, r.End-r.Begin), left: r.End - r.Begin}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(kept, bytes.NewReader(r.Add)), in}, nil
}

// exactly reads as many bytes as are left, or fails.
type exactly struct {
	in   io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
