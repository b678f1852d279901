package activities

import (
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
	lines, next, err := e.Export(newHome(ctx, r.agent.sb), t, since)
	if err != nil {
		return info, false, fmt.Errorf("export %s: %w", t.Path, err)
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
	home := newHome(ctx, a.sb)
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
