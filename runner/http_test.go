//go:build linux

package runner_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/test/skip"
)

// setupHTTP is a bench whose agent serves HTTP.
func setupHTTP(t testing.TB, mode runner.IsolationMode, args ...string) *bench {
	b := setup(t, mode)
	b.spec.Argv = append([]string{filepath.Join(b.spec.Dir, "server")}, args...)
	b.spec.Transport = runner.TransportHTTP
	b.spec.HTTP = runner.HTTPSpec{
		Ready:       "server listening on ",
		Events:      "/event",
		PasswordEnv: "SERVER_PASSWORD",
		User:        "me",
	}
	return b
}

// ask passes one request on, under an id that is also its input's.
func ask(t testing.TB, c *runner.Conn, id, method, path string, body any) runner.Ack {
	t.Helper()
	line, err := json.Marshal(map[string]any{"id": id, "method": method, "path": path, "body": body})
	require.NoError(t, err)
	return say(t, c, id, string(line))
}

type response struct {
	Type   string          `json:"type"`
	ID     string          `json:"id"`
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
	Error  string          `json:"error"`
}

// response returns the next one; it must have the id.
func (r *reader) response(id string) (a response) {
	r.t.Helper()
	line := r.until(event.DirOut, `{"type":"sojourn.response"`).Record.Line
	require.NoError(r.t, json.Unmarshal([]byte(line), &a))
	require.Equal(r.t, id, a.ID)
	return a
}

// outs returns the next records of the agent that begin with the prefixes, in any
// order: events and responses arrive on separate connections.
func (r *reader) outs(prefixes ...string) (lines []string) {
	r.t.Helper()
	lines = make([]string, len(prefixes))
	for left := len(prefixes); left > 0; {
		line := r.until(event.DirOut, "").Record.Line
		for i, p := range prefixes {
			if lines[i] == "" && strings.HasPrefix(line, p) {
				lines[i], left = line, left-1
				break
			}
		}
	}
	return lines
}

const answered = `{"type":"sojourn.response","id":`

func TestHTTPConversation(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setupHTTP(t, mode)
		st := b.mustStart()
		require.Equal(t, runner.AgentRunning, st.State)
		c := b.dial()
		r := read(t, c, 0)
		require.Equal(t, "start", r.until(event.DirSig, "").Record.Line)
		// The server's line and the events of its stream come in either order.
		read(t, c, 0).until(event.DirErr, "server listening on http://127.0.0.1:")
		ack := ask(t, c, "m1", "POST", "/say", "hello")
		require.False(t, ack.Duplicate)
		r.outs(`{"type":"connected"}`, `{"said":"hello"}`, answered+`"m1","status":204}`)
		ask(t, c, "m2", "POST", "/log", "aloud")
		r.until(event.DirErr, `"aloud"`)
		ask(t, c, "m3", "POST", "/exit?n=3", nil)
		require.Contains(t, r.outs("last words", answered+`"m3"`)[1], `"error":"no response`)
		require.Equal(t, "exit 3", r.until(event.DirSig, "exit").Record.Line)
		require.Empty(t, r.end(), "the stream ends after the exit record")
		_, err := c.Input(t.Context(), "m4", []byte("too late"))
		require.ErrorIs(t, err, runner.ErrExited)
	})
}

func TestHTTPRequestsAndInputRecords(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	line := `{"id":"r1","method":"PUT","path":"/echo?a=%2Fb&c","body":{"x": [1]}}`
	ack := say(t, c, "m1", line)
	in := r.until(event.DirIn, "")
	require.Equal(t, line, in.Record.Line)
	require.Equal(t, runner.Ack{Offset: in.Offset, Next: in.Next}, ack)
	require.JSONEq(t, `{"method":"PUT","query":"a=%2Fb&c","type":"application/json","body":"{\"x\": [1]}"}`, string(r.response("r1").Body))
	for path, want := range map[string]response{
		"/echo":         {Status: 200, Body: json.RawMessage(`{"method":"GET","query":"","type":"","body":""}`)},
		"/text":         {Status: 200, Body: json.RawMessage(`"two\n\"lines\""`)},
		"/pretty":       {Status: 200, Body: json.RawMessage(`{"a":[1,2]}`)},
		"/redirect":     {Status: 302},
		"/no-such-path": {Status: 404, Body: json.RawMessage(`"404 page not found\n"`)},
	} {
		say(t, c, path, `{"id":"`+path+`","method":"GET","path":"`+path+`"}`)
		got := r.response(path)
		require.Equal(t, want.Status, got.Status, path)
		if want.Body != nil {
			require.Equal(t, string(want.Body), string(got.Body), path)
		}
	}
}

// A line that is not a request does no harm, and is answered in its turn.
func TestHTTPMalformedInput(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	for i, bad := range []struct{ line, id, want string }{
		{`not json`, "", "malformed request"},
		{``, "", "malformed request"},
		{`[1]`, "", "malformed request"},
		{`{"id":"b1","path":"/say"}`, "b1", `field "method" is empty`},
		{`{"id":"b2","method":7,"path":"/say"}`, "b2", "malformed request"},
		{`{"id":"b3","method":"GET"}`, "b3", "path is"},
		{`{"id":"b4","method":"GET","path":"//192.0.2.1/x"}`, "b4", "path is"},
		{`{"id":"b5","method":"GET","path":"@192.0.2.1/x"}`, "b5", "path is"},
		{`{"id":"b6","method":"GET","path":"http://192.0.2.1/x"}`, "b6", "path is"},
		{`{"id":"b7","method":"GET","path":"/a\u0000b"}`, "b7", "malformed request"},
		{`{"id":"b8","method":"G T","path":"/a"}`, "b8", "malformed request"},
		{`{"id":"b9","method":"GET","path":"/a`, "", "malformed request"},
	} {
		say(t, c, fmt.Sprint("m", i), bad.line)
		got := r.response(bad.id)
		require.Contains(t, got.Error, bad.want, bad.line)
		require.Zero(t, got.Status)
	}
	// Two lines are two requests.
	say(t, c, "two", `{"id":"x1","method":"GET","path":"/text"}`+"\n"+`{"id":"x2","method":"GET","path":"/text"}`)
	require.Equal(t, 200, r.response("x1").Status)
	require.Equal(t, 200, r.response("x2").Status)
}

func TestHTTPRequestsGoOneByOneInOrderAndOncePerID(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationAuto)
	b.mustStart()
	first := b.dial()
	var want []string
	for i := range 50 {
		path := fmt.Sprint("/p", i)
		ask(t, first, path, "POST", path, i)
		require.True(t, ask(t, first, path, "POST", path, i).Duplicate)
		want = append(want, path+" 1")
	}
	require.NoError(t, first.Close())
	// Another client finds what was passed on.
	c := b.dial()
	for i := range 50 {
		path := fmt.Sprint("/p", i)
		require.True(t, ask(t, c, path, "POST", path, i).Duplicate)
	}
	ask(t, c, "asked", "GET", "/asked", nil)
	r := read(t, c, 0)
	for i := range 50 {
		require.Equal(t, 404, r.response(fmt.Sprint("/p", i)).Status)
	}
	var asked []string
	require.NoError(t, json.Unmarshal(r.response("asked").Body, &asked))
	require.Equal(t, append(want, "/asked 1"), asked)
	_, err := c.Stop(t.Context(), runner.Grace{})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	// So does the next process.
	b.mustStart()
	again := ask(t, b.dial(), "/p0", "POST", "/p0", 0)
	require.True(t, again.Duplicate)
	require.True(t, again.Gone)
}

func TestHTTPRequestsWaitUntilTheServerIsReady(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationAuto)
	fifo := filepath.Join(b.spec.Dir, "hold")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	b.spec.Argv = append(b.spec.Argv, "wait="+fifo, "refuse=3")
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	r.until(event.DirErr, "waiting")
	early := ask(t, c, "early", "POST", "/say", "early")
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for the reader
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, early.Offset, r.until(event.DirIn, "").Offset)
	r.until(event.DirErr, "server listening on")
	r.outs(`{"type":"connected"}`, `{"said":"early"}`, answered+`"early","status":204}`)
}

func TestHTTPEventsLostAndAgain(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	r.until(event.DirOut, `{"type":"connected"}`)
	ask(t, c, "m1", "POST", "/break?n=2", nil)
	r.until(event.DirSig, "events lost")
	ask(t, c, "m2", "POST", "/say", "back")
	require.Equal(t, "events again", r.until(event.DirSig, "").Record.Line)
	r.outs(`{"type":"connected"}`, `{"said":"back"}`, answered+`"m2","status":204}`)
}

func TestHTTPEventsOfEveryForm(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationAuto)
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	r.until(event.DirOut, `{"type":"connected"}`)
	ask(t, c, "m1", "POST", "/raw", "data: {\"a\":\rdata: 1}\r\n\r\n: noise\nid\ndata:two\ndata: \"words\"\n\nevent: none\n\ndata:x: y\n\ndata: torn")
	r.response("m1")
	ask(t, c, "m2", "POST", "/raw", "\n\n") // ends what was torn
	r.response("m2")
	_, err := c.Stop(t.Context(), runner.Grace{})
	require.NoError(t, err)
	var said []string
	for _, rec := range read(t, c, 0).end() {
		if rec.Dir == event.DirOut && !strings.HasPrefix(rec.Line, answered) {
			said = append(said, rec.Line)
		}
	}
	require.Equal(t, []string{`{"type":"connected"}`, `{"a":1}`, `{"type":"sojourn.text","text":"two\n\"words\""}`, "x: y", "torn"}, said)
}

func TestHTTPHugeEventAndResponse(t *testing.T) {
	skip.InShort(t, "TestA64MegabyteLinePasses has a huge line")
	t.Parallel()
	const size = 70 << 20
	b := setupHTTP(t, runner.IsolationAuto)
	b.spec.MaxLine = 2 * size
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	ask(t, c, "m1", "POST", fmt.Sprint("/big-event?n=", size), nil)
	require.Len(t, r.outs(`{"type":"big"`, answered+`"m1"`)[0], len(`{"type":"big","text":""}`)+size)
	ask(t, c, "m2", "GET", fmt.Sprint("/big?n=", size), nil)
	require.Len(t, r.response("m2").Body, len(`{"text":""}`)+size)
	ask(t, c, "m3", "POST", "/say", strings.Repeat("z", 8<<20))
	r.outs(`{"said":"zzz`, answered+`"m3","status":204}`)
}

func TestHTTPSlowServer(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationAuto)
	b.spec.HTTP.RequestTimeout = 10 * time.Second
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	ask(t, c, "m1", "GET", "/hang", nil)
	ask(t, c, "m2", "GET", "/text", nil)
	require.Equal(t, "no response within 10s", r.response("m1").Error)
	require.Equal(t, 200, r.response("m2").Status, "the next one's turn comes")
	ask(t, c, "m3", "POST", "/say", "still heard")
	r.until(event.DirOut, `{"said":"still heard"}`)
}

// A stop does not wait for the end of an input that the agent cannot notice, and
// queued inputs are dropped.
func TestHTTPStop(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode runner.IsolationMode) {
		b := setupHTTP(t, mode)
		b.mustStart()
		c := b.dial()
		fifo, up, gone := alive(t)
		ask(t, c, "m1", "POST", "/spawn", fifo)
		within(t, "child is up", up)
		ask(t, c, "m2", "GET", "/hang", nil)
		ask(t, c, "m3", "POST", "/say", "dropped")
		st, err := c.Stop(t.Context(), runner.Grace{Stdin: time.Hour, Term: time.Hour})
		require.NoError(t, err)
		require.Equal(t, "terminated", st.Signal)
		within(t, "child is dead", gone)
		records := read(t, c, 0).end()
		require.Equal(t, 1, count(records, event.DirIn, `{"body":"dropped"`))
		require.Zero(t, count(records, event.DirOut, `{"said"`))
		require.Equal(t, "signal terminated", records[len(records)-1].Line)
		_, err = c.Input(t.Context(), "m4", []byte("{}"))
		require.ErrorIs(t, err, runner.ErrExited)
	})
}

func TestHTTPStopOfAStubbornServer(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationAuto, "stubborn")
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	r.until(event.DirOut, `{"type":"connected"}`)
	st, err := c.Stop(t.Context(), runner.Grace{Stdin: time.Hour, Term: 10 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, "killed", st.Signal)
	r.until(event.DirSig, "signal killed")
}

func TestHTTPServerDiesWithTheSupervisor(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationRequire, "stubborn")
	st := b.mustStart()
	c := b.dial()
	fifo, up, gone := alive(t)
	ask(t, c, "m1", "POST", "/spawn", fifo)
	within(t, "child is up", up)
	kill(t, st.Supervisor)
	within(t, "child is dead", gone)
	within(t, "connection is gone", c.Done())
	again := b.mustStart()
	require.Equal(t, 1, again.RestartCount)
	c = b.dial()
	require.True(t, ask(t, c, "m1", "POST", "/spawn", fifo).Gone)
	r := read(t, c, again.StartOffset)
	ask(t, c, "m2", "GET", "/asked", nil)
	require.Equal(t, `["/asked 1"]`, string(r.response("m2").Body), "the new server was not asked again")
}

// A server that never reports ready is waited for, and its end is seen.
func TestHTTPServerThatNeverGetsReady(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationAuto)
	b.spec.HTTP.Ready = "something else "
	b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	r.until(event.DirErr, "server listening on")
	ask(t, c, "m1", "GET", "/asked", nil)
	require.NoError(t, c.Signal(t.Context(), syscall.SIGINT))
	r.until(event.DirIn, "")
	require.Equal(t, "signal interrupt", r.until(event.DirSig, "").Record.Line)
	require.Empty(t, r.end())
	st, err := c.Status(t.Context())
	require.NoError(t, err)
	require.Empty(t, st.Fault)
}

func TestHTTPServerElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://192.0.2.1:80":             "only loopback addresses are accepted",
		"http://127.0.0.1.example.com:80": "only loopback addresses are accepted",
		"http://0.0.0.0:80":               "only loopback addresses are accepted",
		"http://127.0.0.1@192.0.2.1:80":   "only loopback addresses are accepted",
		"https://127.0.0.1:443":           "want http://HOST:PORT",
		"127.0.0.1:80":                    "want http://HOST:PORT",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			b := setupHTTP(t, runner.IsolationAuto, "address="+address)
			b.mustStart()
			c := b.dial()
			read(t, c, 0).until(event.DirSig, "signal killed")
			st, err := c.Stop(t.Context(), runner.Grace{})
			require.NoError(t, err)
			require.Contains(t, st.Fault, want)
		})
	}
}

func TestHTTPPasswordIsNeededAndLiesNowhere(t *testing.T) {
	t.Parallel()
	b := setupHTTP(t, runner.IsolationNone, "tell")
	b.spec.Env = append(b.spec.Env, "SERVER_PASSWORD=mine")
	st := b.mustStart()
	c := b.dial()
	r := read(t, c, 0)
	require.Equal(t, "my password is [password]", r.until(event.DirErr, "my password").Record.Line)
	// Not before it spoke: until then the kernel may not have set its environment.
	environ, err := os.ReadFile(filepath.Join("/proc", itoa(st.Pid), "environ"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(environ), "SERVER_PASSWORD="), "the spec's own is replaced")
	_, password, found := strings.Cut(string(environ), "SERVER_PASSWORD=")
	require.True(t, found)
	password, _, _ = strings.Cut(password, "\x00")
	require.GreaterOrEqual(t, len(password), 20)
	ask(t, c, "m1", "GET", "/asked", nil)
	require.Equal(t, 200, r.response("m1").Status, "the server has seen the password")
	_, err = c.Stop(t.Context(), runner.Grace{})
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(b.spec.Control, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			raw, err := os.ReadFile(p)
			require.NoError(t, err)
			require.NotContains(t, string(raw), password, p)
		}
		return err
	}))
	// Without it the server sends its events to no one.
	without := setupHTTP(t, runner.IsolationNone)
	without.spec.HTTP.User = "somebody else"
	without.mustStart()
	wc := without.dial()
	wr := read(t, wc, 0)
	wr.until(event.DirErr, "server listening on")
	ask(t, wc, "m1", "GET", "/asked", nil)
	_, err = wc.Stop(t.Context(), runner.Grace{})
	require.NoError(t, err)
	require.Zero(t, count(read(t, wc, 0).end(), event.DirOut, ""))
}

func TestHTTPBadSpecsSayWhy(t *testing.T) {
	t.Parallel()
	good := runner.HTTPSpec{Ready: "up at ", Events: "/event"}
	for want, change := range map[string]func(*runner.HTTPSpec){
		`field "http.ready" is empty`:         func(h *runner.HTTPSpec) { h.Ready = " " },
		`field "http.events" is "event"`:      func(h *runner.HTTPSpec) { h.Events = "event" },
		`field "http.events" is "//x/event"`:  func(h *runner.HTTPSpec) { h.Events = "//x/event" },
		`field "http.passwordEnv" is "A=B"`:   func(h *runner.HTTPSpec) { h.PasswordEnv = "A=B" },
		`field "http.user" is "a:b"`:          func(h *runner.HTTPSpec) { h.User = "a:b" },
		`field "http.requestTimeout" is -1ns`: func(h *runner.HTTPSpec) { h.RequestTimeout = -1 },
		`while field "transport" is "http"`:   func(h *runner.HTTPSpec) { *h = runner.HTTPSpec{} },
		``:                                    func(*runner.HTTPSpec) {},
	} {
		spec := runner.StartSpec{Token: "t", Argv: []string{"a"}, Dir: "/", Control: "/c", Socket: "/s", Transport: runner.TransportHTTP, HTTP: good}
		change(&spec.HTTP)
		spec = spec.WithDefaults()
		if want == "" {
			require.NoError(t, spec.Validate())
			require.Equal(t, time.Minute, spec.HTTP.RequestTimeout)
			continue
		}
		require.ErrorContains(t, spec.Validate(), want)
	}
}
