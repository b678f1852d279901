package bucket

import (
	"errors"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

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
