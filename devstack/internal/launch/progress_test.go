package launch

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressSpeaksOnlyOfASlowStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := StartProgress(&b)
		p.Step("one")
		advance(patience - time.Millisecond)
		require.Empty(t, b.String())
		p.Step("two")
		advance(time.Millisecond)
		require.Equal(t, "sojourn-devstack: starting two (2 s)\n", b.String())
		p.Stop()
		p.Stop()
		advance(time.Minute)
		require.Equal(t, "sojourn-devstack: starting two (2 s)\n", b.String())
	})
}

// advance moves the bubble's clock, which stops while anything can run.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
