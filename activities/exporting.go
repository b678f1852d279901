package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
)

// exportedTo is how far one of an agent's databases is archived: a cursor, and the size
// of the archived lines that it is behind.
type exportedTo struct {
	size   int64
	cursor json.RawMessage
}

// export archives what has changed in a database.
func (r *archiver) export(ctx context.Context, session string, e adapters.Exporter, t adapters.Transcript) (info archive.TranscriptInfo, changed bool, err error) {
	size := r.known[t.ID].Size
	since, err := r.cursor(ctx, session, e, t.ID, size)
	if err != nil {
		return info, false, err
	}
	lines, next, err := e.Export(r.agent.Home(ctx), t, since)
	if err != nil {
		return info, false, asUnreadable(ctx, fmt.Errorf("export %s: %w", t.Path, err))
	}
	if len(lines) == 0 {
		r.exported[t.ID] = exportedTo{size, next}
		return info, false, nil
	}
	// What was exported only grows.
	t.Kind = adapters.Append
	if info, err = r.store.AppendTranscript(ctx, session, r.agent.Epoch, t, size, lines); err != nil {
		return info, false, err
	}
	r.exported[t.ID] = exportedTo{info.Size, next}
	return info, r.note(info), nil
}

// cursor returns how far the archive has a database: as this archiver knows it, or else
// read from the archive.
func (r *archiver) cursor(ctx context.Context, session string, e adapters.Exporter, id string, size int64) (json.RawMessage, error) {
	if size == 0 {
		return nil, nil
	}
	if known := r.exported[id]; known.size == size {
		return known.cursor, nil
	}
	lines, err := r.store.ReadTranscript(ctx, session, id)
	if err != nil {
		return nil, err
	}
	cursor, err := e.Cursor(lines)
	return cursor, errors.Join(err, lines.Close())
}
