package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
)

// file is one transcript being read.
type file struct {
	adapters.Transcript
	source adapters.Source
	// rank is its index among the sources.
	rank int
	// conversation is "" until the call that started the subagent is found.
	conversation string
	// link is the companion file's data about the subagent.
	link link

	in *lines.Reader
	// next is the line to be translated next; it is in the reader's own memory
	// until the line after it is read.
	next line
	time time.Time
	// seen are the lines read last.
	seen recent
}

func (f *file) open() (err error) {
	f.in, err = lines.Open(Name, f.source)
	return err
}

// advance reads the next line that is new, and reports whether there may be more.
// An error costs the line that it names.
func (f *file) advance() (more bool, err error) {
	for {
		raw, err := f.in.Shared()
		if err != nil && !errors.Is(err, io.EOF) {
			return false, f.in.At(err)
		}
		if isBlank(raw) {
			if err != nil {
				return false, nil
			}
			continue
		}
		f.next = line{}
		if err := f.next.decode(raw); err != nil {
			return true, f.in.At(err)
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

// maxMeta bounds a companion file, which has a few short fields.
const maxMeta = 1 << 20

// link is a companion file's content: which call started the subagent, and its
// type.
type link struct {
	ToolUseID   string `json:"toolUseId"`
	AgentType   string `json:"agentType"`
	Description string `json:"description"`
}

func readLink(src adapters.Source) (l link, err error) {
	in, err := src.Open()
	if err != nil {
		return l, fmt.Errorf("claude: open %s: %w", src.Path, err)
	}
	defer in.Close()
	if err := json.NewDecoder(io.LimitReader(in, maxMeta)).Decode(&l); err != nil {
		return l, fmt.Errorf("claude: read %s: line 1: %w", src.Path, err)
	}
	return l, nil
}
