package archive

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/internal/teststack"
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

// servers has the S3 gateway of the tests, unless the environment names another:
// SOJOURN_S3_TEST_ENDPOINT with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
var servers teststack.Shared

// gateway returns the settings of the S3 gateway.
func gateway(t testing.TB) map[string]string {
	t.Helper()
	if endpoint := os.Getenv("SOJOURN_S3_TEST_ENDPOINT"); endpoint != "" {
		return map[string]string{
			"AWS_ENDPOINT_URL_S3":   endpoint,
			"AWS_ACCESS_KEY_ID":     os.Getenv("AWS_ACCESS_KEY_ID"),
			"AWS_SECRET_ACCESS_KEY": os.Getenv("AWS_SECRET_ACCESS_KEY"),
		}
	}
	return servers.Get(t).Env
}

func gatewayClient(t testing.TB, transport http.RoundTripper) *s3.Client {
	t.Helper()
	env := gateway(t)
	return s3.New(s3.Options{
		BaseEndpoint:               aws.String(env["AWS_ENDPOINT_URL_S3"]),
		Region:                     "us-east-1",
		UsePathStyle:               true,
		HTTPClient:                 &http.Client{Transport: transport},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: env["AWS_ACCESS_KEY_ID"], SecretAccessKey: env["AWS_SECRET_ACCESS_KEY"]}, nil
		}),
		// One try: what a test makes fail is for the archive to bear.
		RetryMaxAttempts: 1,
	})
}

const testBucket = "sojourn-archive-test"

// open gives a fresh namespace of its own, deleted at the end.
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

// reopen is another process on the same namespace.
func reopen(t testing.TB, namespace string, transport http.RoundTripper) *Archive {
	t.Helper()
	if transport == nil {
		transport = http.DefaultTransport
	}
	a, err := Open(t.Context(), Options{Bucket: testBucket, Prefix: "test", Namespace: namespace, Client: gatewayClient(t, transport)})
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
	data, err := a.readAll(t.Context(), session, id)
	require.NoError(t, err)
	return data
}
