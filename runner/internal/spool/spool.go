// Package spool keeps an agent's native traffic on disk: JSON lines of
// traffic.Record, appended to segment files that are named by the offset of
// their first byte. An offset is a byte position in the whole spool; records
// begin at offset 0 and behind each line end.
//
// Each record carries a checksum, which readers of records check. A missing
// segment or part of one is a [Gap]: it is reported at its position, and the
// records behind it can be read.
//
// Writing is not followed by fsync: the spool outlives processes, not a power
// loss. Records keep text: a byte that is not UTF-8 becomes U+FFFD.
package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

const suffix = ".jsonl"

// Spool is one spool open for appending. All methods may be called
// concurrently; only one process may hold a folder open.
type Spool struct {
	dir     string
	segSize int64

	mu      sync.Mutex
	starts  []int64 // of the segments, ascending; the last is the open one
	ends    []int64 // where the bytes of each end; not kept for the last
	file    *os.File
	end     int64
	buf     []byte
	changed chan struct{} // made by a waiter, closed by the next change
	sealed  bool
}

// Open opens or makes the spool in dir. An incomplete last record is moved to a
// file named torn-OFFSET. A spool that ends before from has lost its end: new
// records are appended at from.
func Open(dir string, segmentBytes, from int64) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s, err := scan(dir)
	if err != nil {
		return nil, err
	}
	s.segSize = segmentBytes
	if len(s.starts) == 0 {
		s.starts, s.ends = []int64{0}, []int64{0}
	}
	if err := s.openLast(); err != nil {
		return nil, err
	}
	if s.end < from {
		if err := s.begin(from); err != nil {
			s.file.Close()
			return nil, err
		}
	}
	return s, nil
}

// Load opens the spool in dir for reading, without a supervisor. An incomplete
// last record is left out.
func Load(dir string) (*Spool, error) {
	s, err := scan(dir)
	if err != nil {
		return nil, err
	}
	s.sealed = true
	if len(s.starts) == 0 {
		return s, nil
	}
	last := s.starts[len(s.starts)-1]
	f, err := os.Open(s.path(last))
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	defer f.Close()
	whole, err := wholeLines(f)
	s.end = last + whole
	return s, err
}

func scan(dir string) (*Spool, error) {
	s := &Spool{dir: dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		start, err := strconv.ParseInt(name, 10, 64)
		if !ok || err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
		if n := len(s.ends); n > 0 {
			s.ends[n-1] = min(s.ends[n-1], start)
		}
		s.starts, s.ends = append(s.starts, start), append(s.ends, start+info.Size())
	}
	return s, nil
}

func (s *Spool) path(start int64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%020d%s", start, suffix))
}

func (s *Spool) openLast() error {
	start := s.starts[len(s.starts)-1]
	f, err := os.OpenFile(s.path(start), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	whole, err := wholeLines(f)
	if err == nil {
		err = s.setAside(f, start, whole)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("spool: %w", err)
	}
	s.file, s.end = f, start+whole
	return nil
}

// wholeLines returns the length of the file up to its last line end.
func wholeLines(f *os.File) (int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	block := make([]byte, 64<<10)
	for size > 0 {
		from := max(0, size-int64(len(block)))
		n, err := f.ReadAt(block[:size-from], from)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if i := bytes.LastIndexByte(block[:n], '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		size = from
	}
	return 0, nil
}

// setAside moves what follows the last whole line to a separate file.
func (s *Spool) setAside(f *os.File, start, whole int64) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == whole {
		return err
	}
	torn, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("torn-%d", start+whole)))
	if err != nil {
		return err
	}
	defer torn.Close()
	if _, err := io.Copy(torn, io.NewSectionReader(f, whole, size-whole)); err != nil {
		return err
	}
	return f.Truncate(whole)
}

// Append writes the records, in order and together, and returns the offsets
// of the first and after the last. On an error nothing was appended.
func (s *Spool) Append(records ...traffic.Record) (at, next int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return s.end, s.end, fmt.Errorf("spool: append: %w", os.ErrClosed)
	}
	s.encode(records)
	if err := s.rotate(); err != nil {
		return s.end, s.end, err
	}
	at = s.end
	local := at - s.starts[len(s.starts)-1]
	if _, err := s.file.WriteAt(s.buf, local); err != nil {
		// Half a record must not precede the next append.
		_ = s.file.Truncate(local)
		return at, at, fmt.Errorf("spool: append: %w", err)
	}
	s.end += int64(len(s.buf))
	s.release()
	s.notify()
	return at, s.end, nil
}

func (s *Spool) encode(records []traffic.Record) {
	s.buf = s.buf[:0]
	for _, r := range records {
		s.buf = append(wire.AppendSummed(s.buf, r), '\n')
	}
}

// release frees a huge line's memory.
func (s *Spool) release() {
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
}

// rotate starts a new segment once the open one is full.
func (s *Spool) rotate() error {
	if s.end-s.starts[len(s.starts)-1] < s.segSize {
		return nil
	}
	return s.begin(s.end)
}

// begin starts a new segment.
func (s *Spool) begin(start int64) error {
	f, err := os.OpenFile(s.path(start), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("spool: new segment: %w", err)
	}
	s.file.Close()
	s.file = f
	s.ends = append(s.ends[:len(s.starts)-1], s.end, start)
	s.starts, s.end = append(s.starts, start), start
	return nil
}

func (s *Spool) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Bounds returns the offsets of the first record and after the last.
func (s *Spool) Bounds() (first, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.starts) > 0 {
		first = s.starts[0]
	}
	return first, s.end
}

// Changed returns the end, whether the spool is sealed, and a channel that is
// closed when either changes.
func (s *Spool) Changed() (end int64, sealed bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.end, s.sealed, s.changed
}

// Seal marks the spool as complete; readers then reach its end.
func (s *Spool) Seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
	s.notify()
}

// Close seals the spool and closes its file.
func (s *Spool) Close() error {
	s.Seal()
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// Trim deletes the segments that are wholly before an offset; the open one is
// kept. The offset may be any up to the end.
func (s *Spool) Trim(before int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before > s.end {
		return fmt.Errorf("spool: trim before %d, end is %d: %w", before, s.end, runner.ErrOffset)
	}
	for len(s.starts) > 1 && s.starts[1] <= before {
		if err := os.Remove(s.path(s.starts[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("spool: trim: %w", err)
		}
		s.starts = s.starts[1:]
		s.ends = s.ends[min(1, len(s.ends)):]
	}
	return nil
}

// segment returns the segment with the byte at pos; the last one also covers its
// own end. Its bytes reach to end, and the next segment begins at next.
func (s *Spool) segment(pos int64) (start, end, next int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pos > s.end || pos < 0 {
		return 0, 0, 0, fmt.Errorf("spool: offset %d, end is %d: %w", pos, s.end, runner.ErrOffset)
	}
	if len(s.starts) == 0 {
		return 0, 0, 0, nil
	}
	if pos < s.starts[0] {
		return 0, 0, 0, fmt.Errorf("spool: offset %d, first is %d: %w", pos, s.starts[0], runner.ErrTrimmed)
	}
	i, found := slices.BinarySearch(s.starts, pos)
	if !found {
		i--
	}
	if i+1 < len(s.starts) {
		return s.starts[i], s.ends[i], s.starts[i+1], nil
	}
	return s.starts[i], s.end, s.end, nil
}
