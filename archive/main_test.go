package archive

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/adapters"
)

func TestMain(m *testing.M) {
	code := m.Run()
	gateway.stop()
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

// The tests run against a real S3 gateway: the one of the environment
// (SOJOURN_S3_TEST_ENDPOINT with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY),
// or the one in the development stack if that is built.
var gateway stack

type stack struct {
	once sync.Once
	env  map[string]string
	why  string
	cmd  *exec.Cmd
	dir  string
}

func (s *stack) start() {
	if endpoint := os.Getenv("SOJOURN_S3_TEST_ENDPOINT"); endpoint != "" {
		s.env = map[string]string{
			"AWS_ENDPOINT_URL_S3":   endpoint,
			"AWS_ACCESS_KEY_ID":     os.Getenv("AWS_ACCESS_KEY_ID"),
			"AWS_SECRET_ACCESS_KEY": os.Getenv("AWS_SECRET_ACCESS_KEY"),
		}
		return
	}
	program := filepath.Join("..", "bin", "sojourn-devstack")
	if _, err := os.Stat(program); err != nil {
		s.why = "no S3 gateway: set SOJOURN_S3_TEST_ENDPOINT, or build bin/sojourn-devstack"
		return
	}
	if err := s.run(program); err != nil {
		s.why = "the development stack does not start: " + err.Error()
	}
}

func (s *stack) run(program string) (err error) {
	if s.dir, err = os.MkdirTemp("", "sojourn-archive-test-"); err != nil {
		return err
	}
	file := filepath.Join(s.dir, "env")
	s.cmd = exec.Command(program, "--data-dir", filepath.Join(s.dir, "data"), "--env-file", file,
		"--temporal-port", "0", "--ui-port", "0", "--nats-port", "0", "--s3-port", "0")
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 1200 {
		<-tick.C
		if s.env, err = readEnv(file); err == nil {
			return nil
		}
	}
	return err
}

func readEnv(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	env := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		env[name] = strings.Trim(value, `'"`)
	}
	if env["AWS_ENDPOINT_URL_S3"] == "" {
		return nil, errors.New("no AWS_ENDPOINT_URL_S3 in the env file")
	}
	return env, nil
}

func (s *stack) stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(os.Interrupt)
		_ = s.cmd.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *stack) client(t testing.TB, transport http.RoundTripper) *s3.Client {
	s.once.Do(s.start)
	if s.why != "" {
		t.Skip(s.why)
	}
	return s3.New(s3.Options{
		BaseEndpoint:               aws.String(s.env["AWS_ENDPOINT_URL_S3"]),
		Region:                     "us-east-1",
		UsePathStyle:               true,
		HTTPClient:                 &http.Client{Transport: transport},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s.env["AWS_ACCESS_KEY_ID"], SecretAccessKey: s.env["AWS_SECRET_ACCESS_KEY"]}, nil
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
	a, err := Open(t.Context(), Options{Bucket: testBucket, Prefix: "test", Namespace: namespace, Client: gateway.client(t, transport)})
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
