package lines

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/sojourn-run/sojourn/adapters"
)

// Reader reads one transcript. Not safe for concurrent use.
type Reader struct {
	agent, path string
	in          io.ReadCloser
	buffered    *bufio.Reader
	number      int
}

// Open opens a transcript of an agent.
func Open(agent string, src adapters.Source) (*Reader, error) {
	in, err := src.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: open transcript %s: %w", agent, src.Path, err)
	}
	return &Reader{agent: agent, path: src.Path, in: in, buffered: bufio.NewReaderSize(in, 1<<16)}, nil
}

// Next gives the next line. With an error, which is io.EOF at the end, the line
// is what there was of it.
func (r *Reader) Next() ([]byte, error) {
	r.number++
	return r.buffered.ReadBytes('\n')
}

// Rest reads what is left as one line.
func (r *Reader) Rest() ([]byte, error) {
	r.number++
	return io.ReadAll(r.buffered)
}

// Each hands on the lines while more says so. What take says of a line costs that
// line; what cannot be read costs the rest.
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

// Number is that of the line that was read last; the first is 1.
func (r *Reader) Number() int { return r.number }

// At names the line that was read last.
func (r *Reader) At(err error) error {
	return fmt.Errorf("%s: transcript %s: line %d: %w", r.agent, r.path, r.number, err)
}

// Close closes the transcript.
func (r *Reader) Close() { _ = r.in.Close() } // nothing was written
