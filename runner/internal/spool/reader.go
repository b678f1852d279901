package spool

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/sojourn-run/sojourn/runner"
)

// Reader reads records from a spool; not for concurrent use.
type Reader struct {
	spool *Spool
	pos   int64
	file  *os.File
	start int64 // of the open segment
	buf   []byte
}

// Reader begins at an offset. Errors: runner.ErrOffset, runner.ErrTrimmed.
func (s *Spool) Reader(from int64) (*Reader, error) {
	r := &Reader{spool: s, pos: from, start: -1}
	if err := r.check(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// check makes sure that a record begins here.
func (r *Reader) check() error {
	start, _, err := r.spool.segment(r.pos)
	if err != nil || r.pos == start {
		return err
	}
	if err := r.open(start); err != nil {
		return err
	}
	var before [1]byte
	if _, err := r.file.ReadAt(before[:], r.pos-start-1); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if before[0] != '\n' {
		return fmt.Errorf("spool: offset %d is inside a record: %w", r.pos, runner.ErrOffset)
	}
	return nil
}

func (r *Reader) open(start int64) error {
	if r.start == start {
		return nil
	}
	r.Close()
	f, err := os.Open(r.spool.path(start))
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	r.file, r.start = f, start
	return nil
}

// Close gives the open file back.
func (r *Reader) Close() {
	if r.file != nil {
		r.file.Close()
		r.file, r.start = nil, -1
	}
}

// Next gives the whole records that follow, about want bytes of them and at
// least one, each with its line end, and the offset of the first. Nothing
// there: no bytes. The bytes are valid until the next call.
func (r *Reader) Next(want int) (at int64, records []byte, err error) {
	if cap(r.buf) > 4<<20 {
		r.buf = nil // a reader that waits must not hold a huge line's memory
	}
	start, end, err := r.spool.segment(r.pos)
	if err != nil || end == r.pos {
		return r.pos, nil, err
	}
	if err := r.open(start); err != nil {
		return r.pos, nil, err
	}
	for {
		n := min(int64(want), end-r.pos)
		chunk, err := r.read(r.pos-start, n)
		if err != nil {
			return r.pos, nil, err
		}
		if i := bytes.LastIndexByte(chunk, '\n'); i >= 0 {
			at = r.pos
			r.pos += int64(i) + 1
			return at, chunk[:i+1], nil
		}
		if n == end-r.pos {
			return r.pos, nil, fmt.Errorf("spool: no line end between %d and %d", r.pos, end)
		}
		want *= 4
	}
}

func (r *Reader) read(at, n int64) ([]byte, error) {
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:n]
	if _, err := r.file.ReadAt(r.buf, at); err != nil && err != io.EOF {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return r.buf, nil
}
