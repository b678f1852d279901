package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/clients"
	"github.com/sojourn-run/sojourn/test/skip"
)

// page is a page of ours in a browser.
type page struct {
	*testing.T
	in  io.Writer
	out *json.Decoder
}

// visitPage opens a page.
func visitPage(t *testing.T, url string) page {
	t.Helper()
	requireBrowser(t)
	ctx, kill := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, "node", filepath.Join("..", "webui", "drive.mjs"), "page", url)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // it ends then, or else is ended
		defer time.AfterFunc(patience, kill).Stop()
		if err := cmd.Wait(); err != nil || said.Len() > 0 {
			t.Errorf("the page: %v: %s", err, &said)
		}
	})
	return page{t, in, json.NewDecoder(out)}
}

// do has the browser do something, as test/webui/drive.mjs knows it, and returns what that says.
func (p page) do(action string, args ...string) (is []string) {
	p.Helper()
	p.Logf("%s %q", action, args)
	require.NoError(p, json.NewEncoder(p.in).Encode(map[string][]string{action: args}))
	var answer struct{ Is []string }
	require.NoError(p, p.out.Decode(&answer), "%s %q", action, args)
	return answer.Is
}

// A page with the hooks shows the list of sessions, and of one its conversation, state, requests,
// files, subagents, log and events as they happen; a person works with it there. It misses nothing while
// its gateway is away.
func TestR128ClientLibrary(t *testing.T) {
	skip.InShort(t, "TestR119WebSocketRooms has the gateway; a browser and npm's packages are needed for more")
	example := filepath.Join(clients.TypeScript(t), "example")
	withClaude(t)
	inOwnNamespace(t)
	startWorker(t)
	pages := httptest.NewServer(http.FileServer(http.Dir(example)))
	t.Cleanup(pages.Close)
	origin := strings.TrimPrefix(pages.URL, "http://")
	w, stop := serveUntil(t, "--listen", "127.0.0.1:0", "--origin", origin)
	t.Cleanup(func() { stop() })
	address := pages.URL + "/#" + url.Values{"url": {w.url}, "token": {w.token}}.Encode()
	p := visitPage(t, address)

	// A session that is begun elsewhere is listed without being asked for.
	p.do("see", "h1", "Sojourn")
	first := open(t, session.Options{Title: "Begun elsewhere"})
	p.do("see", ".sessions li", "Begun elsewhere")

	// A request is answered on the page, and the file is there.
	p.do("choose", "agent", "claude")
	p.do("click", "New session")
	p.do("see", ".status", "idle")
	p.do("say", "message", "TOOL write: notes.txt :: some words THEN SAY it is written")
	p.do("see", ".status", "waiting")
	p.do("see", ".ask", "notes.txt")
	p.do("click", "Allow")
	p.do("see", ".block.assistant_text", "it is written")
	p.do("see", "[aria-label=files] li", "notes.txt 11 bytes")
	p.do("miss", ".ask", "")
	p.do("see", ".status", "idle")
	p.do("see", ".sessions li", "1 turns")

	// A subagent has its own conversation.
	p.do("say", "message", "SUBAGENT SAY looked around")
	p.do("see", "[aria-label=subagents] li", "success")
	p.do("see", ".block.subagent", "looked around")
	p.do("see", ".block.assistant_text", "FINAL after 1 tool result(s): looked around")
	p.do("see", "[aria-label=events]", "the last is")
	p.do("see", "[aria-label=log] li", "")
	p.do("see", ".status", "idle")
	out := picture(t, "web-client.png")
	p.do("picture", out)
	requirePicture(t, out)

	// What is said while the gateway is away comes when it is there again, once.
	h := newest(t, first.ID())
	stop()
	require.NoError(t, say(t, h, "SAY said meanwhile").Err())
	again, stopAgain := serveUntil(t, "--listen", strings.TrimPrefix(w.url, "http://"), "--origin", origin, "--token-file", tokenFile(t, w.token))
	stop = stopAgain
	require.Equal(t, w.url, again.url)
	p.do("see", ".block.assistant_text", "said meanwhile")
	p.do("say", "message", "SLOW 60")
	p.do("see", ".block.assistant_text", "tick0")
	p.do("click", "Stop")
	p.do("see", ".block.system", "interrupted")
	p.do("see", ".status", "idle")
	require.Equal(t, shownTexts(t, h.ID()), p.do("texts", ".block.assistant_text, .block.user_message"), "the page has what show has")

	// Closed, the archive has it; it is opened again on the page.
	p.do("click", "Close")
	p.do("see", ".status", "closed")
	require.Equal(t, shownTexts(t, h.ID()), p.do("texts", ".block.assistant_text, .block.user_message"))
	p.do("click", "Open again")
	p.do("say", "message", "SAY back again")
	p.do("see", ".block.assistant_text", "back again")

	// Another session is another conversation; what it can't do is said.
	p.do("follow", ".sessions li", "Begun elsewhere")
	p.do("see", "header h1", "Begun elsewhere")
	require.Empty(t, p.do("texts", ".block"))
	require.NoError(t, first.Close(testContext(t)))
	p.do("see", ".status", "closed")

	wrong := visitPage(t, pages.URL+"/#"+url.Values{"url": {w.url}, "token": {"wrong"}}.Encode())
	wrong.do("see", "[role=alert]", "the request has no valid token")
}

// newest returns the session that is not the other one.
func newest(t *testing.T, other string) *session.Handle {
	t.Helper()
	list, err := spaceOf(t).Client.List(testContext(t), session.ListOptions{})
	require.NoError(t, err)
	for _, s := range list.Sessions {
		if s.SessionID != other {
			h, err := spaceOf(t).Client.Get(testContext(t), s.SessionID)
			require.NoError(t, err)
			return h
		}
	}
	require.Fail(t, "there is no other session")
	return nil
}

func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte(token), 0o600))
	return path
}

// shownTexts returns the texts of a conversation, as show has them.
func shownTexts(t *testing.T, id string) (texts []string) {
	t.Helper()
	c, err := spaceOf(t).Client.Show(testContext(t), id, session.FromAuto)
	require.NoError(t, err)
	for _, b := range c.State.Blocks {
		if b.Type.HasText() && b.Type != "thinking" {
			texts = append(texts, *b.Content)
		}
	}
	require.NotEmpty(t, texts, fmt.Sprint(c.State.Blocks))
	return texts
}
