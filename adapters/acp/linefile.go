package acp

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"
)

// linesAtOnce is about how many bytes of an export are in memory at once.
const linesAtOnce = 1 << 20

// lineFile stores lines outside memory until they are read.
type lineFile struct {
	file *os.File
	size int64
}

func newLineFile() (*lineFile, error) {
	f, err := os.CreateTemp("", "sojourn-acp-")
	if err != nil {
		return nil, err
	}
	return &lineFile{file: f}, nil
}

func (l *lineFile) Write(line []byte) (int, error) {
	n, err := l.file.Write(line)
	l.size += int64(n)
	return n, err
}

func (l *lineFile) empty() error {
	l.size = 0
	_, err := l.file.Seek(0, io.SeekStart)
	return errors.Join(err, l.file.Truncate(0))
}

// each passes on the lines, between first and last, about linesAtOnce bytes at a
// time.
func (l *lineFile) each(first, last string, take func(lines []byte) error) error {
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(io.MultiReader(strings.NewReader(first), l.file, strings.NewReader(last)), 1<<16)
	var piece []byte
	for {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		piece = append(piece, line...)
		if len(piece) > 0 && (err != nil || len(piece) >= linesAtOnce) {
			if err := take(piece); err != nil {
				return err
			}
			piece = piece[:0]
		}
		if err != nil {
			return nil
		}
	}
}

func (l *lineFile) close() error {
	return errors.Join(l.file.Close(), os.Remove(l.file.Name()))
}
