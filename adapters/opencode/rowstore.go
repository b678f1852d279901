package opencode

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// rowStore keeps rows on disk while a snapshot is read: parts may be larger than
// memory. Its zero value is empty. Its file has no name.
type rowStore struct {
	file *os.File
	out  *bufio.Writer
	size int64
}

// place is the position of a row.
type place struct {
	at     int64
	length int
}

func (s *rowStore) put(row []byte) (place, error) {
	if err := s.open(); err != nil {
		return place{}, fmt.Errorf("keep a row on disk: %w", err)
	}
	p := place{s.size, len(row)}
	n, err := s.out.Write(row)
	s.size += int64(n)
	if err != nil {
		return place{}, fmt.Errorf("keep a row on disk: %w", err)
	}
	return p, nil
}

func (s *rowStore) open() error {
	if s.file != nil {
		return nil
	}
	f, err := os.CreateTemp("", "sojourn-opencode-")
	if err != nil {
		return err
	}
	s.file, s.out = f, bufio.NewWriterSize(f, 1<<16)
	return os.Remove(f.Name())
}

// get decodes a row.
func (s *rowStore) get(p place, into any) error {
	err := s.out.Flush()
	if err == nil {
		err = json.NewDecoder(io.NewSectionReader(s.file, p.at, int64(p.length))).Decode(into)
	}
	if err != nil {
		return fmt.Errorf("read a row that was kept on disk: %w", err)
	}
	return nil
}

func (s *rowStore) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
