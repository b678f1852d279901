package activities

import (
	"context"
	"errors"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/workspace"
)

// unreadable is an error of what an agent left in its sandbox, as opposed to one of a store
// that does not answer: a retry has the same result.
type unreadable struct{ error }

// Unwrap returns the error itself.
func (u unreadable) Unwrap() error { return u.error }

// asUnreadable marks an error of a read in a sandbox, unless the read was canceled or the
// host is short of something.
func asUnreadable(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, sandbox.ErrShort) {
		return err
	}
	return unreadable{err}
}

// unreadableOf splits a joined error: into descriptions of what can't be archived as it is,
// and the rest, which a retry may change.
func unreadableOf(err error) (left []string, rest error) {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if isFinal(e) {
			return []string{"not archived: " + brief.Truncate(err.Error(), leftShown)}, nil
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

// isFinal reports whether a retry can't help, by the error itself.
func isFinal(err error) bool {
	switch err.(type) {
	case unreadable, *workspace.ReadError:
		return true
	}
	return err == archive.ErrInvalid || err == archive.ErrConflict || err == archive.ErrGap
}

// leftShown bounds the description of what an ended sandbox left, in bytes.
const leftShown = 1000
