package starter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// A message that is refused before it is sent makes a piped chat fail, and the
// lines behind it are read all the same.
func TestPipedChatTellsOfARefusedMessage(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	c := &cli{stdin: strings.NewReader("not \xff text\n\n" + strings.Repeat("x", session.MaxMessageBytes) + "\n"), stdout: &out, stderr: &errs}
	talk := c.newTalk(nil, "")
	go talk.readLines(t.Context())
	require.ErrorIs(t, talk.loop(t.Context(), make(chan os.Signal)), errReported)
	require.Contains(t, errs.String(), "message.text: is not UTF-8")
	require.Contains(t, errs.String(), "message: is ")
}

// A failure is not undone by later successes.
func TestPipedChatRemembersAFailure(t *testing.T) {
	t.Parallel()
	ended := func(id string) event.Query { return event.Query{ExecutionID: "x" + id, MessageIDs: []string{id}} }
	for name, c := range map[string]struct {
		first event.Payload
		want  error
	}{
		"failed":      {event.QueryFailed{Query: ended("m1")}, errReported},
		"interrupted": {event.QueryInterrupted{Query: ended("m1")}, errReported},
		"completed":   {event.QueryCompleted{Query: ended("m1")}, nil},
	} {
		var out, errs bytes.Buffer
		talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}).newTalk(nil, "")
		talk.ours["m1"], talk.ours["m2"] = true, true
		talk.note(event.Event{Payload: c.first})
		talk.note(event.Event{Payload: event.QueryCompleted{Query: ended("m2")}})
		close(talk.lines)
		require.Equal(t, c.want, talk.loop(t.Context(), make(chan os.Signal)), name)
	}
}

// A closed session ends a chat, which succeeds only if it had said all and has the answers.
func TestAClosedSessionFailsAChat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ended      bool
		unanswered map[string]bool
		want       error
	}{
		"there is more to say": {false, map[string]bool{}, session.ErrClosed},
		"no answer":            {true, map[string]bool{"m1": true}, session.ErrClosed},
		"all is answered":      {true, map[string]bool{}, nil},
	} {
		talk := (&cli{stdin: strings.NewReader("")}).newTalk(&session.Handle{}, "")
		talk.ended, talk.ours = c.ended, c.unanswered
		close(talk.events)
		require.ErrorIs(t, talk.loop(t.Context(), make(chan os.Signal)), c.want, name)
	}
}

// A chat that is left before an answer fails, unless a person left it.
func TestALeftChatFails(t *testing.T) {
	t.Parallel()
	for _, tty := range []bool{false, true} {
		var out, errs bytes.Buffer
		talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}).newTalk(&session.Handle{}, "")
		talk.tty = tty
		talk.ours["m1"] = true
		signals := make(chan os.Signal, 1)
		signals <- syscall.SIGTERM
		err := talk.loop(t.Context(), signals)
		require.Equal(t, tty, err == nil)
		if !tty {
			require.Equal(t, exitFailed, talk.c.report(err, false))
			require.Contains(t, errs.String(), "before its answer")
		}
	}
}

// An answer is for the request that is shown: of several, the next is shown when
// the one before it is answered.
func TestChatShowsTheRequestThatItAnswers(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}).newTalk(nil, "")
	asks := func(id, command string) event.Event {
		return event.Event{Payload: event.PermissionRequested{RequestID: id, ToolName: "Bash", Input: json.RawMessage(`{"command":"` + command + `"}`)}}
	}
	for id, command := range map[string]string{"r1": "first", "r2": "second"} {
		require.NoError(t, talk.event(received{event: asks(id, command)}, true))
	}
	shown := map[string]string{"r1": "command: first", "r2": "command: second"}
	now := talk.firstAsk().request
	next := map[string]string{"r1": "r2", "r2": "r1"}[now]
	require.Contains(t, out.String(), shown[now])
	require.NotContains(t, out.String(), shown[next])
	require.NoError(t, talk.event(received{event: event.Event{Payload: event.PermissionResolved{RequestID: now, Decision: "allow"}}}, true))
	require.Contains(t, out.String(), shown[next])
	require.Equal(t, 1, strings.Count(out.String(), shown[now]))
}

// A request whose answer did not arrive is shown again and answered by the next line, unless
// it was answered elsewhere or the session refused the answer.
func TestChatAsksAgainWhatWasNotAnswered(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("respond: %w", session.ErrUnavailable)
	for name, c := range map[string]struct {
		err      error
		resolved bool
		open     int
	}{
		"unavailable": {away, false, 2}, "answered elsewhere": {away, true, 1}, "answered": {nil, false, 1},
		"refused": {session.Invalid("requestId", "is not open", "one of r2"), false, 1},
	} {
		var out, errs bytes.Buffer
		talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}).newTalk(nil, "")
		for _, id := range []string{"r1", "r2"} {
			talk.note(event.Event{Payload: event.PermissionRequested{RequestID: id, ToolName: "Bash", Input: json.RawMessage(`{"command":"` + id + `"}`)}})
		}
		talk.deciding, talk.asks = &talk.asks[0], talk.asks[1:]
		require.NoError(t, talk.showAsk())
		if c.resolved {
			talk.note(event.Event{Payload: event.PermissionResolved{RequestID: "r1", Decision: "allow"}})
		}
		require.NoError(t, talk.answered(t.Context(), answer{err: c.err}), name)
		require.Len(t, talk.asks, c.open, name)
		if c.open == 2 {
			require.Equal(t, "r1", talk.firstAsk().request, name)
			require.Greater(t, strings.LastIndex(out.String(), "command: r1"), strings.LastIndex(out.String(), "command: r2"), "the request that is answered was shown last")
		}
	}
}

// While a request is unanswered, commands are obeyed at once, and other lines wait for
// their turn.
func TestChatObeysCommandsWhileARequestIsUnanswered(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}).newTalk(nil, "")
	talk.tty = true
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	talk.ask(func() answer { <-never; return answer{} })
	go func() {
		for _, line := range []string{"one", "two", "/interrupt", "/quit"} {
			talk.lines <- line
		}
	}()
	require.NoError(t, talk.loop(t.Context(), make(chan os.Signal)))
	require.True(t, talk.stopNext, "the interrupt follows the request")
	require.Equal(t, "sojourn: the session has not answered the last request; it may still obey it\n"+
		"sojourn: not sent: one\nsojourn: not sent: two\n", errs.String())
}

// Lines that waited are sent in their order, before those typed after them.
func TestChatSendsHeldLinesInOrder(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}).newTalk(nil, "")
	talk.tty, talk.asking = true, true
	long := strings.Repeat("x", session.MaxMessageBytes)
	for _, line := range []string{"\xff one", long} {
		require.NoError(t, talk.line(t.Context(), line))
	}
	require.Empty(t, errs.String())
	talk.asking = false // both are refused before they are sent, so nothing is asked
	for range 2 {
		require.NoError(t, talk.step(t.Context(), make(chan os.Signal)))
	}
	first, second, _ := strings.Cut(errs.String(), "is not UTF-8")
	require.NotContains(t, first, "message: is ")
	require.Contains(t, second, "message: is ")
	require.Empty(t, talk.held)
}

// A line that waited answers only the request that was shown when it was typed.
func TestChatDoesNotAnswerAnotherRequestWithAHeldLine(t *testing.T) {
	t.Parallel()
	asks := func(id string) event.Event {
		return event.Event{Payload: event.PermissionRequested{RequestID: id, ToolName: "Bash", Input: json.RawMessage(`{"command":"` + id + `"}`)}}
	}
	away := fmt.Errorf("respond: %w", session.ErrUnavailable)
	for name, c := range map[string]struct {
		typed    string
		open     []string // when the line is typed; the first one is shown
		deciding string   // the request whose answer is in progress
		arrives  string   // a request that arrives after the line
		resolved string   // a request that is answered elsewhere after the line
		err      error    // the result of the request in progress
		shown    string   // what is shown at the end, "" for no request
	}{
		"the answer before it failed":     {"y", []string{"r2"}, "r1", "", "", away, "r1"},
		"a message, then a request":       {"yes please", nil, "", "r1", "", nil, "r1"},
		"an answer, answered elsewhere":   {"y", []string{"r1"}, "", "", "r1", nil, ""},
		"an answer, and the next request": {"y", []string{"r1", "r2"}, "", "", "r1", nil, "r2"},
	} {
		var out, errs bytes.Buffer
		talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}).newTalk(nil, "")
		talk.tty, talk.asking = true, true
		for _, id := range c.open {
			require.NoError(t, talk.event(received{event: asks(id)}, true))
		}
		if c.deciding != "" {
			talk.deciding = new(asks(c.deciding))
		}
		require.NoError(t, talk.line(t.Context(), c.typed))
		if c.arrives != "" {
			require.NoError(t, talk.event(received{event: asks(c.arrives)}, true))
		}
		if c.resolved != "" {
			resolved := event.Event{Payload: event.PermissionResolved{RequestID: c.resolved, Decision: "deny"}}
			require.NoError(t, talk.event(received{event: resolved}, true))
		}
		require.NoError(t, talk.answered(t.Context(), answer{err: c.err}))
		out.Reset()
		require.NoError(t, talk.step(t.Context(), make(chan os.Signal)), name)
		require.Nil(t, talk.deciding, name)
		require.False(t, talk.asking, name)
		require.Contains(t, errs.String(), "sojourn: not sent: "+c.typed+"\n", name)
		require.Empty(t, talk.held, name)
		if c.shown != "" {
			require.Equal(t, c.shown, talk.firstAsk().request, name)
			require.Contains(t, out.String(), "command: "+c.shown, name)
		}
	}
}

// A line that waited for another answer is the answer to the request it was typed for.
func TestChatAnswersWithAHeldLineWhatItWasTypedFor(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}).newTalk(nil, "")
	talk.tty, talk.asking = true, true
	require.NoError(t, talk.event(received{event: event.Event{Payload: event.PermissionRequested{RequestID: "r1", ToolName: "Bash"}}}, true))
	require.NoError(t, talk.line(t.Context(), "maybe")) // is refused before it is sent
	require.NoError(t, talk.answered(t.Context(), answer{}))
	require.NoError(t, talk.step(t.Context(), make(chan os.Signal)))
	require.Contains(t, errs.String(), "the agent waits for y or n")
}

// The requests of a turn end with it, answered or not: those of a lost host never get an
// answer. A line after that is a message. A parked turn has not ended.
func TestChatForgetsTheRequestsOfATurnThatEnded(t *testing.T) {
	t.Parallel()
	q := event.Query{ExecutionID: "x1"}
	for name, c := range map[string]struct {
		then     event.Payload
		deciding bool
		err      error
		message  bool
	}{
		"completed":                    {event.QueryCompleted{Query: q}, false, nil, true},
		"failed":                       {event.QueryFailed{Query: q}, false, nil, true},
		"interrupted":                  {event.QueryInterrupted{Query: q}, false, nil, true},
		"ended while an answer failed": {event.QueryFailed{Query: q}, true, session.ErrUnavailable, true},
		"parked":                       {event.Status{State: "waiting"}, false, nil, false},
	} {
		var out, errs bytes.Buffer
		talk := (&cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}).newTalk(nil, "")
		talk.note(event.Event{Payload: event.QueryStarted{Query: q}})
		for _, id := range []string{"r1", "r2"} {
			talk.note(event.Event{Payload: event.PermissionRequested{RequestID: id, ToolName: "Bash"}})
		}
		if c.deciding {
			talk.deciding, talk.asks, talk.asking = &talk.asks[0], talk.asks[1:], true
		}
		talk.note(event.Event{Payload: c.then})
		require.NoError(t, talk.answered(t.Context(), answer{err: c.err}), name)
		errs.Reset()
		require.NoError(t, talk.line(t.Context(), "a message that is \xff refused"), name)
		if c.message {
			require.Contains(t, errs.String(), "message.text: is not UTF-8", name)
			continue
		}
		require.Contains(t, errs.String(), "the agent waits for y or n", name)
	}
}

// A line "-" is a message like any other: the input is the conversation, not one message.
func TestChatSendsADash(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	c := &cli{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	c.wholeStdin = func() ([]byte, error) {
		t.Error("the rest of the input was read as the message")
		return []byte("y"), nil
	}
	talk := c.newTalk(nil, "refuses every message")
	require.NoError(t, talk.line(t.Context(), "-"))
	require.Contains(t, errs.String(), "message.whenBusy")
}
