package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// pacedProgram is the name under which this program acts as an agent; pipedArgument
// makes it the floor's agent instead.
const (
	pacedProgram  = "claude"
	pipedArgument = "piped"
)

// pacedMain is an agent that speaks Claude's protocol and prints clock readings. Its
// prompts are "PACE n d": n deltas, one every d. The text of each is the reading just
// before it is written; that of the first is the reading just after the prompt was
// read. It keeps its transcript as Claude does, since a turn ends when the answer is in it.
func pacedMain(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &paced{out: stdout, transcript: keptAt(args)}
	var err error
	if len(args) > 0 && args[0] == pipedArgument {
		err = pipedMain(args[1:], func(text string) error { return a.say("%s", text) })
	} else {
		err = a.serve(stdin)
	}
	if err != nil {
		fmt.Fprintf(stderr, "paced agent: %v\n", err)
		return 1
	}
	return 0
}

type paced struct {
	out     io.Writer
	session string
	// transcript is the file with the conversation; "" for none. last is its last line's id.
	transcript, last string
	// lines are those of stdin; it is closed at their end.
	lines chan arrived
}

// arrived is a line, and when it was read.
type arrived struct {
	data []byte
	came time.Duration
}

// keptAt returns where an agent's session is kept; "" for one that runs bare.
func keptAt(args []string) string {
	config := os.Getenv("CLAUDE_CONFIG_DIR")
	at := slices.IndexFunc(args, func(arg string) bool { return arg == "--session-id" || arg == "--resume" })
	if config == "" || at < 0 || at+1 == len(args) {
		return ""
	}
	return filepath.Join(config, "projects", "paced", args[at+1]+".jsonl")
}

// keep writes a message into the transcript.
func (a *paced) keep(kind, id, message string) error {
	if a.transcript == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(a.transcript), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(a.transcript, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	parent := "null"
	if a.last != "" {
		parent = strconv.Quote(a.last)
	}
	a.last = id
	_, err = fmt.Fprintf(f, `{"parentUuid":%s,"isSidechain":false,"type":%q,"message":%s,"uuid":%q,"timestamp":%q,"sessionId":%q}`+"\n",
		parent, kind, message, id, time.Now().UTC().Format(time.RFC3339Nano), a.session)
	return errors.Join(err, f.Close())
}

func (a *paced) serve(stdin io.Reader) error {
	a.lines = make(chan arrived)
	failed := make(chan error, 1)
	go func() {
		defer close(a.lines)
		in := bufio.NewReader(stdin)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				if err == io.EOF {
					err = nil
				}
				failed <- err
				return
			}
			a.lines <- arrived{line, monotonic()}
		}
	}()
	for line := range a.lines {
		if err := a.hear(line.data, line.came); err != nil {
			return err
		}
	}
	return <-failed
}

// pacedLine is what the agent reads of a line from the host.
type pacedLine struct {
	Type      string `json:"type"`
	RequestID string `json:"request_id"`
	Request   struct {
		Subtype string `json:"subtype"`
	} `json:"request"`
	UUID    string          `json:"uuid"`
	Session string          `json:"session_id"`
	Message json.RawMessage `json:"message"`
}

func (a *paced) hear(data []byte, came time.Duration) error {
	var l pacedLine
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	switch l.Type {
	case "control_request":
		return a.agree(l)
	case "user":
		a.session = l.Session
		n, pause, err := parsePace(l.Message)
		if err != nil {
			return err
		}
		return a.turn(l, came, n, pause)
	}
	return nil
}

// agree answers a request.
func (a *paced) agree(l pacedLine) error {
	return a.say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{}}}`, l.RequestID)
}

// interrupted answers what comes in the middle of a turn, and reports whether it interrupts it.
func (a *paced) interrupted(data []byte) (bool, error) {
	var l pacedLine
	if err := json.Unmarshal(data, &l); err != nil || l.Type != "control_request" {
		return false, err
	}
	return l.Request.Subtype == "interrupt", a.agree(l)
}

// pacedPrompt returns the line with a prompt.
func pacedPrompt(text string) string {
	return fmt.Sprintf(`{"type":"user","message":{"content":[{"type":"text","text":%q}]}}`, text) + "\n"
}

// parsePace parses a prompt.
func parsePace(raw json.RawMessage) (n int, pause time.Duration, err error) {
	var m struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return 0, 0, err
	}
	if len(m.Content) == 0 {
		return 0, 0, fmt.Errorf("prompt without text")
	}
	words := strings.Fields(m.Content[0].Text)
	if len(words) != 3 || words[0] != "PACE" {
		return 0, 0, fmt.Errorf("prompt %q is not PACE n d", m.Content[0].Text)
	}
	if n, err = strconv.Atoi(words[1]); err != nil {
		return 0, 0, err
	}
	pause, err = time.ParseDuration(words[2])
	return n, pause, err
}

// turn answers a prompt, line by line as the real agent does.
func (a *paced) turn(l pacedLine, came time.Duration, n int, pause time.Duration) error {
	id := "msg_" + uuid.NewString()
	whole := stamp(came)
	for _, line := range []string{
		`{"type":"system","subtype":"init","model":"paced"}`,
		`{"type":"system","subtype":"status","status":"requesting"}`,
		streamed(fmt.Sprintf(`{"type":"message_start","message":{"id":%q,"type":"message","role":"assistant","model":"paced","content":[]}}`, id)),
		streamed(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		deltaLine(whole),
		fmt.Sprintf(`{"type":"user","message":%s,"uuid":%q,"session_id":%q,"isReplay":true}`, l.Message, l.UUID, a.session),
	} {
		if err := a.say("%s", line); err != nil {
			return err
		}
	}
	if err := a.keep("user", l.UUID, string(l.Message)); err != nil {
		return err
	}
	tick := time.NewTicker(max(pause, time.Microsecond))
	defer tick.Stop()
	lines := a.lines
	for said := 0; said < n; {
		select {
		case line, more := <-lines:
			if !more {
				lines = nil // what was asked is answered
				continue
			}
			if stops, err := a.interrupted(line.data); stops || err != nil {
				return errors.Join(err, a.end(id, whole, `"is_error":true,"terminal_reason":"aborted_streaming"`))
			}
		case <-tick.C:
			now := stamp(monotonic())
			if err := a.say("%s", deltaLine(now)); err != nil {
				return err
			}
			whole += now
			said++
		}
	}
	return a.end(id, whole, `"is_error":false`)
}

func (a *paced) end(id, whole, how string) error {
	said := uuid.NewString()
	message := fmt.Sprintf(`{"id":%q,"type":"message","role":"assistant","model":"paced","content":[{"type":"text","text":%q}]}`, id, whole)
	if err := a.keep("assistant", said, message); err != nil {
		return err
	}
	for _, line := range []string{
		fmt.Sprintf(`{"type":"assistant","message":%s,"uuid":%q,"session_id":%q}`, message, said, a.session),
		streamed(`{"type":"content_block_stop","index":0}`),
		streamed(`{"type":"message_stop"}`),
		fmt.Sprintf(`{"type":"result","subtype":"success",%s,"result":%q,"stop_reason":"end_turn","session_id":%q,"total_cost_usd":0,"usage":{"input_tokens":1,"output_tokens":1}}`,
			how, "done", a.session),
		`{"type":"system","subtype":"session_state_changed","state":"idle"}`,
	} {
		if err := a.say("%s", line); err != nil {
			return err
		}
	}
	return nil
}

// say writes a line with one call, as agents do.
func (a *paced) say(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format+"\n", args...)
	return err
}

func streamed(event string) string {
	return `{"type":"stream_event","event":` + event + `,"parent_tool_use_id":null}`
}

func deltaLine(text string) string {
	return streamed(fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, text))
}

// stamp returns a clock reading as a word of text.
func stamp(at time.Duration) string { return strconv.FormatInt(int64(at), 10) + " " }

// readStamp returns the reading in a stamp.
func readStamp(text string) (time.Duration, error) {
	at, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the agent's text is no stamp: %w", err)
	}
	return time.Duration(at), nil
}
