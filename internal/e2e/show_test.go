package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
)

// TestShowWithTheArchiveAway: the stream has all of an open session, so nobody
// waits for the archive. A closed one is the archive's, which is named.
func TestShowWithTheArchiveAway(t *testing.T) {
	startWorker(t)
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY it is all in the stream").Err())
	awaitIdle(t, h)
	addr := closedAddress(t)
	noArchive := []string{"AWS_ENDPOINT_URL_S3=http://" + addr}
	for _, args := range [][]string{{"show", h.ID()}, {"show", h.ID(), "--json"}, {"show", h.ID(), "--from", "stream"}} {
		shown := runProgram(t, "sojourn", "", noArchive, args...)
		require.Zero(t, shown.code, shown.err)
		require.Empty(t, shown.err, "nothing is missing")
		require.Equal(t, sojourn(t, args...), shown.out)
		require.Contains(t, shown.out, "it is all in the stream")
	}
	refused(t, runProgram(t, "sojourn", "", noArchive, "show", h.ID(), "--from", "archive"), 1, addr, "AWS_ENDPOINT_URL_S3")
	require.NoError(t, h.Close(testContext(t)))
	refused(t, runProgram(t, "sojourn", "", noArchive, "show", h.ID()), 1, addr, "AWS_ENDPOINT_URL_S3")
}
