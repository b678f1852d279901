package stream

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// envURL names a server that the tests run against; default: that of a separate
// development stack.
const envURL = "SOJOURN_NATS_URL"

func TestMain(m *testing.M) {
	code := m.Run()
	shared.Stop()
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

// shared has the server of all tests that don't need a separate one.
var shared teststack.Shared

// natsURL returns the server's URL, with its token.
func natsURL(t testing.TB) string {
	t.Helper()
	if url := os.Getenv(envURL); url != "" {
		return url
	}
	return urlOf(shared.Get(t))
}

func urlOf(s *teststack.Stack) string {
	return strings.Replace(s.Env["NATS_URL"], "nats://", "nats://"+s.Env["NATS_TOKEN"]+"@", 1)
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

// bundle is a log on a stream for one test.
type bundle struct {
	*Log
	url string
}

func uniqueOptions(t testing.TB) Options {
	id := strings.NewReplacer("/", "-", "#", "-").Replace(t.Name()) + "-" + nats.NewInbox()[7:15]
	return Options{Name: id, Prefix: strings.ToLower(id), Timeout: time.Second}
}

// setup opens a log on a new stream, which is deleted with the test.
func setup(t testing.TB, change func(*Options)) *bundle {
	t.Helper()
	url := natsURL(t)
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

// again opens the same log over another connection.
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

// say returns events that carry the texts.
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

// text returns what say put in, or the event's type.
func text(e event.Event) string {
	if d, ok := e.Payload.(event.BlockDelta); ok {
		return d.Delta
	}
	return string(e.Type())
}

// read returns the texts of all events behind after, and checks their numbers.
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
