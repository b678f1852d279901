package activities

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/sojourn-run/sojourn/sandbox"
)

// home shows a sandbox's home to an adapter.
type home struct {
	ctx context.Context
	sb  sandbox.Sandbox
}

func newHome(ctx context.Context, sb sandbox.Sandbox) home { return home{ctx, sb} }

// Glob lists the folder before the pattern's first wildcard and matches.
func (h home) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("glob %q: %w", pattern, err)
	}
	fixed := pattern
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		fixed = path.Dir(pattern[:i] + "x")
	}
	var found []string
	sel := sandbox.Selection{Area: sandbox.AreaHome, Paths: []string{fixed}}
	for f, err := range h.sb.CopyOut(h.ctx, sel) {
		if err != nil {
			return nil, fmt.Errorf("glob %q: %w", pattern, err)
		}
		if ok, err := path.Match(pattern, f.Path); err == nil && ok {
			found = append(found, f.Path)
		}
	}
	return found, nil
}

// Open opens a file; what is not read of it costs nothing.
func (h home) Open(name string) (io.ReadCloser, error) {
	next, stop := iter.Pull2(h.sb.CopyOut(h.ctx, sandbox.Selection{Area: sandbox.AreaHome, Paths: []string{name}}))
	for {
		f, err, more := next()
		switch {
		case !more:
			err = fs.ErrNotExist
		case err == nil && f.Path != name:
			continue
		case err == nil && f.Body == nil:
			stop()
			return io.NopCloser(strings.NewReader("")), nil
		case err == nil:
			return &opened{f.Body, stop}, nil
		}
		stop()
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
}

// opened is a file in the middle of a copy that nobody goes on with.
type opened struct {
	io.Reader
	stop func()
}

func (o *opened) Close() error {
	o.stop()
	return nil
}

// from reads a file from a byte on.
func (h home) from(name string, start int64) ([]byte, error) {
	sel := sandbox.Selection{Area: sandbox.AreaHome, Paths: []string{name}, From: map[string]int64{name: start}}
	for f, err := range h.sb.CopyOut(h.ctx, sel) {
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if f.Path != name {
			continue
		}
		if f.Body == nil {
			return nil, nil
		}
		data, err := io.ReadAll(f.Body)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		return data, nil
	}
	return nil, fmt.Errorf("read %s: %w", name, fs.ErrNotExist)
}
