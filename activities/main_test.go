package activities

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// TestMain is also the program that the sandboxes of the tests run as their agent: a link
// named claude points to this binary.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "claude" {
		os.Exit(fakeClaude())
	}
	code := m.Run()
	servers.Stop()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// servers are what the tests write to, unless the environment names a running stream and S3
// gateway: SOJOURN_NATS_URL and SOJOURN_S3_TEST_ENDPOINT, both.
var servers teststack.Shared

// serversOf returns the servers' settings.
func serversOf(t testing.TB) map[string]string {
	t.Helper()
	if nats, endpoint := os.Getenv("SOJOURN_NATS_URL"), os.Getenv("SOJOURN_S3_TEST_ENDPOINT"); nats != "" && endpoint != "" {
		return map[string]string{
			"NATS_URL": nats, "AWS_ENDPOINT_URL_S3": endpoint,
			"AWS_ACCESS_KEY_ID": os.Getenv("AWS_ACCESS_KEY_ID"), "AWS_SECRET_ACCESS_KEY": os.Getenv("AWS_SECRET_ACCESS_KEY"),
		}
	}
	return servers.Get(t).Env
}

const bucket = "sojourn-activities-test"

// fresh returns a log and an archive for one test.
func fresh(t testing.TB) (*stream.Log, *archive.Archive) {
	t.Helper()
	env, namespace := serversOf(t), "ns-"+strings.ToLower(rand.Text())
	log, err := stream.Dial(t.Context(), env["NATS_URL"], stream.Options{
		Namespace: namespace, Access: stream.AccessFrom(func(name string) string { return env[name] }),
	})
	require.NoError(t, err)
	t.Cleanup(log.Close)
	store, err := archive.Open(t.Context(), archive.Options{
		Bucket: bucket, Prefix: "test", Namespace: namespace,
		Client: storeOf(env),
	})
	require.NoError(t, err)
	require.NoError(t, store.Setup(t.Context()))
	return log, store
}

// storeOf returns a client of the S3 gateway.
func storeOf(env map[string]string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(env["AWS_ENDPOINT_URL_S3"]), Region: "us-east-1", UsePathStyle: true,
		HTTPClient:                 &http.Client{Transport: http.DefaultTransport},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: env["AWS_ACCESS_KEY_ID"], SecretAccessKey: env["AWS_SECRET_ACCESS_KEY"]}, nil
		}),
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
