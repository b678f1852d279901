package activities

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
)

// exported is how far an agent's databases are archived, by transcript. It
// lives as long as the connection to the agent; whoever has none reads it from
// the archive.
type exported struct {
	mu sync.Mutex
	at map[string]exportedTo
}

// exportedTo is a cursor, and the size of the archived lines that it is behind.
type exportedTo struct {
	size   int64
	cursor json.RawMessage
}

func (e *exported) get(id string) exportedTo {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at[id]
}

func (e *exported) set(id string, to exportedTo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		e.at = map[string]exportedTo{}
	}
	e.at[id] = to
}

// export archives what has changed in a database.
func (r *archiver) export(ctx context.Context, session string, e adapters.Exporter, t adapters.Transcript) (info archive.TranscriptInfo, changed bool, err error) {
	size := r.known[t.ID].Size
	since, err := r.cursor(ctx, session, e, t.ID, size)
	if err != nil {
		return info, false, err
	}
	lines, next, err := e.Export(r.agent.home(ctx), t, since)
	if err != nil {
		return info, false, asUnreadable(ctx, fmt.Errorf("export %s: %w", t.Path, err))
	}
	if len(lines) == 0 {
		r.agent.exported.set(t.ID, exportedTo{size, next})
		return info, false, nil
	}
	// What was exported only grows.
	t.Kind = adapters.Append
	if info, err = r.store.AppendTranscript(ctx, session, r.agent.epoch, t, size, lines); err != nil {
		return info, false, err
	}
	r.agent.exported.set(t.ID, exportedTo{info.Size, next})
	return info, r.note(info), nil
}

// cursor is how far the archive has a database.
func (r *archiver) cursor(ctx context.Context, session string, e adapters.Exporter, id string, size int64) (json.RawMessage, error) {
	if size == 0 {
		return nil, nil
	}
	if known := r.agent.exported.get(id); known.size == size {
		return known.cursor, nil
	}
	lines, err := r.store.ReadTranscript(ctx, session, id)
	if err != nil {
		return nil, err
	}
	cursor, err := e.Cursor(lines)
	return cursor, errors.Join(err, lines.Close())
}

// sources are the transcripts in the agent's home as a parser takes them.
func (a *agent) sources(ctx context.Context) ([]adapters.Source, error) {
	home := a.home(ctx)
	found, err := a.adapter.Transcripts(home, a.launch)
	if err != nil {
		return nil, err
	}
	e, exports := a.adapter.(adapters.Exporter)
	var out []adapters.Source
	for _, t := range found {
		open := func() (io.ReadCloser, error) { return home.Open(t.Path) }
		if exports && t.Kind == adapters.Snapshot {
			lines, _, err := e.Export(home, t, nil)
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

// tails are the transcripts in the agent's home without what is far before
// their ends, for a look at what was written last. Ids that count from a
// transcript's beginning are not in what a long one has.
func (a *agent) tails(ctx context.Context) ([]adapters.Source, error) {
	all, err := a.sources(ctx)
	if err != nil {
		return nil, err
	}
	home := a.home(ctx)
	for i, src := range all {
		if src.Kind != adapters.Append {
			continue
		}
		size, err := home.size(src.Path)
		if err != nil {
			return nil, err
		}
		if size > tailWindow {
			all[i].Open = func() (io.ReadCloser, error) { return openTail(home, src.Path, size-tailWindow) }
		}
	}
	return all, nil
}

// openTail opens a transcript at the first line that begins behind a byte.
func openTail(home home, path string, after int64) (io.ReadCloser, error) {
	in, err := home.OpenAt(path, after)
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
