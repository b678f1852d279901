package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/host"
)

// appendNew archives the whole lines that a transcript has after what is archived, a chunk
// at a time. Each chunk is noted, so that the next sync continues one that was cut off.
// Only whole lines are archived: a kill may tear a line that is being written, and what is
// archived can't be undone.
func (r *archiver) appendNew(ctx context.Context, session string, t adapters.Transcript) (info archive.TranscriptInfo, changed bool, err error) {
	home := r.agent.Home(ctx)
	size, err := home.Size(t.Path)
	if err == nil && size > host.MaxFile {
		err = fmt.Errorf("%s: %w: %d bytes, over %d", t.Path, host.ErrTooLarge, size, host.MaxFile)
	}
	if err != nil {
		return info, false, asUnreadable(ctx, err)
	}
	c := chunker{home: home, path: t.Path, at: r.known[t.ID].Size, limit: r.memory.chunk()}
	if err := c.open(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return info, false, asUnreadable(ctx, err)
	}
	defer c.close()
	for {
		at, data, err := c.next()
		if err != nil || len(data) == 0 {
			return info, changed, asUnreadable(ctx, err)
		}
		if info, err = r.store.AppendTranscript(ctx, session, r.agent.Epoch, t, at, data); err != nil {
			return info, changed, err
		}
		changed = r.note(info) || changed
	}
}

// chunker reads whole lines of a file in pieces of at most limit bytes. Only a line that is
// longer is split, once its end is written.
type chunker struct {
	home  host.Home
	path  string
	limit int

	in io.ReadCloser
	// at is the offset of buf in the file.
	at   int64
	buf  []byte
	used int
	// ended is set when in has no more.
	ended bool
	// lineEnd is the offset after a long line, once its end was found.
	lineEnd int64
}

func (c *chunker) open() (err error) {
	c.in, err = c.home.OpenAt(c.path, c.at)
	return err
}

func (c *chunker) close() { _ = c.in.Close() } // nothing was written

// next returns the next piece and its offset; none after the last whole line. It is valid
// until the next call.
func (c *chunker) next() (at int64, data []byte, err error) {
	c.at += int64(c.used)
	c.buf, c.used = append(c.buf[:0], c.buf[c.used:]...), 0
	if err := c.fill(); err != nil {
		return 0, nil, fmt.Errorf("read %s: %w", c.path, err)
	}
	c.used = bytes.LastIndexByte(c.buf, '\n') + 1
	if c.used > 0 || len(c.buf) < c.limit {
		return c.at, c.buf[:c.used], nil
	}
	if end := c.at + int64(len(c.buf)); c.lineEnd < end {
		if c.lineEnd, err = c.findLineEnd(end); err != nil || c.lineEnd == 0 {
			return c.at, nil, err
		}
	}
	c.used = len(c.buf)
	return c.at, c.buf, nil
}

// fill reads until the buffer is full or the file ends.
func (c *chunker) fill() error {
	for !c.ended && len(c.buf) < c.limit {
		if len(c.buf) == cap(c.buf) {
			larger := make([]byte, len(c.buf), min(max(1<<16, 2*cap(c.buf)), c.limit))
			copy(larger, c.buf)
			c.buf = larger
		}
		n, err := c.in.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if c.ended = errors.Is(err, io.EOF); err != nil && !c.ended {
			return err
		}
	}
	return nil
}

// findLineEnd returns the offset after the next line end at or after from; 0 if there is
// none yet.
func (c *chunker) findLineEnd(from int64) (int64, error) {
	in, err := c.home.OpenAt(c.path, from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }() // nothing was written
	block := make([]byte, 1<<16)
	for {
		n, err := in.Read(block)
		if i := bytes.IndexByte(block[:n], '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		from += int64(n)
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", c.path, err)
		}
	}
}
