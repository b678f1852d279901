package activities

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/host"
)

// sourcesOf returns the transcripts in the agent's home as a parser takes them.
func sourcesOf(ctx context.Context, a *host.Agent) ([]adapters.Source, error) {
	files := a.Home(ctx)
	found, err := a.Adapter.Transcripts(files, a.Launch)
	if err != nil {
		return nil, err
	}
	e, exports := a.Adapter.(adapters.Exporter)
	var out []adapters.Source
	for _, t := range found {
		open := func() (io.ReadCloser, error) { return files.Open(t.Path) }
		if exports && t.Kind == adapters.Snapshot {
			lines, _, err := e.Export(files, t, nil)
			if err != nil {
				return nil, fmt.Errorf("export %s: %w", t.Path, err)
			}
			open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(lines)), nil }
		}
		out = append(out, adapters.Source{Transcript: t, Open: open})
	}
	return out, nil
}

// tailWindow is how much of the end of a transcript is searched for what the
// agent wrote last.
const tailWindow = 16 << 20

// tailsOf returns the transcripts in the agent's home without what is far before
// their ends, for a look at what was written last. Ids that count from a
// transcript's beginning are not in what a long one has.
func tailsOf(ctx context.Context, a *host.Agent) ([]adapters.Source, error) {
	all, err := sourcesOf(ctx, a)
	if err != nil {
		return nil, err
	}
	files := a.Home(ctx)
	for i, src := range all {
		if src.Kind != adapters.Append {
			continue
		}
		size, err := files.Size(src.Path)
		if err != nil {
			return nil, err
		}
		if size > tailWindow {
			all[i].Open = func() (io.ReadCloser, error) { return openTail(files, src.Path, size-tailWindow) }
		}
	}
	return all, nil
}

// openTail opens a transcript at the first line that begins behind a byte.
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
