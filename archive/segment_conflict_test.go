package archive

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// underWay answers the first put of a new object that another put of it is under way, and
// stores nothing: that one fails.
type underWay struct{ refused atomic.Bool }

func (u *underWay) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || r.Header.Get("If-None-Match") == "" || u.refused.Swap(true) {
		return http.DefaultTransport.RoundTrip(r)
	}
	const body = `<Error><Code>ConditionalRequestConflict</Code><Message>retry the upload</Message></Error>`
	return &http.Response{StatusCode: http.StatusConflict, Header: http.Header{"Content-Type": {"application/xml"}}, Body: io.NopCloser(bytes.NewReader([]byte(body))), Request: r}, nil
}

// TestAPutThatIsUnderWayIsNoObject: an object that a store refuses to put because another put is
// under way is put again, unless that has stored it.
func TestAPutThatIsUnderWayIsNoObject(t *testing.T) {
	t.Parallel()
	plain := open(t)
	a := another(t, plain, &underWay{})
	key := plain.root + "segment"
	require.NoError(t, a.putNew(t.Context(), key, []byte("content")))
	got, _, err := plain.get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "content", string(got))
	require.NoError(t, a.putNew(t.Context(), key, []byte("content")), "it is there")
}
