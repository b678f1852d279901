package activities

import (
	"context"
	"errors"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/turn"
	"github.com/sojourn-run/sojourn/workspace"
)

// unreadable is an error of what an agent left in its sandbox, in distinction
// from one of a store that does not answer: no other try has another result.
type unreadable struct{ error }

// Unwrap returns the error itself.
func (u unreadable) Unwrap() error { return u.error }

// asUnreadable marks an error of a read in a sandbox, unless the read was
// broken off.
func asUnreadable(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return unreadable{err}
}

// unreadableOf splits what was joined to an error: into words about what can't
// be archived as it is, and the rest, which another try may change.
func unreadableOf(err error) (left []string, rest error) {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if isFinal(e) {
			return []string{"not archived: " + turn.Truncate(err.Error(), leftShown)}, nil
		}
		joined, ok := e.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		for _, one := range joined.Unwrap() {
			words, other := unreadableOf(one)
			left, rest = append(left, words...), errors.Join(rest, other)
		}
		return left, rest
	}
	return nil, err
}

// isFinal reports whether an error itself says that no other try helps.
func isFinal(err error) bool {
	switch err.(type) {
	case unreadable, *workspace.ReadError:
		return true
	}
	return err == archive.ErrInvalid || err == archive.ErrConflict || err == archive.ErrGap
}

// leftShown bounds what is told of what an ended sandbox left, in bytes.
const leftShown = 1000
