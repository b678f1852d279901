package activities

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
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

// Open reads a file whole.
func (h home) Open(name string) (io.ReadCloser, error) {
	data, err := h.from(name, 0)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(data)), nil
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
