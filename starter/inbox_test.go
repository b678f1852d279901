package starter

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
)

// A session that can't answer is named, and the others are listed all the same; the exit
// code is 1.
func TestInboxListsWhatTheOtherSessionsWaitFor(t *testing.T) {
	t.Parallel()
	inspect := func(_ context.Context, id string) (session.Inspection, error) {
		var i session.Inspection
		i.Status, i.WaitsFor = session.StatusPaused, "limit of "+id
		switch id {
		case "mute":
			return session.Inspection{}, fmt.Errorf("session mute: %w", session.ErrNoWorker)
		case "closed":
			return session.Inspection{}, session.ErrClosed
		}
		return i, nil
	}
	for name, c := range map[string]struct {
		open []session.Summary
		json bool
		code int
		out  string
		errs string
	}{
		"one can't": {
			[]session.Summary{{SessionID: "s1"}, {SessionID: "mute"}, {SessionID: "closed"}, {SessionID: "s2"}}, false, exitFailed,
			"SESSION  TITLE  WAITS FOR\ns1       -      limit of s1\ns2       -      limit of s2\n",
			"sojourn: warning: what session mute waits for is not known: session mute: no worker answers\n" +
				"sojourn: sojourn respond SESSION REQUEST allow|deny answers; sojourn configure SESSION raises a limit\n",
		},
		"as JSON": {
			[]session.Summary{{SessionID: "mute"}, {SessionID: "s1"}}, true, exitFailed,
			`[{"sessionId":"s1","title":"","agent":"","limit":"limit of s1"}]` + "\n",
			"sojourn: warning: what session mute waits for is not known: session mute: no worker answers\n",
		},
		"none can": {
			[]session.Summary{{SessionID: "mute"}}, false, exitFailed, "",
			"sojourn: warning: what session mute waits for is not known: session mute: no worker answers\n",
		},
		"nothing": {[]session.Summary{{SessionID: "closed"}}, false, exitDone, "", "sojourn: nothing waits for a person\n"},
	} {
		var out, errs bytes.Buffer
		cmd := &cli{stdout: &out, stderr: &errs, json: c.json}
		found, missing, err := cmd.inboxOf(t.Context(), c.open, inspect)
		require.NoError(t, err, name)
		require.Equal(t, c.code, cmd.report(cmd.printInbox(found, missing), false), name)
		require.Equal(t, c.out, out.String(), name)
		require.Equal(t, c.errs, errs.String(), name)
	}
}

// Without Temporal no session answers, so the first error is that of the command.
func TestInboxNeedsTemporal(t *testing.T) {
	t.Parallel()
	asked := 0
	away := func(context.Context, string) (session.Inspection, error) {
		asked++
		return session.Inspection{}, session.ErrUnavailable
	}
	_, _, err := (&cli{}).inboxOf(t.Context(), []session.Summary{{SessionID: "s1"}, {SessionID: "s2"}}, away)
	require.ErrorIs(t, err, session.ErrUnavailable)
	require.Equal(t, 1, asked)
}
