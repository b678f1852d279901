package supervisor

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection that could not be accepted is no reason to take none any more.
func TestAcceptBearsErrors(t *testing.T) {
	t.Parallel()
	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"}
	l, err := net.ListenUnix("unix", at)
	require.NoError(t, err)
	require.NoError(t, l.SetDeadline(time.Unix(1, 0)))
	_, err = l.AcceptUnix()
	require.Error(t, err)
	accepted := make(chan error, 1)
	go func() {
		conn, err := acceptUnix(l)
		if err == nil {
			err = conn.Close()
		}
		accepted <- err
	}()
	c, err := net.DialUnix("unix", nil, at)
	require.NoError(t, err)
	require.NoError(t, l.SetDeadline(time.Time{}))
	require.NoError(t, <-accepted)
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
	_, err = acceptUnix(l)
	require.ErrorIs(t, err, net.ErrClosed)
}
