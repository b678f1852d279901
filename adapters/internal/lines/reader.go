package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// Reader reads one transcript. Not safe for concurrent use.
type Reader struct {
	agent, path string
	in          io.ReadCloser
	buffered    *bufio.Reader
	number      int
	// size is how many bytes were read, incomplete lines included.
	size int64
	// long collects a line that is longer than the buffer.
	long jsonl.LineCutter
	cut  *traffic.Cut
	// mark is behind the last line that has its end.
	mark Mark
	// whole: an incomplete last line is not read.
	whole bool
}

// Open opens a transcript of an agent.
func Open(agent string, src adapters.Source) (*Reader, error) {
	in, err := src.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: open transcript %s: %w", agent, src.Path, err)
	}
	return &Reader{agent: agent, path: src.Path, in: in, buffered: bufio.NewReaderSize(in, 1<<16)}, nil
}

// Next returns the next line, cut if it is longer than a line may be. With an
// error, which is io.EOF at the end, the line is the part that was read. The
// caller owns the line.
func (r *Reader) Next() ([]byte, error) {
	line, err := r.Shared()
	return bytes.Clone(line), err
}

// Shared is Next for a caller that needs the line only until the next one: it
// may be in the reader's own memory.
func (r *Reader) Shared() ([]byte, error) {
	r.number++
	r.cut = nil
	size := int64(0)
	piece, err := r.buffered.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		size += int64(len(piece))
		_, _ = r.long.Write(piece) // Write never fails
		piece, err = r.buffered.ReadSlice('\n')
	}
	if size += int64(len(piece)); bytes.HasSuffix(piece, lineEnd) {
		r.mark = r.mark.behind(size, piece)
	} else if r.whole {
		piece = nil
		r.long = jsonl.LineCutter{}
	}
	r.size += size
	if r.long.Len() == 0 {
		return piece, err
	}
	_, _ = r.long.Write(bytes.TrimSuffix(piece, lineEnd)) // Write never fails
	line, cut := r.long.Take()
	r.cut = cut
	return line, err
}

var lineEnd = []byte("\n")

// Rest reads the rest as one line, cut if it is longer than a line may be.
func (r *Reader) Rest() ([]byte, error) {
	r.number++
	_, err := io.Copy(&r.long, r.buffered)
	line, cut := r.long.Take()
	r.cut = cut
	return line, err
}

// Each passes the lines to take while more returns true. An error of take costs
// that line; a read error costs the rest.
func (r *Reader) Each(more func() bool, take func(line []byte) error, fail func(error)) {
	for more() {
		line, err := r.Next()
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			fail(r.At(err))
			return
		}
		if fault := take(line); fault != nil {
			fail(r.At(fault))
		}
		if ended {
			return
		}
	}
}

// Size returns how many bytes of the file the lines that were read take,
// including what was cut.
func (r *Reader) Size() int64 { return r.size }

// Number returns that of the last line that was read; the first is 1.
func (r *Reader) Number() int { return r.number }

// At adds the last line that was read to an error.
func (r *Reader) At(err error) error {
	if r.cut != nil {
		err = fmt.Errorf("%w (%s)", err, r.cut)
	}
	return fmt.Errorf("%s: transcript %s: line %d: %w", r.agent, r.path, r.number, err)
}

// Close closes the transcript.
func (r *Reader) Close() { _ = r.in.Close() } // nothing was written
