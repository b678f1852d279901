package activities

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/sandbox"
)

// memory is a sandbox whose home is a map. It implements only what a home needs.
type memory struct {
	sandbox.Sandbox
	mu    sync.Mutex
	files map[string]string
	fail  error
	// read counts the bytes that were read.
	read atomic.Int64
}

// counted is a file that counts the bytes read of it.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (m *memory) put(name, content string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = content
}

func (m *memory) CopyOut(_ context.Context, sel sandbox.Selection) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		m.mu.Lock()
		files, fail := maps.Clone(m.files), m.fail
		m.mu.Unlock()
		if fail != nil {
			yield(sandbox.File{}, fail)
			return
		}
		var names []string
		for name := range files {
			if slices.ContainsFunc(sel.Paths, func(p string) bool { return p == "." || p == name || strings.HasPrefix(name, p+"/") }) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			body := files[name][min(int(sel.From[name]), len(files[name])):]
			if !yield(sandbox.File{Path: name, Mode: 0o644, Size: int64(len(files[name])), Body: &counted{strings.NewReader(body), &m.read}}, nil) {
				return
			}
		}
	}
}

func TestHomeErrors(t *testing.T) {
	t.Parallel()
	h := host.NewHome(t.Context(), &memory{fail: errors.New("gone")})
	_, err := h.Glob("a/*")
	require.ErrorContains(t, err, `glob "a/*": gone`)
	_, err = h.Open("a")
	require.ErrorContains(t, err, "read a: gone")
	_, err = h.Glob("[")
	require.ErrorIs(t, err, path.ErrBadPattern)
}

// A home in a real sandbox reads like a folder.
func TestHomeOfASandbox(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	sb, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.NoError(t, err)
	files := map[string]string{"p/a/1.jsonl": "one\ntwo\n", "p/b/1.jsonl": "", "p/b/2.jsonl": "x", "top": "t", "p/[x]": "odd"}
	var in []sandbox.File
	for name, content := range files {
		in = append(in, sandbox.Text(name, content))
	}
	require.NoError(t, sb.CopyIn(t.Context(), sandbox.AreaHome, sandbox.Files(in...)))
	h := host.NewHome(t.Context(), sb)
	dir, err := adapters.OpenHome(b.file())
	require.NoError(t, err)
	for _, pattern := range []string{"p/*/1.jsonl", "p/*/*", "*", "p/a/1.jsonl", "none/*", "none", "p/b/?.jsonl", `p/\[x\]`, "p/[ab]/1*"} {
		want, err := dir.Glob(pattern)
		require.NoError(t, err)
		got, err := h.Glob(pattern)
		require.NoError(t, err, pattern)
		require.Equal(t, len(want), len(got), "%s: %q %q", pattern, want, got)
		if len(want) > 0 {
			require.Equal(t, want, got, pattern)
		}
	}
	for name, content := range files {
		r, err := h.Open(name)
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
		require.NoError(t, r.Close())
	}
	for from, want := range map[int64]string{4: "two\n", 400: ""} {
		r, err := h.OpenAt("p/a/1.jsonl", from)
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.NoError(t, r.Close())
	}
	data, err := h.ReadFile("p/a/1.jsonl", 8)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(data))
	_, err = h.ReadFile("p/a/1.jsonl", 7)
	require.ErrorIs(t, err, host.ErrTooLarge)
	_, err = h.Open("p/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
