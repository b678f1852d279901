package session

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// across sends an error through Temporal's own wire form and back.
func across(err error) error {
	fc := temporal.GetDefaultFailureConverter()
	return fc.FailureToError(fc.ErrorToFailure(err))
}

func TestErrorsCrossTemporal(t *testing.T) {
	t.Parallel()
	for _, sentinel := range []error{ErrClosed, ErrBusy, ErrDepthLimit, ErrNotFound} {
		wrapped := fmt.Errorf("session s1: send: %w", sentinel)
		crossed := across(ToTemporal(wrapped))
		var app *temporal.ApplicationError
		require.ErrorAs(t, crossed, &app)
		require.True(t, app.NonRetryable(), "%v", sentinel)
		require.Equal(t, sentinel, FromTemporal(crossed))
		require.ErrorIs(t, FromTemporal(fmt.Errorf("update: %w", crossed)), sentinel)
	}
}

// A worker that answers a query with a workflow task sends the text of the
// handler's error and nothing else.
func TestErrorsOfQueriesKeepTheirType(t *testing.T) {
	t.Parallel()
	fc := temporal.GetDefaultFailureConverter()
	for _, w := range wireTypes {
		said := ToTemporal(fmt.Errorf("execution %q: %w", "x1", w.err))
		for _, refused := range []error{
			serviceerror.NewQueryFailedWithFailure(said.Error(), fc.ErrorToFailure(said)),
			serviceerror.NewQueryFailed(said.Error()),
		} {
			require.ErrorIs(t, FromTemporal(fromQuery(fmt.Errorf("query: %w", refused))), w.err)
		}
	}
	unknown := serviceerror.NewQueryFailed("unknown queryType nothing")
	require.Equal(t, unknown, fromQuery(unknown))
}

// A message that a session does not have is another error than a session that is not there.
func TestAnUnknownMessageIsNamed(t *testing.T) {
	t.Parallel()
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	f.query = across(ToTemporal(fmt.Errorf("execution %q: %w", "m9", ErrNotFound)))
	h, err := newClient(t, f).Get(t.Context(), "s1")
	require.NoError(t, err)
	_, ofResult := h.Result(t.Context(), "m9")
	_, ofReceipt := h.FindExecution(t.Context(), "m9")
	for _, err := range []error{ofResult, ofReceipt} {
		require.Equal(t, &NoMessageError{SessionID: "s1", ID: "m9"}, err)
		require.ErrorIs(t, err, ErrNotFound)
		require.EqualError(t, err, `session s1: no message or execution "m9"`)
	}
	_, err = h.Result(t.Context(), "")
	require.EqualError(t, err, "session s1: no turn has ended yet")
	f.query, f.known = serviceerror.NewNotFound("workflow not found"), nil
	_, err = h.Result(t.Context(), "m9")
	require.EqualError(t, err, "session s1: no such session")
}

func TestInvalidErrorCrossesWithItsFields(t *testing.T) {
	t.Parallel()
	was := Invalid("message.text", "is empty", "some text")
	crossed := across(ToTemporal(fmt.Errorf("session s1: %w", was)))
	var invalid *InvalidError
	require.ErrorAs(t, FromTemporal(crossed), &invalid)
	require.Equal(t, was, invalid)
	require.Equal(t, "message.text: is empty; want some text", invalid.Error())
	require.Equal(t, "message.text wants some text", invalid.Hint())
}

func TestOtherErrorsPassUnchanged(t *testing.T) {
	t.Parallel()
	require.NoError(t, ToTemporal(nil))
	require.NoError(t, FromTemporal(nil))
	plain := errors.New("plain")
	require.Equal(t, plain, ToTemporal(plain))
	require.Equal(t, plain, FromTemporal(plain))
	other := across(temporal.NewApplicationError("the agent said no", TypeAgentFailed))
	require.Equal(t, other, FromTemporal(other))
	bare := across(temporal.NewNonRetryableApplicationError("no details", TypeInvalid, nil))
	require.Equal(t, bare, FromTemporal(bare), "an InvalidInput without fields stays what it is")
}

func TestInvalidErrorIsAPayload(t *testing.T) {
	t.Parallel()
	dc := converter.GetDefaultDataConverter()
	p, err := dc.ToPayload(*Invalid("a", "b", "c"))
	require.NoError(t, err)
	require.JSONEq(t, `{"field": "a", "reason": "b", "want": "c"}`, string(p.GetData()))
}
