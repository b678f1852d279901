package archive

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Errors that callers branch on.
var (
	// ErrNotFound means that there is no such session, transcript, file or
	// profile.
	ErrNotFound = errors.New("not in the archive")
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
	ErrChanged = errors.New("the object has changed")
	// ErrInvalid means that an id, a path or a page token is malformed.
	ErrInvalid = errors.New("invalid")
	// ErrAnchorLost means that a server entry is anchored to a block that the native
	// transcripts don't have; it was placed at the end.
	ErrAnchorLost = errors.New("anchor is not in the transcript")
)

// ConnectError means that the store could not be reached or refuses access.
type ConnectError struct {
	// Endpoint is the address used, or the region for AWS itself.
	Endpoint string
	Bucket   string
	// Hint is what to check, in one line.
	Hint string
	Err  error
}

// Error returns one line without the hint.
func (e *ConnectError) Error() string {
	return fmt.Sprintf("archive: S3 at %s, bucket %s: %v", e.Endpoint, e.Bucket, rootCause(e.Err))
}

// Unwrap returns the client's error.
func (e *ConnectError) Unwrap() error { return e.Err }

// rootCause removes the client's description of its own retries, which does not
// help a person.
func rootCause(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api
	}
	if send, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return send.Err
	}
	return err
}

func statusOf(err error) int {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return r.HTTPStatusCode()
	}
	return 0
}

func isMissing(err error) bool { return statusOf(err) == http.StatusNotFound }

// isConflict reports whether a conditional put lost. AWS answers 404 to If-Match
// on a key that was deleted, and 409 to two conditional puts at once.
func isConflict(err error) bool {
	switch statusOf(err) {
	case http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound:
		return !hasCode(err, "NoSuchBucket")
	}
	return false
}

func hasCode(err error, code string) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == code
}
