package archive

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
)

// sessionHead is a session's head.json.
type sessionHead struct {
	Epoch uint64 `json:"epoch"`
	// Taker is random. It identifies whose put it was if the answer was lost.
	Taker string `json:"taker"`
	// Closed is the time of the session's marker in the list of closed ones.
	Closed time.Time `json:"closed,omitzero"`
	// WasClosed is the time of the marker before it, which may not be removed yet.
	WasClosed time.Time `json:"wasClosed,omitzero"`
}

// TakeEpoch takes the session's next epoch, 1 for a new session. The holder of an
// earlier one is fenced from now on. Concurrent takers each get a different
// epoch. A lost answer costs an epoch and nothing else.
func (a *Archive) TakeEpoch(ctx context.Context, session string) (epoch uint64, err error) {
	head, err := a.changeHead(ctx, session, func(h *sessionHead, exists bool) error {
		h.Epoch++
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("archive: take epoch of session %s: %w", session, err)
	}
	return head.Epoch, nil
}

// TakeEpochAfter is [Archive.TakeEpoch], unless an epoch was taken after seen:
// then it fails with [ErrFenced], and nothing is changed.
func (a *Archive) TakeEpochAfter(ctx context.Context, session string, seen uint64) (epoch uint64, err error) {
	head, err := a.changeHead(ctx, session, func(h *sessionHead, exists bool) error {
		if h.Epoch != seen {
			return fmt.Errorf("epoch %d was the newest, now it is %d: %w", seen, h.Epoch, ErrFenced)
		}
		h.Epoch++
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("archive: take epoch of session %s: %w", session, err)
	}
	return head.Epoch, nil
}

// Epoch returns the newest epoch that was taken; 0 for a session without any.
func (a *Archive) Epoch(ctx context.Context, session string) (uint64, error) {
	if err := checkSession(session); err != nil {
		return 0, err
	}
	s, err := load[sessionHead](ctx, a, a.headKey(session))
	if err != nil {
		return 0, fmt.Errorf("archive: read epoch of session %s: %w", session, err)
	}
	return s.value.Epoch, nil
}

// changeHead changes a session's head by read, change and swap.
func (a *Archive) changeHead(ctx context.Context, session string, change func(h *sessionHead, exists bool) error) (sessionHead, error) {
	if err := checkSession(session); err != nil {
		return sessionHead{}, err
	}
	taker, mine := rand.Text(), sessionHead{}
	err := retry(ctx, func(attempt int) error {
		s, err := load[sessionHead](ctx, a, a.headKey(session))
		if err != nil {
			return err
		}
		if attempt > 0 && s.value.Taker == taker {
			return nil // it lost against its own put
		}
		if err := change(&s.value, s.tag != ""); err != nil {
			return err
		}
		s.value.Taker, mine = taker, s.value
		_, err = save(ctx, a, a.headKey(session), s)
		return err
	})
	return mine, err
}

// fence refuses every epoch but the session's newest.
func (a *Archive) fence(ctx context.Context, session string, epoch uint64) error {
	if err := checkSession(session); err != nil {
		return err
	}
	s, err := load[sessionHead](ctx, a, a.headKey(session))
	if err != nil {
		return err
	}
	return s.value.admit(epoch)
}

func (h sessionHead) admit(epoch uint64) error {
	if epoch == 0 || h.Epoch != epoch {
		return fmt.Errorf("epoch %d, newest is %d: %w", epoch, h.Epoch, ErrFenced)
	}
	return nil
}
