package stream

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/event"
)

// The tests run against a real server: the one at SOJOURN_NATS_URL, or a
// development stack of their own, from SOJOURN_DEVSTACK_BIN or the
// repository's bin folder.
const (
	envURL      = "SOJOURN_NATS_URL"
	envDevstack = "SOJOURN_DEVSTACK_BIN"
)

func TestMain(m *testing.M) {
	code := m.Run()
	shared.stop()
	if natsServerDir != "" {
		_ = os.RemoveAll(natsServerDir)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// shared is the server of all tests that don't need one of their own.
var shared sharedServer

type sharedServer struct {
	once  sync.Once
	err   error
	dir   string
	stack *devstack
}

func (s *sharedServer) get(t testing.TB) string {
	if url := os.Getenv(envURL); url != "" {
		return url
	}
	bin := devstackBin(t)
	s.once.Do(func() {
		s.dir, s.err = os.MkdirTemp("", "sojourn-stream-")
		if s.err == nil {
			s.stack, s.err = startDevstack(bin, s.dir, "0")
		}
	})
	require.NoError(t, s.err)
	return s.stack.url
}

func (s *sharedServer) stop() {
	if s.stack != nil {
		s.stack.stop(syscall.SIGTERM)
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// devstackBin finds the development stack, or skips the test.
func devstackBin(t testing.TB) string {
	for _, bin := range []string{os.Getenv(envDevstack), filepath.Join("..", "bin", "sojourn-devstack")} {
		if _, err := os.Stat(bin); bin != "" && err == nil {
			return bin
		}
	}
	t.Skipf("no server: set %s to a NATS server with JetStream, or %s to a sojourn-devstack (make build puts one into bin)", envURL, envDevstack)
	return ""
}

type devstack struct {
	cmd *exec.Cmd
	// url holds the server's token.
	url string
}

// startDevstack starts a development stack in dir and waits until it is ready;
// NATS listens at port, 0 for a free one.
func startDevstack(bin, dir, port string) (*devstack, error) {
	env := filepath.Join(dir, "env")
	_ = os.Remove(env)
	log := new(lockedBuffer)
	cmd := exec.Command(bin, "--data-dir", filepath.Join(dir, "data"), "--env-file", env,
		"--temporal-port", "0", "--ui-port", "0", "--nats-port", port, "--s3-port", "0")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &devstack{cmd: cmd}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if host, ok := strings.CutPrefix(envValue(env, "NATS_URL"), "nats://"); ok {
			s.url = "nats://" + envValue(env, "NATS_TOKEN") + "@" + host
			return s, nil
		}
	}
	s.stop(syscall.SIGKILL)
	return nil, fmt.Errorf("sojourn-devstack did not become ready: %s", log)
}

func (s *devstack) stop(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Wait()
}

// envValue reads one shell assignment of a file that may not be there yet.
func envValue(file, name string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		line := strings.TrimPrefix(sc.Text(), "export ")
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.Trim(v, `'"`)
		}
	}
	return ""
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// bundle is a log on a stream of the test's own.
type bundle struct {
	*Log
	url string
}

func uniqueOptions(t testing.TB) Options {
	id := strings.NewReplacer("/", "-", "#", "-").Replace(t.Name()) + "-" + nats.NewInbox()[7:15]
	return Options{Name: id, Prefix: strings.ToLower(id), Timeout: time.Second}
}

// setup opens a log on a new stream, which goes with the test.
func setup(t testing.TB, change func(*Options)) *bundle {
	t.Helper()
	url := shared.get(t)
	o := uniqueOptions(t)
	if change != nil {
		change(&o)
	}
	return &bundle{Log: open(t, url, o), url: url}
}

func open(t testing.TB, url string, o Options) *Log {
	t.Helper()
	log, err := Dial(t.Context(), url, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		// The test's own context has ended.
		_ = log.js.DeleteStream(context.Background(), o.Name)
		log.Close()
	})
	return log
}

// again opens the same log over a connection of its own.
func (b *bundle) again(t testing.TB) *Log {
	t.Helper()
	log, err := Dial(t.Context(), b.url, b.opts)
	require.NoError(t, err)
	t.Cleanup(log.Close)
	return log
}

func (b *bundle) writer(t testing.TB, id string, epoch uint64, attempt int) *Writer {
	t.Helper()
	w, err := b.Writer(t.Context(), id, Fence{epoch, attempt}, WriterOptions{})
	require.NoError(t, err)
	return w
}

// say makes events that carry the texts.
func say(texts ...string) []event.Event {
	var out []event.Event
	for _, text := range texts {
		out = append(out, event.Event{
			Payload: event.BlockDelta{BlockID: "b", Delta: text},
			Context: event.Context{ConversationID: event.Main, Source: event.SourceRunner},
		})
	}
	return out
}

// text is what say put in, or the event's type.
func text(e event.Event) string {
	if d, ok := e.Payload.(event.BlockDelta); ok {
		return d.Delta
	}
	return string(e.Type())
}

// read gives the texts of all events behind after, and checks their numbers.
func read(t testing.TB, log *Log, id string, after uint64) []string {
	t.Helper()
	var out []string
	for e, err := range log.Read(t.Context(), id, after, ReadOptions{}) {
		require.NoError(t, err)
		after++
		require.Equal(t, after, e.Context.Seq)
		require.Equal(t, id, e.Context.SessionID)
		out = append(out, text(e))
	}
	return out
}

// consumers counts what the server keeps for the readers of a stream.
func consumers(t testing.TB, log *Log) int {
	t.Helper()
	s, err := log.js.Stream(t.Context(), log.opts.Name)
	require.NoError(t, err)
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	return info.State.Consumers
}
