package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/sandbox"
)

// FileChange is a line of `sojourn-runner watch`: a file of the watched folder in
// its current state. It may be reported more than once.
type FileChange struct {
	// Path is relative to the folder, with slashes: bytes, not always UTF-8.
	Path string
	// Gone means that the file does not exist any more; the rest is empty then.
	Gone bool
	// Mode has the permission bits.
	Mode fs.FileMode
	Size int64
	// SHA256 of the content, in hex.
	SHA256 string
	// Content is the file's text; nil if it is not text, or too long.
	Content *string
}

// changeJSON is a FileChange on the wire.
type changeJSON struct {
	Path    string      `json:"path,omitempty"`
	Bytes   []byte      `json:"pathBytes,omitempty"`
	Gone    bool        `json:"gone,omitempty"`
	Mode    fs.FileMode `json:"mode,omitempty"`
	Size    int64       `json:"size,omitempty"`
	SHA256  string      `json:"sha256,omitempty"`
	Content *string     `json:"content,omitempty"`
}

// MarshalJSON keeps every byte of the path.
func (c FileChange) MarshalJSON() ([]byte, error) {
	j := changeJSON{Gone: c.Gone, Mode: c.Mode, Size: c.Size, SHA256: c.SHA256, Content: c.Content}
	if utf8.ValidString(c.Path) {
		j.Path = c.Path
	} else {
		j.Bytes = []byte(c.Path)
	}
	return json.Marshal(j)
}

// UnmarshalJSON takes what MarshalJSON returns.
func (c *FileChange) UnmarshalJSON(data []byte) error {
	var j changeJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*c = FileChange{Path: j.Path, Gone: j.Gone, Mode: j.Mode, Size: j.Size, SHA256: j.SHA256, Content: j.Content}
	if len(j.Bytes) > 0 {
		c.Path = string(j.Bytes)
	}
	return nil
}

// WatchSpec selects what [Watch] watches.
type WatchSpec struct {
	// Ignore are names of folders that are skipped, wherever they are.
	Dir string
	// Ignore are names of folders that are not looked into, wherever they are.
	Ignore []string
	// Since also reports what changed from that time on, before the watch began.
	Since time.Time
}

// Watch yields the changes of files below a folder of the sandbox, by `program
// watch`, until ctx ends. The error ends it.
func Watch(ctx context.Context, sb Execer, program string, spec WatchSpec) iter.Seq2[FileChange, error] {
	return func(yield func(FileChange, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		p, err := sb.Exec(ctx, sandbox.Command{Dir: anyDir, Argv: []string{
			program, "watch", "--dir", spec.Dir, "--ignore", strings.Join(spec.Ignore, ","), "--since", strconv.FormatInt(spec.Since.UnixNano(), 10),
		}})
		if err != nil {
			yield(FileChange{}, wrap("watch", err))
			return
		}
		stopped, err := yieldChanges(ctx, p.Stdout(), yield)
		if stopped {
			cancel()
		}
		if err = errors.Join(err, endWatch(ctx, p)); err != nil && ctx.Err() == nil {
			yield(FileChange{}, wrap("watch", err))
		}
	}
}

// yieldChanges reports whether the caller stopped.
func yieldChanges(ctx context.Context, lines io.Reader, yield func(FileChange, error) bool) (stopped bool, err error) {
	in := bufio.NewReaderSize(lines, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF || ctx.Err() != nil {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		var c FileChange
		if err := json.Unmarshal(line, &c); err != nil {
			return false, err
		}
		if !yield(c, nil) {
			return true, nil
		}
	}
}

// endWatch ends a watch by the end of its input.
func endWatch(ctx context.Context, p sandbox.Process) error {
	err := p.Stdin().Close()
	said, _ := io.ReadAll(io.LimitReader(p.Stderr(), 500)) // only for the error's text
	code, werr := p.Wait(context.WithoutCancel(ctx))
	err = errors.Join(err, werr, p.Stdout().Close(), p.Stderr().Close())
	if err == nil && code != 0 {
		err = &ExitError{Code: code, Stderr: strings.TrimSpace(strings.ToValidUTF8(string(said), "\uFFFD"))}
	}
	return err
}
