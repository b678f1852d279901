package activities

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/host"
)

// transcripts are the files of the agent's home as a parser takes them.
type transcripts struct {
	sources []adapters.Source

	mu  sync.Mutex
	err error
}

// failed returns why a database could not be read to its end, once it was parsed.
func (t *transcripts) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// transcriptsOf finds the transcripts in the agent's home.
func transcriptsOf(ctx context.Context, a *host.Agent) (*transcripts, error) {
	files := a.Home(ctx)
	found, err := a.Adapter.Transcripts(files, a.Launch)
	if err != nil {
		return nil, err
	}
	e, exports := a.Adapter.(adapters.Exporter)
	out := &transcripts{}
	for _, t := range found {
		open := func() (io.ReadCloser, error) { return files.Open(t.Path) }
		if exports && t.Kind == adapters.Snapshot {
			open = func() (io.ReadCloser, error) { return out.openExport(e, files, t), nil }
		}
		out.sources = append(out.sources, adapters.Source{Transcript: t, Open: open})
	}
	return out, nil
}

// openExport exports a database while its lines are read.
func (t *transcripts) openExport(e adapters.Exporter, home adapters.Home, file adapters.Transcript) io.ReadCloser {
	lines, out := io.Pipe()
	go func() {
		_, err := e.Export(home, file, nil, func(piece []byte) error {
			_, err := out.Write(piece)
			return err
		})
		if err != nil && !errors.Is(err, io.ErrClosedPipe) { // a parser may stop early
			t.mu.Lock()
			t.err = errors.Join(t.err, fmt.Errorf("export %s: %w", file.Path, err))
			t.mu.Unlock()
		}
		_ = out.CloseWithError(err) // never fails
	}()
	return lines
}

// tailWindow is how many bytes at the end of a transcript are searched for what the agent
// wrote last.
const tailWindow = 16 << 20

// tailsOf returns the ends of the transcripts in the agent's home, to find what was written
// last. Ids that count from a transcript's start are not in the end of a long one.
func tailsOf(ctx context.Context, a *host.Agent) (*transcripts, error) {
	all, err := transcriptsOf(ctx, a)
	if err != nil {
		return nil, err
	}
	files := a.Home(ctx)
	for i, src := range all.sources {
		if src.Kind != adapters.Append {
			continue
		}
		size, err := files.Size(src.Path)
		if err != nil {
			return nil, err
		}
		if size > tailWindow {
			all.sources[i].Open = func() (io.ReadCloser, error) { return openTail(files, src.Path, size-tailWindow) }
		}
	}
	return all, nil
}

// openTail opens a transcript at the first line that starts after a byte.
func openTail(files host.Home, path string, after int64) (io.ReadCloser, error) {
	in, err := files.OpenAt(path, after)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(in, 1<<16)
	for {
		_, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, errors.Join(err, in.Close())
		}
		return struct {
			io.Reader
			io.Closer
		}{lines, in}, nil
	}
}
