package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
)

// exportedTo is how far one of an agent's databases is archived: a cursor, and the size of
// the archived lines up to it.
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
	at, failed := size, error(nil)
	next, err := e.Export(r.agent.Home(ctx), t, since, func(lines []byte) error {
		// An export only grows.
		grown := t
		grown.Kind = adapters.Append
		if info, failed = r.store.AppendTranscript(ctx, session, r.agent.Epoch, grown, at, lines); failed != nil {
			return failed
		}
		at, changed = info.Size, r.note(info) || changed
		return nil
	})
	if failed != nil {
		return info, changed, failed
	}
	if err != nil {
		return info, changed, asUnreadable(ctx, fmt.Errorf("export %s: %w", t.Path, err))
	}
	r.exported[t.ID] = exportedTo{at, next}
	return info, changed, nil
}

// cursor returns how far a database is archived: from this archiver's memory, or else from
// the archive.
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
