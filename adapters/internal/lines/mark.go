package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"

	"github.com/sojourn-run/sojourn/adapters"
)

// Mark is a position behind a whole line of a transcript that only grows. The
// zero value is the beginning.
type Mark struct {
	// Offset is in bytes.
	Offset int64 `json:"offset,omitempty"`
	// Size and Sum are of the bytes before Offset: if these differ, the file is
	// another one.
	Size int    `json:"size,omitempty"`
	Sum  string `json:"sum,omitempty"`
}

// markBytes is how many bytes before a mark are compared.
const markBytes = 256

// behind returns the mark behind a line of size bytes, of which end is the last
// piece.
func (m Mark) behind(size int64, end []byte) Mark {
	end = end[max(0, len(end)-markBytes):]
	return Mark{Offset: m.Offset + size, Size: len(end), Sum: sum(end)}
}

func sum(data []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(data) // a hash never fails
	return strconv.FormatUint(h.Sum64(), 36)
}

// ErrAnother means that a transcript is not the one of the mark: it is shorter,
// or has other bytes before it.
var ErrAnother = errors.New("the transcript was written anew")

// OpenAt opens a transcript of a home behind a mark, for its whole lines only: an
// incomplete last line is not read. Errors: ErrAnother.
func OpenAt(agent string, home adapters.Home, path string, at Mark) (*Reader, error) {
	in, err := home.OpenAt(path, at.Offset-int64(at.Size))
	if err != nil {
		return nil, fmt.Errorf("%s: open transcript %s: %w", agent, path, err)
	}
	before := make([]byte, at.Size)
	n, err := io.ReadFull(in, before)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err == nil && n > 0 && sum(before) != at.Sum:
		err = ErrAnother
	case err == nil:
		return &Reader{
			agent: agent, path: path, in: in, buffered: bufio.NewReaderSize(in, 1<<16), mark: at, whole: true,
		}, nil
	}
	return nil, errors.Join(fmt.Errorf("%s: read transcript %s: %w", agent, path, err), in.Close())
}

// Mark returns the position behind the last whole line that was read.
func (r *Reader) Mark() Mark { return r.mark }

// Followed passes on the complete lines, without the empty ones. Each is valid
// until the next.
func (r *Reader) Followed(take func(line []byte)) error {
	for {
		line, err := r.Shared()
		if len(bytes.TrimSpace(line)) > 0 {
			take(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return r.At(err)
		}
	}
}
