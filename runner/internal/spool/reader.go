package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// Reader returns a reader from an offset on. Errors: runner.ErrOffset,
// runner.ErrTrimmed.
func (s *Spool) Reader(from int64) (*Reader, error) {
	r := &Reader{spool: s, pos: from, start: -1}
	if err := r.check(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Gap is what a spool has lost: the bytes from From to To. A reader that returns
// it continues behind it.
type Gap struct{ From, To int64 }

func (g *Gap) Error() string {
	return fmt.Sprintf("spool: what stood from byte %d to %d is gone", g.From, g.To)
}

// begins is the beginning of every record. No record contains it further on.
const begins = `{"ts":"`

// check verifies that a record begins here; if not, the bytes here are lost.
func (r *Reader) check() error {
	start, end, _, err := r.spool.segment(r.pos)
	if err != nil || r.pos == start || r.pos > end {
		return err
	}
	if err := r.open(start); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	around := make([]byte, 1+len(begins))
	n, err := r.file.ReadAt(around, r.pos-start-1)
	if err != nil && err != io.EOF {
		return fmt.Errorf("spool: %w", err)
	}
	if n > 0 && around[0] != '\n' && string(around[1:]) != begins {
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

// Close closes the open file.
func (r *Reader) Close() {
	if r.file != nil {
		r.file.Close()
		r.file, r.start = nil, -1
	}
}

// Next returns the whole records that follow, about want bytes of them and at
// least one, each with its line end, and the offset of the first. At the end it
// returns no bytes. The bytes are valid until the next call. A [Gap] is an error
// of one call; the next call continues behind it.
func (r *Reader) Next(want int) (at int64, records []byte, err error) {
	if cap(r.buf) > 4<<20 {
		r.buf = nil // a waiting reader must not hold a huge line's memory
	}
	start, end, next, err := r.spool.segment(r.pos)
	if err != nil || next == r.pos {
		return r.pos, nil, err
	}
	if err := r.open(start); errors.Is(err, fs.ErrNotExist) {
		return r.missing()
	} else if err != nil {
		return r.pos, nil, err
	}
	for {
		n := max(0, min(int64(want), end-r.pos))
		chunk, err := r.read(r.pos-start, n)
		if err != nil {
			return r.pos, nil, err
		}
		if i := bytes.LastIndexByte(chunk, '\n'); i >= 0 {
			at = r.pos
			r.pos += int64(i) + 1
			return at, chunk[:i+1], nil
		}
		if n >= end-r.pos || int64(len(chunk)) < n {
			return r.skip(next)
		}
		want *= 4
	}
}

// missing handles a segment whose file does not exist.
func (r *Reader) missing() (at int64, records []byte, err error) {
	_, _, next, err := r.spool.segment(r.pos) // again: it may just have been trimmed
	if err != nil {
		return r.pos, nil, err
	}
	return r.skip(next)
}

func (r *Reader) skip(to int64) (at int64, records []byte, err error) {
	at, r.pos = r.pos, to
	return at, nil, &Gap{From: at, To: to}
}

// read returns n bytes, or fewer if the file has no more.
func (r *Reader) read(at, n int64) ([]byte, error) {
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	got, err := r.file.ReadAt(r.buf[:n], at)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return r.buf[:got], nil
}
