package transport

import (
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a host whose process consists of its outputs and its end.
type stage struct {
	stdout *io.PipeWriter
	gone   chan struct{}
	failed chan error
	inputs chan []byte
	done   chan struct{}
	came   chan string
}

// play serves a process whose server is the handler.
func play(t *testing.T, h *HTTP, server http.Handler) *stage {
	t.Helper()
	srv := httptest.NewServer(server)
	out, stdout := io.Pipe()
	errs, stderr := io.Pipe()
	_, stdin := io.Pipe()
	s := &stage{
		stdout: stdout, gone: make(chan struct{}), failed: make(chan error, 1), inputs: make(chan []byte, 10),
		done: make(chan struct{}), came: make(chan string, 100),
	}
	host := Host{Keep: s.keep, Inputs: s.all, Fail: func(err error) { s.failed <- err }}
	go func() {
		defer close(s.done)
		h.Serve(host, Pipes{Stdin: stdin, Stdout: out, Stderr: errs}, s.gone)
	}()
	t.Cleanup(func() {
		stdout.Close()
		stderr.Close()
		<-s.done
		srv.Close()
	})
	_, err := io.WriteString(stdout, "up at "+srv.URL+"\n")
	require.NoError(t, err)
	return s
}

// end ends the process.
func (s *stage) end() {
	close(s.inputs)
	close(s.gone)
}

func (s *stage) keep(records ...traffic.Record) {
	for _, r := range records {
		s.came <- string(r.Dir) + " " + r.Line
	}
}

func (s *stage) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for data := range s.inputs {
			if !yield(data) {
				return
			}
		}
	}
}

func newTest() *HTTP {
	return NewHTTP(runner.HTTPSpec{Ready: "up at ", Events: "/event", RequestTimeout: time.Minute}, DialLoopback)
}

func TestServerThatRefusesItsEventsIsFailed(t *testing.T) {
	t.Parallel()
	h := newTest()
	h.patience = 50 * time.Millisecond
	s := play(t, h, http.NotFoundHandler())
	require.ErrorContains(t, <-s.failed, "event stream /event: status 404")
	s.end()
}

// A stream of another process does not delay the end of this one.
func TestStreamThatOutlivesTheProcessIsLeft(t *testing.T) {
	t.Parallel()
	h := newTest()
	h.drain = 50 * time.Millisecond
	left := make(chan struct{})
	s := play(t, h, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: hello\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	}))
	// In either order: its stream is followed as soon as it is up.
	said := []string{<-s.came, <-s.came}
	slices.Sort(said)
	require.Contains(t, said[0], "err up at ")
	require.Equal(t, "out hello", said[1])
	s.end()
	s.stdout.Close()
	<-left
}

// What a server sends while it ends is recorded, though the process is gone.
func TestLastWordsAreKept(t *testing.T) {
	t.Parallel()
	h := newTest()
	say := make(chan string)
	s := play(t, h, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for text := range say {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
	}))
	require.Contains(t, <-s.came, "err up at ")
	say <- "data: hello\n\n"
	require.Equal(t, "out hello", <-s.came)
	s.end()
	s.stdout.Close()
	say <- "data: last words\n\n"
	close(say)
	require.Equal(t, "out last words", <-s.came)
}

// A killed server's connections break before its process has ended: the request
// in progress is reported as ended by the agent's end, and one that a live server
// breaks off is not.
func TestBrokenOffRequests(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{true, false} {
		t.Run(fmt.Sprintf("ends %t", ends), func(t *testing.T) {
			t.Parallel()
			h := newTest()
			h.drain, h.dying = 50*time.Millisecond, 10*time.Millisecond
			if ends {
				h.dying = time.Minute // the test may be slow to end it
			}
			broken := make(chan struct{})
			s := play(t, h, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/event" {
					w.(http.Flusher).Flush()
					<-r.Context().Done()
					return
				}
				close(broken)
				panic(http.ErrAbortHandler)
			}))
			require.Contains(t, <-s.came, "err up at ")
			s.inputs <- []byte(`{"id":"r1","method":"POST","path":"/say"}`)
			<-broken
			if ends {
				s.end()
				s.stdout.Close()
			}
			said := <-s.came
			require.Contains(t, said, `"id":"r1","error":"no response`)
			require.Equal(t, ends, strings.Contains(said, `"ended":true`), said)
			if !ends {
				s.end()
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:80":                "http://127.0.0.1:80",
		"http://127.9.8.7:80/ (pid 3)":       "http://127.9.8.7:80",
		"  http://[::1]:80/base/\r":          "http://[::1]:80/base",
		"http://localhost:80":                "http://localhost:80",
		"http://LocalHost":                   "http://LocalHost",
		"http://u:p@127.0.0.1:80?q#f":        "http://127.0.0.1:80",
		"http://[::ffff:127.0.0.1]:80":       "http://[::ffff:127.0.0.1]:80",
		"":                                   "",
		"http://":                            "",
		"https://127.0.0.1":                  "",
		"http://10.0.0.1":                    "",
		"http://0.0.0.0:80":                  "",
		"http://[::]:80":                     "",
		"http://localhost.example.com":       "",
		"http://127.0.0.1:80@192.0.2.1/":     "",
		"http://127.1:80":                    "",
		"unix:///tmp/socket":                 "",
		"http://127.0.0.1:80\\@192.0.2.1:80": "",
	} {
		u, err := baseURL(text)
		if want == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, u.String())
	}
}

// Whatever a name resolves to, only loopback is reached.
func TestClientReachesLoopbackOnly(t *testing.T) {
	t.Parallel()
	_, err := newClient(DialLoopback).Get("http://192.0.2.1:80/")
	require.ErrorContains(t, err, "192.0.2.1:80 is no loopback address")
}
