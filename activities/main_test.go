package activities

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
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

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/stream"
)

// TestMain is also the program that the sandboxes of the tests run as their
// agent: a link named claude leads to this binary.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "claude" {
		os.Exit(fakeClaude())
	}
	code := m.Run()
	servers.stop()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// The tests of what is written run against real servers: the development
// stack, if it is built. A stream and an S3 gateway that run already may be
// named instead (SOJOURN_NATS_URL and SOJOURN_S3_TEST_ENDPOINT, together).
var servers stack

type stack struct {
	once sync.Once
	env  map[string]string
	why  string
	cmd  *exec.Cmd
	dir  string
}

func (s *stack) need(t testing.TB) map[string]string {
	t.Helper()
	s.once.Do(s.start)
	if s.why != "" {
		t.Skip(s.why)
	}
	return s.env
}

func (s *stack) start() {
	if nats, endpoint := os.Getenv("SOJOURN_NATS_URL"), os.Getenv("SOJOURN_S3_TEST_ENDPOINT"); nats != "" && endpoint != "" {
		s.env = map[string]string{
			"NATS_URL": nats, "AWS_ENDPOINT_URL_S3": endpoint,
			"AWS_ACCESS_KEY_ID": os.Getenv("AWS_ACCESS_KEY_ID"), "AWS_SECRET_ACCESS_KEY": os.Getenv("AWS_SECRET_ACCESS_KEY"),
		}
		return
	}
	program := filepath.Join("..", "bin", "sojourn-devstack")
	if _, err := os.Stat(program); err != nil {
		s.why = "no servers: build bin/sojourn-devstack, or set SOJOURN_NATS_URL and SOJOURN_S3_TEST_ENDPOINT"
		return
	}
	if err := s.run(program); err != nil {
		s.why = "the development stack does not start: " + err.Error()
	}
}

func (s *stack) run(program string) (err error) {
	if s.dir, err = os.MkdirTemp("", "sojourn-activities-test-"); err != nil {
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
	if env["AWS_ENDPOINT_URL_S3"] == "" || env["NATS_URL"] == "" {
		return nil, errors.New("the env file names no stream or no S3 gateway")
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

// fresh gives a log and an archive of the test's own.
func fresh(t testing.TB) (*stream.Log, *archive.Archive) {
	t.Helper()
	env, namespace := servers.need(t), "ns-"+strings.ToLower(rand.Text())
	log, err := stream.Dial(t.Context(), env["NATS_URL"], stream.Options{
		Namespace: namespace, Access: stream.AccessFrom(func(name string) string { return env[name] }),
	})
	require.NoError(t, err)
	t.Cleanup(log.Close)
	store, err := archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-activities-test", Prefix: "test", Namespace: namespace,
		Client: storeOf(env),
	})
	require.NoError(t, err)
	require.NoError(t, store.Setup(t.Context()))
	return log, store
}

// storeOf is a client of the S3 gateway.
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

// quiet is a logger that says nothing.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
