package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// ClosedSession is an entry of the list of closed sessions.
type ClosedSession struct {
	ListData
	ClosedAt time.Time `json:"closedAt"`
	// Damage is what can't be read of the session's objects, "" for none. Of ListData
	// only ID is set then.
	Damage string `json:"damage,omitempty"`
}

// MarkClosed adds a session to the list of closed ones, with the given time (to
// the millisecond). Marking it again moves it. Errors: [ErrFenced].
func (a *Archive) MarkClosed(ctx context.Context, session string, epoch uint64, at time.Time) error {
	at = at.UTC().Truncate(time.Millisecond)
	head, err := a.moveMarker(ctx, session, epoch, at)
	if err == nil {
		err = a.put(ctx, a.closedKey()+markerName(at, session), nil)
	}
	if err == nil {
		err = a.removeMarkers(ctx, session, head.WasClosed)
	}
	if err != nil {
		return fmt.Errorf("archive: mark session %s closed: %w", session, err)
	}
	return nil
}

// MarkOpen removes a reopened session from the list of closed ones; for one that
// isn't in it nothing happens. Errors: [ErrFenced].
func (a *Archive) MarkOpen(ctx context.Context, session string, epoch uint64) error {
	head, err := a.moveMarker(ctx, session, epoch, time.Time{})
	if err == nil {
		err = a.removeMarkers(ctx, session, head.WasClosed)
	}
	if err != nil {
		return fmt.Errorf("archive: mark session %s open: %w", session, err)
	}
	return nil
}

// moveMarker writes into the head which marker is valid, before the markers
// themselves change: one that a dying writer leaves is not listed. The marker
// before it is removed afterwards; the next move makes sure of that before the
// head forgets its time.
func (a *Archive) moveMarker(ctx context.Context, session string, epoch uint64, at time.Time) (sessionHead, error) {
	return a.changeHead(ctx, session, func(h *sessionHead, _ bool) error {
		if err := h.admit(epoch); err != nil || h.Closed.Equal(at) {
			return err
		}
		was := h.WasClosed
		h.Closed, h.WasClosed = at, h.Closed
		return a.removeMarkers(ctx, session, was)
	})
}

// removeMarkers removes the markers of the given times; a zero time is none.
func (a *Archive) removeMarkers(ctx context.Context, session string, times ...time.Time) error {
	var keys []string
	for _, at := range times {
		if !at.IsZero() {
			keys = append(keys, a.closedKey()+markerName(at, session))
		}
	}
	return a.remove(ctx, keys...)
}

// maxPage is the largest page of a list.
const maxPage = 1000

// ListClosed returns closed sessions, the newest first: at most limit (default
// 50, at most 1 000) after the page token ("" for the first page), and the next
// page's token, "" at the end. A page may be shorter than limit. A session whose
// objects are damaged is listed with its Damage. Sessions that are closed or
// reopened between pages don't shift them.
func (a *Archive) ListClosed(ctx context.Context, limit int, token string) (page []ClosedSession, next string, err error) {
	if limit <= 0 {
		limit = 50
	}
	names, next, err := a.markers(ctx, min(limit, maxPage), token)
	if err != nil {
		return nil, "", fmt.Errorf("archive: list closed sessions: %w", err)
	}
	entries := make([]*ClosedSession, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, name := range names {
		group.Go(func() (err error) {
			at, id, _ := parseMarker(name) // markers has checked it
			entries[i], err = a.closedEntry(ctx, id, at)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, "", fmt.Errorf("archive: list closed sessions: %w", err)
	}
	for _, e := range entries {
		if e != nil {
			page = append(page, *e)
		}
	}
	return page, next, nil
}

// closedEntry reads the session of a marker; nil for a marker that is no longer
// valid. Damage concerns this session alone, so it is part of its entry.
func (a *Archive) closedEntry(ctx context.Context, session string, at time.Time) (*ClosedSession, error) {
	head, err := load[sessionHead](ctx, a, a.headKey(session))
	if err == nil && !head.value.Closed.Equal(at) {
		return nil, nil
	}
	var s stored[record]
	if err == nil {
		s, err = load[record](ctx, a, a.recordKey(session))
	}
	if id := s.value.ID; err == nil && s.tag != "" && id != session {
		err = fmt.Errorf("%s: %w: it names session %q", a.recordKey(session), ErrCorrupt, id)
	}
	switch {
	case errors.Is(err, ErrCorrupt):
		return &ClosedSession{ListData: ListData{ID: session}, ClosedAt: at, Damage: err.Error()}, nil
	case err != nil || s.tag == "":
		return nil, err
	}
	return &ClosedSession{ListData: s.value.ListData, ClosedAt: at}, nil
}

// markers returns the next names; a token is the name before them.
func (a *Archive) markers(ctx context.Context, limit int, token string) (names []string, next string, err error) {
	if token != "" {
		if _, _, err := parseMarker(token); err != nil {
			return nil, "", fmt.Errorf("%w page token %q", ErrInvalid, token)
		}
	}
	for name, err := range a.list(ctx, a.closedKey(), token, false) {
		if err != nil {
			return nil, "", err
		}
		if _, _, err := parseMarker(name); err != nil {
			continue // foreign
		}
		if len(names) == limit {
			return names, names[limit-1], nil
		}
		names = append(names, name)
	}
	return names, "", nil
}
