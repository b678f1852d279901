package claude

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// file is one transcript being read.
type file struct {
	adapters.Transcript
	source adapters.Source
	// rank is its place among the sources.
	rank int
	// conversation is "" until the call that started the subagent is found.
	conversation string
	// link is what the companion file tells of the subagent.
	link link

	in     io.ReadCloser
	lines  *bufio.Reader
	long   event.LineCutter
	number int
	// cut is set for a line that is not kept in full.
	cut *event.Cut
	// next is the line to be told next; it lies in the reader's own memory
	// until the line after it is read.
	next line
	time time.Time
	// seen are the lines read last.
	seen recent
}

// readAhead is enough for the longest of usual lines.
const readAhead = 1 << 16

func (f *file) open() error {
	in, err := f.source.Open()
	if err != nil {
		return fmt.Errorf("open transcript %s: %w", f.Path, err)
	}
	f.in, f.lines = in, bufio.NewReaderSize(in, readAhead)
	return nil
}

// advance reads the next line that is new, and says whether there may be more.
// An error costs the line that it names.
func (f *file) advance() (more bool, err error) {
	for {
		raw, err := f.read()
		f.number++
		if err != nil && !errors.Is(err, io.EOF) {
			return false, f.errorAt(err)
		}
		if isBlank(raw) {
			if err != nil {
				return false, nil
			}
			continue
		}
		f.next = line{}
		if err := f.next.decode(raw); err != nil {
			if f.cut != nil {
				err = fmt.Errorf("%w (%s)", err, f.cut)
			}
			return true, f.errorAt(err)
		}
		if f.repeats() {
			continue
		}
		if !f.next.Timestamp.IsZero() {
			f.time = f.next.Timestamp
		}
		return true, nil
	}
}

// read returns a line, good until the next is read. Few lines are too long for
// the reader's own memory, and what is over the limit of a line is cut.
func (f *file) read() ([]byte, error) {
	f.cut = nil
	raw, err := f.lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return raw, err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, _ = f.long.Write(raw) // never fails
		raw, err = f.lines.ReadSlice('\n')
	}
	_, _ = f.long.Write(bytes.TrimSuffix(raw, []byte("\n"))) // never fails
	line, cut := f.long.Take()
	f.cut = cut
	return line, err
}

func isBlank(raw []byte) bool {
	for _, c := range raw {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}

// repeats reports whether the line has been read before.
func (f *file) repeats() bool {
	return f.next.UUID != "" && f.seen.again(f.next.UUID)
}

func (f *file) errorAt(err error) error {
	return fmt.Errorf("transcript %s: line %d: %w", f.Path, f.number, err)
}

// maxMeta bounds a companion file, which holds a few short fields.
const maxMeta = 1 << 20

// link is a companion file: which call started the subagent, and as what.
type link struct {
	ToolUseID   string `json:"toolUseId"`
	AgentType   string `json:"agentType"`
	Description string `json:"description"`
}

func readLink(src adapters.Source) (l link, err error) {
	in, err := src.Open()
	if err != nil {
		return l, fmt.Errorf("open %s: %w", src.Path, err)
	}
	defer in.Close()
	if err := json.NewDecoder(io.LimitReader(in, maxMeta)).Decode(&l); err != nil {
		return l, fmt.Errorf("read %s: line 1: %w", src.Path, err)
	}
	return l, nil
}
