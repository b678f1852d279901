package starter

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// lines is a reader that returns at most one line per Read: its caller has read
// the current line and nothing behind it, so that number is the line of the
// latest result. A line that is not UTF-8 is never returned: decoders would
// replace its characters.
type lines struct {
	in *bufio.Reader
	// garbled is called for a line that is not UTF-8; after nil, reading continues.
	garbled func(number int) error
	// number is that of the last returned line, from 1.
	number int
	// empty: every line so far was empty.
	empty bool

	rest []byte // of the line, not yet returned
	long []byte // holds a line that is longer than the buffer
	err  error  // behind the rest
}

var errGarbled = errors.New("not UTF-8")

func newLines(r io.Reader, garbled func(number int) error) *lines {
	return &lines{in: bufio.NewReaderSize(r, 64<<10), garbled: garbled, empty: true}
}

// Read returns the rest of a line, or the beginning of the next one.
func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.err == nil {
			l.err = l.next()
		}
		if len(l.rest) == 0 {
			return 0, l.err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next reads a line. An error is returned after what was read before it.
func (l *lines) next() error {
	line, err := l.whole()
	if len(line) == 0 {
		return err
	}
	l.number++
	l.empty = l.empty && len(bytes.TrimSpace(line)) == 0
	if !utf8.Valid(line) {
		line = []byte{'\n'}
		if err := l.garbled(l.number); err != nil {
			return err
		}
	}
	l.rest = line
	return err
}

// whole returns a line that is valid until the next call.
func (l *lines) whole() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	l.long = l.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long, line...)
		line, err = l.in.ReadSlice('\n')
	}
	l.long = append(l.long, line...)
	return l.long, err
}
