package adapters

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// SizedHome is a home of whose files the sizes are known.
type SizedHome interface {
	Home
	// Size returns the size of a file in bytes; 0 if there is none.
	Size(path string) (int64, error)
}

// TornSuffix is the end of the name of a file that has a torn line, beside its transcript.
const TornSuffix = ".torn"

// WholeLines returns what must be written to the home of an exited process, in order, so that
// each of its transcripts that only grow ends with a whole line. Usually nothing.
//
// A program that is killed while it writes leaves the pages that were written, so its last
// line may be cut anywhere. The next process would write directly behind that: its first
// line could not be read either, and would be archived so. A torn line, which the archive
// does not have, is moved to a file of its own.
func WholeLines(home SizedHome, found []Transcript) (files []Repair, err error) {
	for _, t := range found {
		if t.Kind != Append {
			continue
		}
		size, err := home.Size(t.Path)
		if err != nil {
			return nil, fmt.Errorf("size of transcript %s: %w", t.Path, err)
		}
		whole, err := wholeLines(home, t.Path, size)
		if err != nil {
			return nil, fmt.Errorf("read the end of transcript %s: %w", t.Path, err)
		}
		if whole < size {
			files = append(files, Repair{Path: t.Path + TornSuffix, From: t.Path, Begin: whole, End: size}, Repair{Path: t.Path, From: t.Path, End: whole})
		}
	}
	return files, nil
}

// wholeLines returns where the last line of a file that has its end ends, searched from the
// file's end. A file that can't be read so far is left as it is.
func wholeLines(home Home, path string, size int64) (int64, error) {
	block := make([]byte, 1<<16)
	for end := size; end > 0; {
		begin := max(0, end-int64(len(block)))
		part := block[:end-begin]
		in, err := home.OpenAt(path, begin)
		if err != nil {
			return 0, err
		}
		_, err = io.ReadFull(in, part)
		err = errors.Join(err, in.Close())
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(part, '\n'); at >= 0 {
			return begin + int64(at) + 1, nil
		}
		end = begin
	}
	return 0, nil
}
