package batch

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// servers has the S3 gateway of the tests.
var servers teststack.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	servers.Stop()
	os.Exit(code)
}

// openArchive returns a client of a namespace's archive.
func openArchive(t *testing.T, namespace string, transport http.RoundTripper) *archive.Archive {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-batch-test", Prefix: "test", Namespace: namespace, Client: teststack.Client(servers.S3(t), transport),
	})
	require.NoError(t, err)
	require.NoError(t, a.Setup(t.Context()))
	return a
}

func freshNamespace() string { return "ns-" + strings.ToLower(rand.Text()) }

// interrupted calls then once, when the first object with a name was asked for; requests for
// another one wait for that.
type interrupted struct {
	first, waits string
	then         func()
	once         sync.Once
	done         chan struct{}
}

func (i *interrupted) RoundTrip(r *http.Request) (*http.Response, error) {
	if i.waits != "" && strings.Contains(r.URL.Path, i.waits) {
		<-i.done
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, i.first) {
		i.once.Do(func() { defer close(i.done); i.then() })
	}
	return res, err
}

// Whoever joins or reads a page while another attempt joins it has all of its results.
func TestResultsAreJoinedOnce(t *testing.T) {
	t.Parallel()
	p := page{Items: 2}
	for name, c := range map[string]struct {
		first, waits string
		read         func(*testing.T, *archive.Objects) ([]Line, error)
	}{
		"joined":      {resultsName(0), "", func(t *testing.T, o *archive.Objects) ([]Line, error) { return join(t.Context(), o, p) }},
		"read":        {resultsName(0), "", func(t *testing.T, o *archive.Objects) ([]Line, error) { return results(t.Context(), o, p) }},
		"read partly": {resultName(0), resultName(1), func(t *testing.T, o *archive.Objects) ([]Line, error) { return results(t.Context(), o, p) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := freshNamespace()
			other, err := openArchive(t, namespace, http.DefaultTransport).Batch("b1")
			require.NoError(t, err)
			for i := range p.Items {
				require.NoError(t, other.Put(t.Context(), resultName(i), fmt.Appendf(nil, `{"index":%d}`+"\n", i)))
			}
			meanwhile := &interrupted{first: c.first, waits: c.waits, done: make(chan struct{}), then: func() {
				_, err := join(t.Context(), other, p)
				assert.NoError(t, err)
			}}
			o, err := openArchive(t, namespace, meanwhile).Batch("b1")
			require.NoError(t, err)
			lines, err := c.read(t, o)
			require.NoError(t, err)
			require.Len(t, lines, p.Items)
			kept, err := results(t.Context(), other, p)
			require.NoError(t, err)
			require.Len(t, kept, p.Items)
			for left, err := range other.All(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, resultsName(0), left.Name)
			}
		})
	}
}

// A batch that was reset after its report writes more results: the next report has them beside
// those that were joined, and one that was written again counts as it is now.
func TestResultsBehindAReportAreJoined(t *testing.T) {
	t.Parallel()
	o, err := openArchive(t, freshNamespace(), http.DefaultTransport).Batch("b1")
	require.NoError(t, err)
	ctx, p := t.Context(), page{First: 500, Items: 3}
	put := func(index int, typ string) {
		require.NoError(t, o.Put(ctx, resultName(index), fmt.Appendf(nil, `{"index":%d,"type":%q}`+"\n", index, typ)))
	}
	put(500, "")
	put(501, TypeCancelled)
	_, err = join(ctx, o, p)
	require.NoError(t, err)
	put(501, "")
	put(502, session.TypeAgentFailed)
	for range 2 { // the second one is of an attempt whose answer was lost
		lines, err := join(ctx, o, p)
		require.NoError(t, err)
		require.Equal(t, []Line{{Index: 500}, {Index: 501}, {Index: 502, Type: session.TypeAgentFailed}}, lines)
	}
	kept, err := results(ctx, o, p)
	require.NoError(t, err)
	require.Len(t, kept, 3)
	for left, err := range o.All(ctx) {
		require.NoError(t, err)
		require.Equal(t, resultsName(500), left.Name)
	}
}
