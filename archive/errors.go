package archive

import (
	"errors"

	"github.com/sojourn-run/sojourn/archive/store"
)

// Errors that callers branch on.
var (
	// ErrNotFound means that there is no such session, transcript, file or
	// profile.
	ErrNotFound = store.ErrNotFound
	// ErrExists means that a session with this id already has a record.
	ErrExists = errors.New("already in the archive")
	// ErrFenced means that the writer's epoch is not the session's newest: it
	// must stop for good.
	ErrFenced = errors.New("fenced: the session has another epoch")
	// ErrGap means that an append starts behind the transcript's end, so that bytes
	// between would be missing. The archive is unchanged.
	ErrGap = errors.New("append leaves a gap")
	// ErrConflict means that an append overlaps the transcript with other
	// bytes. The archive is unchanged.
	ErrConflict = errors.New("append differs from what is archived")
	// ErrCorrupt means that stored bytes don't have the hash they were written
	// with, or that an object of the archive cannot be decoded.
	ErrCorrupt = errors.New("archive is corrupt")
	// ErrBusy means that other writers kept changing an object while this one tried
	// to; trying later may succeed.
	ErrBusy = errors.New("too many writers")
	// ErrChanged means that a conditional put found the object changed.
	ErrChanged = store.ErrChanged
	// ErrInvalid means that an id, a path or a page token is malformed.
	ErrInvalid = errors.New("invalid")
	// ErrAnchorLost means that a server entry is anchored to a block that the native
	// transcripts don't have; it was placed at the end.
	ErrAnchorLost = errors.New("anchor is not in the transcript")
)
