package archive

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// DeleteSession deletes everything of a session and verifies that nothing is
// left. An unknown id is not an error. A writer that still holds an epoch is
// refused from the first step on.
func (a *Archive) DeleteSession(ctx context.Context, session string) error {
	if err := a.deleteSession(ctx, session); err != nil {
		return fmt.Errorf("archive: delete session %s: %w", session, err)
	}
	return nil
}

func (a *Archive) deleteSession(ctx context.Context, session string) error {
	if err := checkSession(session); err != nil {
		return err
	}
	// The head after its markers: it names them, if this is interrupted.
	if err := a.removeAllMarkers(ctx, session); err != nil {
		return err
	}
	if err := a.remove(ctx, a.headKey(session)); err != nil {
		return err
	}
	a.forgetSession(session)
	// A put in progress may follow a listing, so only an empty listing completes the
	// delete.
	for range swapTries {
		keys, err := a.keys(ctx, a.sessionKey(session))
		if err != nil || len(keys) == 0 {
			return err
		}
		if err := a.remove(ctx, keys...); err != nil {
			return err
		}
	}
	return ErrBusy
}

// removeAllMarkers removes the markers that the session's head names, or, if that is damaged,
// those that the list has.
func (a *Archive) removeAllMarkers(ctx context.Context, session string) error {
	head, err := load[sessionHead](ctx, a, a.headKey(session))
	if errors.Is(err, ErrCorrupt) {
		keys, err := a.markersOf(ctx, session)
		if err != nil {
			return err
		}
		return a.remove(ctx, keys...)
	}
	if err != nil {
		return err
	}
	return a.removeMarkers(ctx, session, head.value.Closed, head.value.WasClosed)
}

// markersOf returns the keys of a session's markers. It reads the list of all sessions.
func (a *Archive) markersOf(ctx context.Context, session string) (keys []string, err error) {
	for name, err := range a.list(ctx, a.closedKey(), "", false) {
		if err != nil {
			return nil, err
		}
		if _, id, err := parseMarker(name); err == nil && id == session {
			keys = append(keys, a.closedKey()+name)
		}
	}
	return keys, nil
}

func (a *Archive) keys(ctx context.Context, prefix string) (keys []string, err error) {
	for name, err := range a.list(ctx, prefix, "", false) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, prefix+name)
	}
	return keys, nil
}

func (a *Archive) forgetSession(session string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.heads {
		if strings.HasPrefix(key, a.sessionKey(session)) {
			delete(a.heads, key)
		}
	}
}

// Leftovers returns the keys of a session in the store; none after a delete.
func (a *Archive) Leftovers(ctx context.Context, session string) ([]string, error) {
	if err := checkSession(session); err != nil {
		return nil, err
	}
	keys, err := a.keys(ctx, a.sessionKey(session))
	markers, merr := a.markersOf(ctx, session)
	if err = errors.Join(err, merr); err != nil {
		return nil, fmt.Errorf("archive: leftovers of session %s: %w", session, err)
	}
	return append(keys, markers...), nil
}

// Sweep deletes the objects of transcripts that no head names, left by writers of
// lower epochs that died between two requests. It first seals every transcript with
// the epoch, so that none of them can name an object any more. What is written with
// this epoch, or with a higher one, at the same time is not touched. It returns the
// number of objects deleted. Errors: [ErrFenced].
func (a *Archive) Sweep(ctx context.Context, session string, epoch uint64) (int, error) {
	n, err := a.sweep(ctx, session, epoch)
	if err != nil {
		return n, fmt.Errorf("archive: sweep session %s: %w", session, err)
	}
	return n, nil
}

func (a *Archive) sweep(ctx context.Context, session string, epoch uint64) (int, error) {
	if err := a.fence(ctx, session, epoch); err != nil {
		return 0, err
	}
	keep, err := a.sealAll(ctx, session, epoch)
	if err != nil {
		return 0, err
	}
	dead, err := a.unnamed(ctx, session, epoch, keep)
	if err != nil {
		return 0, err
	}
	return len(dead), a.remove(ctx, dead...)
}

// unnamed returns the keys of a session's transcripts that writers of lower epochs have made
// and that are not to be kept.
func (a *Archive) unnamed(ctx context.Context, session string, epoch uint64, keep map[string]bool) ([]string, error) {
	keys, err := a.keys(ctx, a.transcriptsKey(session))
	return slices.DeleteFunc(keys, func(key string) bool {
		var s segment
		return keep[key] || s.UnmarshalText([]byte(path.Base(key))) != nil || s.epoch >= epoch
	}), err
}

// sealAll seals every transcript and returns the keys of its objects.
func (a *Archive) sealAll(ctx context.Context, session string, epoch uint64) (keep map[string]bool, err error) {
	heads, err := a.transcriptHeads(ctx, session)
	if err != nil {
		return nil, err
	}
	keep = map[string]bool{}
	for _, s := range heads {
		h, err := a.seal(ctx, session, epoch, s.value.ID)
		if err != nil {
			return nil, err
		}
		if err := a.mark(ctx, session, h, keep); err != nil {
			return nil, err
		}
	}
	return keep, nil
}

func (a *Archive) mark(ctx context.Context, session string, h transcriptHead, keep map[string]bool) error {
	segs, err := a.segments(ctx, session, h)
	if err != nil {
		return err
	}
	folder := a.transcriptKey(session, h.ID)
	keep[folder+"head.json"] = true
	for _, s := range segs {
		keep[folder+s.String()] = true
	}
	for name := h.Page; name != nil; {
		keep[a.pageKey(session, h.ID, *name)] = true
		p, err := a.page(ctx, session, h.ID, *name)
		if err != nil {
			return err
		}
		name = p.Prev
	}
	return nil
}

// seal writes the epoch into a transcript's head, so that no writer of a lower
// one can commit to it any more, and returns the new head.
func (a *Archive) seal(ctx context.Context, session string, epoch uint64, id string) (head transcriptHead, err error) {
	key := a.transcriptKey(session, id) + "head.json"
	err = retry(ctx, func(int) error {
		a.forget(key)
		s, err := load[transcriptHead](ctx, a, key)
		if err != nil {
			return err
		}
		if s.tag == "" {
			return ErrNotFound
		}
		if s.value.Epoch > epoch {
			return fmt.Errorf("epoch %d, transcript %s has %d: %w", epoch, id, s.value.Epoch, ErrFenced)
		}
		if s.value.Epoch < epoch {
			s.value.Epoch = epoch
			s, err = save(ctx, a, key, s)
		}
		head = s.value
		return err
	})
	return head, err
}
