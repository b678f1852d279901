package e2e

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/harness"
)

// server is one process of the development stack, of which a test uses some of the
// servers. It is killed and started again on the same ports and folder, so that an
// outage is a real one.
type server struct {
	t     *testing.T
	dir   string
	ports []string
	// flags are additional flags of the development stack.
	flags []string
	env   map[string]string
	p     *harness.Process
}

func newServer(t *testing.T, flags ...string) *server {
	t.Helper()
	dir, err := os.MkdirTemp(shared.Dir, "server-")
	require.NoError(t, err)
	return newServerIn(t, dir, flags...)
}

func newServerIn(t *testing.T, dir string, flags ...string) *server {
	t.Helper()
	s := &server{t: t, dir: dir, ports: []string{"0", "0", "0"}, flags: flags}
	s.start()
	t.Cleanup(s.stop)
	s.ports = []string{port(t, s.env["TEMPORAL_ADDRESS"]), port(t, s.env["NATS_URL"]), port(t, s.env["AWS_ENDPOINT_URL_S3"])}
	return s
}

// port returns the port of a server's address or URL.
func port(t *testing.T, address string) string {
	t.Helper()
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return port
}

// start starts the server, on the ports of its last start.
func (s *server) start() {
	s.t.Helper()
	file := filepath.Join(s.dir, "env")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := harness.Spawn(ctx, harness.Spec{
		Name: "server", ReadyFile: file, Dir: s.dir,
		Argv: append([]string{filepath.Join(shared.Bin, "sojourn-devstack"), "--data-dir", filepath.Join(s.dir, "data"), "--env-file", file,
			"--ui-port", "0", "--temporal-port", s.ports[0], "--nats-port", s.ports[1], "--s3-port", s.ports[2]}, s.flags...),
	})
	require.NoError(s.t, err)
	s.p = p
	s.env, err = harness.ReadEnv(file)
	require.NoError(s.t, err)
}

// stop kills the server at once. It may be called again.
func (s *server) stop() {
	if s.p == nil {
		return
	}
	require.NoError(s.t, s.p.Kill())
	s.p = nil
	// The ready file would report the next process as ready.
	require.NoError(s.t, os.RemoveAll(filepath.Join(s.dir, "env")))
}

// world is a set of servers, each of which can be stopped without the others, with one
// worker.
type world struct {
	temporal, nats, s3 *server

	env    map[string]string
	client *session.Client
	worker *worker
}

// newWorld starts the servers, and a worker for them. Each server to be stopped has a
// process of its own.
func newWorld(t *testing.T, away ...service) *world {
	t.Helper()
	rest := newServer(t)
	w := &world{temporal: rest, nats: rest, s3: rest}
	for _, s := range away {
		*s.of(w) = newServer(t)
	}
	w.inhabit(t)
	w.worker = startWorker(t, w.variables()...)
	return w
}

// inhabit connects to the servers.
func (w *world) inhabit(t *testing.T) {
	t.Helper()
	w.env = map[string]string{
		"TEMPORAL_ADDRESS":      w.temporal.env["TEMPORAL_ADDRESS"],
		"NATS_URL":              w.nats.env["NATS_URL"],
		"NATS_TOKEN":            w.nats.env["NATS_TOKEN"],
		"AWS_ENDPOINT_URL_S3":   w.s3.env["AWS_ENDPOINT_URL_S3"],
		"AWS_ACCESS_KEY_ID":     w.s3.env["AWS_ACCESS_KEY_ID"],
		"AWS_SECRET_ACCESS_KEY": w.s3.env["AWS_SECRET_ACCESS_KEY"],
	}
	w.client = w.connect(t)
}

// accessOf returns the NATS credentials in these settings.
func accessOf(env map[string]string) stream.Access {
	return stream.AccessFrom(func(name string) string { return env[name] })
}

// service is one of the three that sessions need.
type service struct {
	name string
	of   func(w *world) **server
}

var (
	theTemporal = service{"Temporal", func(w *world) **server { return &w.temporal }}
	theNATS     = service{"NATS", func(w *world) **server { return &w.nats }}
	theS3       = service{"S3", func(w *world) **server { return &w.s3 }}
)

// variables returns the world's settings.
func (w *world) variables() (env []string) {
	for k, v := range w.env {
		env = append(env, k+"="+v)
	}
	return env
}

func (w *world) connect(t *testing.T) *session.Client {
	t.Helper()
	ctx := testContext(t)
	store, err := archive.Open(ctx, archive.Options{Bucket: w.s3.env["SOJOURN_BUCKET"], Client: w.storeClient()})
	require.NoError(t, err)
	o, err := session.WithPayloads(client.Options{HostPort: w.env["TEMPORAL_ADDRESS"], Logger: silent{}}, store)
	require.NoError(t, err)
	c, err := client.DialContext(ctx, o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	log, err := stream.Dial(ctx, w.env["NATS_URL"], stream.Options{Access: accessOf(w.env)})
	require.NoError(t, err)
	t.Cleanup(log.Close)
	sessions, err := session.NewClient(session.ClientOptions{Temporal: c, Stream: log, Archive: store, Agents: builtin.Registry()})
	require.NoError(t, err)
	return sessions
}

func (w *world) storeClient() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(w.env["AWS_ENDPOINT_URL_S3"]), Region: w.s3.env["AWS_REGION"], UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: w.env["AWS_ACCESS_KEY_ID"], SecretAccessKey: w.env["AWS_SECRET_ACCESS_KEY"]}, nil
		}),
	})
}

// silent is a Temporal logger that discards everything, since these tests cause
// connection errors.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// pass waits for a time in which something must not happen.
func pass(t *testing.T, since time.Time, length time.Duration) {
	t.Helper()
	timer := time.NewTimer(time.Until(since.Add(length)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
