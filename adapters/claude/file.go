package claude

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
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
	long   []byte
	number int
	// next is the line to be told next; it lies in the reader's own memory
	// until the line after it is read.
	next line
	time time.Time
	// seen are the lines read, by their uuid: a compaction writes the lines that
	// it keeps once more. Odd are the ids that are no UUIDs.
	seen map[[16]byte]struct{}
	odd  map[string]struct{}
}

// readAhead is enough for the longest of usual lines.
const readAhead = 1 << 16

func (f *file) open() error {
	in, err := f.source.Open()
	if err != nil {
		return fmt.Errorf("open transcript %s: %w", f.Path, err)
	}
	f.in, f.lines = in, bufio.NewReaderSize(in, readAhead)
	f.seen, f.odd = map[[16]byte]struct{}{}, map[string]struct{}{}
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

// read gives a line of any length, good until the next is read. Few lines are
// too long for the reader's own memory.
func (f *file) read() ([]byte, error) {
	raw, err := f.lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return raw, err
	}
	f.long = f.long[:0]
	if cap(f.long) > maxKept {
		f.long = nil
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		f.long = slices.Grow(append(f.long, raw...), readAhead)
		raw, err = f.lines.ReadSlice('\n')
	}
	f.long = append(f.long, raw...)
	return f.long, err
}

// maxKept bounds the memory that is kept for the next long line.
const maxKept = 1 << 20

func isBlank(raw []byte) bool {
	for _, c := range raw {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}

// repeats says whether the line has been read before.
func (f *file) repeats() bool {
	id := f.next.UUID
	if id == "" {
		return false
	}
	key, ok := compact(id)
	if !ok {
		_, before := f.odd[id]
		f.odd[id] = struct{}{}
		return before
	}
	before := len(f.seen)
	f.seen[key] = struct{}{}
	return len(f.seen) == before
}

// compact is a UUID as it is usually written, in 16 bytes.
func compact(id string) (key [16]byte, ok bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return key, false
	}
	var digits [32]byte
	n := copy(digits[:], id[:8])
	n += copy(digits[n:], id[9:13])
	n += copy(digits[n:], id[14:18])
	n += copy(digits[n:], id[19:23])
	copy(digits[n:], id[24:])
	for _, c := range digits {
		if c >= 'A' && c <= 'F' {
			return key, false // another id than the same in small letters
		}
	}
	_, err := hex.Decode(key[:], digits[:])
	return key, err == nil
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
