package archive

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/teststack"
)

func TestMain(m *testing.M) {
	code := m.Run()
	servers.Stop()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	// Idle connections of clients that Open made close when they time out.
	idle := []goleak.Option{
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	}
	if err := goleak.Find(idle...); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// servers has the S3 gateway of the tests.
var servers teststack.Shared

const testBucket = "sojourn-archive-test"

// open returns a fresh namespace, deleted at the end.
func open(t testing.TB) *Archive {
	t.Helper()
	a := reopen(t, "ns-"+strings.ToLower(rand.Text()), nil)
	require.NoError(t, a.Setup(t.Context()))
	t.Cleanup(func() {
		keys, err := a.keys(context.Background(), a.root)
		require.NoError(t, err)
		require.NoError(t, a.remove(context.Background(), keys...))
	})
	return a
}

// reopen opens the same namespace as another process would.
func reopen(t testing.TB, namespace string, transport http.RoundTripper) *Archive {
	t.Helper()
	if transport == nil {
		transport = http.DefaultTransport
	}
	a, err := Open(t.Context(), Options{Bucket: testBucket, Prefix: "test", Namespace: namespace, Client: teststack.Client(servers.S3(t), transport)})
	require.NoError(t, err)
	return a
}

func another(t testing.TB, a *Archive, transport http.RoundTripper) *Archive {
	b := reopen(t, strings.Split(a.root, "/")[1], transport)
	b.limits = a.limits
	return b
}

var mainFile = adapters.Transcript{ID: "main", Path: "projects/p/s.jsonl", Kind: adapters.Append}

func take(t testing.TB, a *Archive, session string) uint64 {
	t.Helper()
	epoch, err := a.TakeEpoch(t.Context(), session)
	require.NoError(t, err)
	return epoch
}

func mustAppend(t testing.TB, a *Archive, session string, epoch uint64, start int64, data []byte) TranscriptInfo {
	t.Helper()
	info, err := a.AppendTranscript(t.Context(), session, epoch, mainFile, start, data)
	require.NoError(t, err)
	return info
}

func mustRead(t testing.TB, a *Archive, session, id string) []byte {
	t.Helper()
	data, err := readAll(t, a, session, id)
	require.NoError(t, err)
	return data
}

func readAll(t testing.TB, a *Archive, session, id string) ([]byte, error) {
	r, err := a.ReadTranscript(t.Context(), session, id)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
