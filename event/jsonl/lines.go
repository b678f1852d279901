package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// Decode reads events as JSON lines, of any length, until the end of r. Blank
// lines are skipped. The first line that is not an event, or an error of r, is
// yielded as an error that names the line, and ends the sequence. What was
// yielded before it is valid.
func Decode(r io.Reader) iter.Seq2[event.Event, error] {
	return decodeLines(r, func(line []byte) (e event.Event, err error) {
		err = json.Unmarshal(line, &e)
		return e, err
	})
}

// RecordOptions are what [DecodeRecords] accepts. The zero value takes records
// only.
type RecordOptions struct {
	// Plain accepts a line that is not a record (no object with "dir" and "line") as
	// one plain line of an agent's standard output, without a time. Default: such a
	// line is an error.
	Plain bool
}

// DecodeRecords reads native records as JSON lines, by the rules of [Decode].
func DecodeRecords(r io.Reader, opts RecordOptions) iter.Seq2[traffic.Record, error] {
	return decodeLines(r, func(line []byte) (rec traffic.Record, err error) {
		if opts.Plain && !looksLikeRecord(line) {
			return traffic.Record{Dir: event.DirOut, Line: string(line)}, nil
		}
		err = json.Unmarshal(line, &rec)
		return rec, err
	})
}

// looksLikeRecord reports whether a line has a record's field names: a record
// with a bad value is a bad record, not a line of output.
func looksLikeRecord(line []byte) bool {
	var names struct {
		Dir  *json.RawMessage `json:"dir"`
		Line *json.RawMessage `json:"line"`
		Raw  *json.RawMessage `json:"raw"`
	}
	if json.Unmarshal(line, &names) != nil {
		return false
	}
	return names.Dir != nil && (names.Line != nil || names.Raw != nil)
}

func decodeLines[T any](r io.Reader, decode func([]byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		for n, line := range numbered(r) {
			if line.err != nil {
				yield(zero, fmt.Errorf("line %d: read: %w", n, line.err))
				return
			}
			if len(bytes.TrimSpace(line.text)) == 0 {
				continue
			}
			v, err := decode(line.text)
			if err != nil {
				yield(zero, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

type line struct {
	text []byte // valid until the next line
	err  error
}

// numbered yields the lines of r, numbered from 1, without their line ends. A
// last line without a line end counts.
func numbered(r io.Reader) iter.Seq2[int, line] {
	return func(yield func(int, line) bool) {
		br := bufio.NewReaderSize(r, 64<<10)
		var buf []byte
		for n := 1; ; n++ {
			var err error
			buf, err = readLine(br, buf[:0])
			if err != nil && !errors.Is(err, io.EOF) {
				yield(n, line{err: err})
				return
			}
			if len(buf) > 0 && !yield(n, line{text: bytes.TrimSuffix(buf, []byte("\n"))}) {
				return
			}
			if err != nil {
				return
			}
		}
	}
}

func readLine(br *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		part, err := br.ReadSlice('\n')
		buf = append(buf, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return buf, err
		}
	}
}

// Encoder writes events as JSON lines, one Write for each. It is
// not safe for concurrent use.
type Encoder struct {
	w   io.Writer
	buf []byte
}

// NewEncoder makes an encoder that writes to w.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{w: w} }

// Encode writes e. An event that can't be encoded leaves w untouched.
func (enc *Encoder) Encode(e event.Event) error {
	buf, err := event.AppendEvent(enc.buf[:0], e)
	enc.buf = buf
	if err != nil {
		return err
	}
	return enc.flush()
}

// keepBuffer is the largest buffer that an encoder keeps: one 64 MiB block must
// not cost its memory for ever.
const keepBuffer = 1 << 20

func (enc *Encoder) flush() error {
	enc.buf = append(enc.buf, '\n')
	_, err := enc.w.Write(enc.buf)
	if cap(enc.buf) > keepBuffer {
		enc.buf = nil
	}
	if err != nil {
		return fmt.Errorf("event: write: %w", err)
	}
	return nil
}
