package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// web is a client of a gateway that knows nothing but HTTP.
type web struct {
	*testing.T
	url, token string
}

// serve starts the program that offers sessions over HTTP, until the test ends.
func serve(t *testing.T, args ...string) web {
	t.Helper()
	w, stop := serveUntil(t, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	t.Cleanup(stop)
	return w
}

// serveUntil starts it and returns what stops it.
func serveUntil(t *testing.T, args ...string) (web, func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(shared.Bin, "sojourn"), append([]string{"serve", "--json"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), "TEMPORAL_NAMESPACE="+spaceOf(t).Namespace)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var at struct{ URL, Token string }
	require.NoError(t, json.NewDecoder(out).Decode(&at))
	return web{t, at.URL, at.Token}, func() {
		stop()
		_ = cmd.Wait() // it was stopped
		if t.Failed() {
			t.Logf("the gateway said:\n%s", &said)
		}
	}
}

// ask makes a request, decodes its answer into out, and returns its status.
func (w web) ask(method, path string, body, out any) int {
	w.Helper()
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		require.NoError(w, err)
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(testContext(w.T), method, w.url+path, in)
	require.NoError(w, err)
	req.Header.Set("Authorization", "Bearer "+w.token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(w, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(w, err)
	if res.StatusCode >= 500 {
		w.Logf("%s %s: %s", method, path, data)
	}
	if text, ok := out.(*string); ok {
		*text = string(data)
	} else if out != nil {
		require.NoError(w, json.Unmarshal(data, out), "%s %s: %s", method, path, data)
	}
	return res.StatusCode
}

type fields map[string]any

// httpProblem is the answer with an error.
type httpProblem struct {
	Error struct{ Code, Message, Field, Reason, Want string }
}

// A program that speaks HTTP alone creates sessions, talks to them, and puts them away.
func TestR118REST(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	w := serve(t)
	name := anyAgent(t)
	var made struct{ ID string }
	require.Equal(t, 201, w.ask("POST", "/sessions", fields{"agent": name, "title": "By HTTP", "metadata": fields{"team": "core"}}, &made))
	at := "/sessions/" + made.ID

	var res session.Result
	require.Equal(t, 200, w.ask("POST", at+"/messages?wait=true", fields{"id": "m1", "text": "SAY hello"}, &res))
	require.Equal(t, session.Completed, res.Outcome)
	require.Equal(t, "hello", res.Result.Response)
	var receipt, again session.Receipt
	require.Equal(t, 202, w.ask("POST", at+"/messages", fields{"id": "m2", "text": "TOOL write: kept.txt :: some text"}, &receipt))
	require.Equal(t, 202, w.ask("POST", at+"/messages", fields{"id": "m2", "text": "TOOL write: kept.txt :: some text"}, &again))
	require.Equal(t, receipt.ExecutionID, again.ExecutionID, "a repeated message is the first one")
	eventually(t, func(c *assert.CollectT) bool {
		return assert.Equal(c, 200, w.ask("GET", at+"/messages/m2", nil, &res)) && assert.Equal(c, session.Completed, res.Outcome)
	}, patience, tick)

	var shown struct {
		SessionID, Title string
		State            struct{ Blocks []event.Block }
		Inspection       *session.Inspection
		Open             bool
	}
	require.Equal(t, 200, w.ask("GET", at, nil, &shown))
	require.True(t, shown.Open)
	require.Equal(t, made.ID, shown.SessionID)
	require.Equal(t, "hello", *textBlock(t, shown.State.Blocks, "hello").Content)
	require.NotNil(t, shown.Inspection)
	require.Equal(t, 2, shown.Inspection.Turns)
	var state session.Inspection
	require.Equal(t, 200, w.ask("GET", at+"/state", nil, &state))
	require.Equal(t, made.ID, state.SessionID)
	var page session.Page
	eventually(t, func(c *assert.CollectT) bool {
		return assert.Equal(c, 200, w.ask("GET", "/sessions?limit=10", nil, &page)) && assert.Len(c, page.Sessions, 1)
	}, patience, tick)
	require.Equal(t, "By HTTP", page.Sessions[0].Title)

	var after session.Snapshot
	require.Equal(t, 200, w.ask("PATCH", at+"/options", fields{"title": "Renamed"}, &after))
	require.Equal(t, "Renamed", after.Title)
	var synced struct{ Archived bool }
	require.Equal(t, 200, w.ask("POST", at+"/sync", nil, &synced))
	require.True(t, synced.Archived)
	require.NotNil(t, shown.Inspection.Sandbox)
	require.Equal(t, 204, w.ask("POST", at+"/environment/terminate", nil, nil))
	eventually(t, func(c *assert.CollectT) bool {
		shown.Inspection = nil
		return assert.Equal(c, 200, w.ask("GET", at, nil, &shown)) && assert.NotNil(c, shown.Inspection) && assert.Nil(c, shown.Inspection.Sandbox)
	}, patience, tick)
	var files struct{ Files []struct{ Path string } }
	require.Equal(t, 200, w.ask("GET", at+"/files", nil, &files))
	require.Contains(t, files.Files, struct{ Path string }{"kept.txt"})
	var text string
	require.Equal(t, 200, w.ask("GET", at+"/files/kept.txt", nil, &text))
	require.Contains(t, text, "some text")
	require.Equal(t, 404, w.ask("GET", at+"/files/none", nil, nil))

	var fork struct{ ID string }
	require.Equal(t, 201, w.ask("POST", at+"/fork", fields{"at": textBlock(t, shown.State.Blocks, "hello").ID}, &fork))
	require.Equal(t, 200, w.ask("GET", "/sessions/"+fork.ID, nil, &shown))
	require.Equal(t, "Renamed (fork)", shown.Title)
	require.Equal(t, 200, w.ask("POST", at+"/interrupt", fields{"reason": "enough"}, nil))
	require.Equal(t, 204, w.ask("POST", at+"/close", nil, nil))
	require.Equal(t, 200, w.ask("POST", at+"/sync", nil, &synced), "a closed session is archived")
	require.Equal(t, 200, w.ask("GET", at, nil, &shown))
	require.False(t, shown.Open)
	require.Equal(t, 200, w.ask("PATCH", at+"/options", fields{"title": "Filed", "tags": []string{"done"}}, &after))
	require.Equal(t, "Filed", after.Title, "of a closed session too")

	var no httpProblem
	for _, bad := range []struct {
		method, path string
		body         any
		status       int
		code, about  string
	}{
		{"POST", "/sessions", fields{"agent": "nobody"}, 400, "invalid", "agent"},
		{"POST", "/sessions", fields{"agnet": name}, 400, "invalid", "agnet"},
		{"POST", "/sessions", fields{"agent": name, "id": made.ID}, 409, "exists", made.ID},
		{"GET", "/sessions/unknown", nil, 404, "not_found", "unknown"},
		{"GET", "/sessions?limit=many", nil, 400, "invalid", "limit"},
		{"GET", "/sessions?query=garbage", nil, 400, "invalid", "query"},
		{"POST", at + "/respond", fields{"requestId": "r"}, 400, "invalid", "allow"},
		{"GET", "/nothing", nil, 404, "not_found", "/nothing"},
		{"PUT", at, nil, 404, "not_found", "PUT"},
		{"POST", at + "/messages", fields{"text": "SAY x"}, 409, "closed", made.ID},
		{"POST", at + "/messages", fields{"text": ""}, 400, "invalid", ""},
		{"PATCH", at + "/options", fields{"permission": "deny"}, 409, "closed", ""},
		{"POST", "/sessions/merge", fields{"ids": []string{made.ID}}, 400, "invalid", "ids"},
	} {
		require.Equal(t, bad.status, w.ask(bad.method, bad.path, bad.body, &no), "%s %s %v", bad.method, bad.path, bad.body)
		require.Equal(t, bad.code, no.Error.Code, "%s %s", bad.method, bad.path)
		require.Contains(t, no.Error.Message, bad.about)
	}
	require.Equal(t, 401, web{t, w.url, "wrong"}.ask("GET", at, nil, &no))

	require.Equal(t, 200, w.ask("POST", at+"/open", nil, nil))
	require.Equal(t, 200, w.ask("POST", at+"/messages?wait=true", fields{"text": "RECALL"}, &res))
	require.Contains(t, res.Result.Response, "SAY hello")
	require.Equal(t, 204, w.ask("DELETE", at, nil, nil))
	require.Equal(t, 404, w.ask("GET", at, nil, &no))
}

// visit opens a WebSocket.
func (w web) visit(query string, headers http.Header) (*websocket.Conn, *http.Response, error) {
	w.Helper()
	conn, res, err := websocket.Dial(testContext(w.T), strings.Replace(w.url, "http", "ws", 1)+"/ws"+query, &websocket.DialOptions{HTTPHeader: headers})
	if err == nil {
		conn.SetReadLimit(1 << 24)
		w.Cleanup(func() { _ = conn.CloseNow() }) // it may be closed already
	}
	return conn, res, err
}

// heardIn is what comes of a room.
type heardIn struct {
	Room  string
	Event *struct {
		Type    string
		Payload json.RawMessage
		Context struct {
			SessionID string
			Seq       uint64
		}
	}
	Left  bool
	Error *struct{ Code string }
}

// until reads what comes until is accepts it, and returns all.
func until(t *testing.T, conn *websocket.Conn, is func(heardIn) bool) (all []heardIn) {
	t.Helper()
	for {
		var m heardIn
		require.NoError(t, wsjson.Read(testContext(t), conn, &m))
		if all = append(all, m); is(m) {
			return all
		}
	}
}

func isType(room, name string) func(heardIn) bool {
	return func(m heardIn) bool { return m.Room == room && m.Event != nil && m.Event.Type == name }
}

// Each session is a room, whose visitors have its events from any number on, with the names of the
// stream or of an older system, and nobody else's.
func TestR119WebSocketRooms(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	w := serve(t)
	ctx := testContext(t)
	name := anyAgent(t)
	a, b := open(t, session.Options{Agent: name}), open(t, session.Options{Agent: name})
	require.NoError(t, say(t, a, "SAY before").Err())

	conn, _, err := w.visit("", http.Header{"Authorization": {"Bearer " + w.token}})
	require.NoError(t, err)
	say2 := func(v any) { require.NoError(t, wsjson.Write(ctx, conn, v)) }
	say2(fields{"join": a.ID()})
	first := until(t, conn, isType(a.ID(), "query:completed"))
	for i, m := range first {
		require.Equal(t, a.ID(), m.Room)
		require.EqualValues(t, i+1, m.Event.Context.Seq, "all of it, in order")
	}
	last := first[len(first)-1].Event.Context.Seq
	require.NoError(t, say(t, b, "SAY elsewhere").Err())
	require.NoError(t, say(t, a, "SAY live").Err())
	live := until(t, conn, isType(a.ID(), "query:completed"))
	require.Contains(t, string(jsonText(t, live)), "live")
	for _, m := range live {
		require.Equal(t, a.ID(), m.Room, "of a room that nobody entered comes nothing")
	}

	// What is shown is continued by its room.
	var shown struct {
		LastSeq uint64
		State   struct{ Blocks []event.Block }
	}
	require.Equal(t, 200, w.ask("GET", "/sessions/"+a.ID(), nil, &shown))
	require.GreaterOrEqual(t, shown.LastSeq, live[len(live)-1].Event.Context.Seq)

	// From a number on, under older names, in a second room.
	say2(fields{"leave": a.ID()})
	say2(fields{"join": a.ID(), "after": last, "names": "v2"})
	say2(fields{"join": b.ID(), "names": "v3"})
	seen := map[string]bool{}
	until(t, conn, func(m heardIn) bool {
		require.NotNil(t, m.Event, "%+v", m)
		if m.Room == a.ID() {
			require.Greater(t, m.Event.Context.Seq, last)
		}
		seen[m.Room+" "+m.Event.Type] = true
		return seen[a.ID()+" query:completed"] && seen[b.ID()+" execution_end"]
	})
	require.True(t, seen[a.ID()+" session:block:start"])
	require.True(t, seen[b.ID()+" content_start"])

	// The lists' room, and the end of a session.
	say2(fields{"join": "*"})
	say2(fields{"join": "no-such-session"})
	failed := until(t, conn, func(m heardIn) bool { return m.Error != nil })
	require.Equal(t, "not_found", failed[len(failed)-1].Error.Code)
	require.NoError(t, a.Close(ctx))
	changed, left := false, false
	until(t, conn, func(m heardIn) bool {
		changed = changed || isType("*", "sessions:changed")(m) && m.Event.Context.SessionID == a.ID()
		left = left || m.Room == a.ID() && m.Left
		return changed && left
	})
	for _, bad := range []any{fields{"join": a.ID(), "names": "v9"}, fields{}, fields{"join": "a b"}, 7} {
		say2(bad)
		failed := until(t, conn, func(m heardIn) bool { return m.Error != nil })
		require.Equal(t, "invalid", failed[len(failed)-1].Error.Code, "%v", bad)
	}

	// A browser can't set the header; a page of another host is refused.
	_, _, err = w.visit("?access_token="+w.token, http.Header{"Origin": {w.url}})
	require.NoError(t, err)
	_, res, err := w.visit("?access_token="+w.token, http.Header{"Origin": {"http://evil.example"}})
	require.Error(t, err)
	require.Equal(t, 403, res.StatusCode)
	_, res, err = w.visit("", nil)
	require.Error(t, err)
	require.Equal(t, 401, res.StatusCode)
}

// A web page of a host that is named may make requests, and read their answers and errors; others may not.
func TestPagesOfNamedHosts(t *testing.T) {
	inOwnNamespace(t)
	w := serve(t, "--origin", "*.example.com", "--origin", "https://app.example.org")
	request := func(method, origin, token string) http.Header {
		req, err := http.NewRequestWithContext(testContext(t), method, w.url+"/sessions", nil)
		require.NoError(t, err)
		req.Header.Set("Origin", origin)
		if method == http.MethodOptions {
			req.Header.Set("Access-Control-Request-Method", "PATCH")
			req.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.Header
	}
	for origin, allowed := range map[string]bool{
		"http://a.example.com": true, "https://A.Example.com": true, "https://app.example.org": true,
		"http://app.example.org": false, "https://example.com.evil.net": false, "null": false,
	} {
		want := ""
		if allowed {
			want = origin
		}
		require.Equal(t, want, request("GET", origin, w.token).Get("Access-Control-Allow-Origin"), origin)
		require.Equal(t, want, request("GET", origin, "wrong").Get("Access-Control-Allow-Origin"), "a page may read why it was refused")
		require.Equal(t, want, request("OPTIONS", origin, "").Get("Access-Control-Allow-Origin"), "it is asked before there is a token")
		require.Equal(t, allowed, request("OPTIONS", origin, "").Get("Access-Control-Allow-Methods") != "", origin)
		_, res, err := w.visit("?access_token="+w.token, http.Header{"Origin": {origin}})
		if allowed {
			require.NoError(t, err)
		} else {
			require.Equal(t, 403, res.StatusCode, "%v", err)
		}
	}
}

func jsonText(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}
