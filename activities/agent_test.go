package activities

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// stdinLog is the file in which the agent logs every line of its stdin.
const stdinLog = "stdin.log"

// unwritten is a file whose presence makes the agent hang before it persists its prompt.
const unwritten = "unwritten"

// stillborn is a file whose presence makes the agent exit at once.
const stillborn = "stillborn"

// script is an agent with Claude's stream-json protocol that runs the commands in its
// prompt:
//
//	words N   says N numbered words, a moment apart
//	tool      calls a tool
//	begin     calls a tool that never ends
//	bill      reports what its model call used
//	ask       asks for permission and waits for the answer
//	hang      does nothing until it is interrupted
//	deaf      ignores interrupts and SIGTERM from now on
//	gate      waits until the test opens its gate
//	die       exits, before its last text is in its transcript; "gate die": then
type script struct {
	session, home string
	in            chan line
	log           *os.File
	transcript    *os.File
	count, turns  int
	index         int
	message, said string
	deaf          bool
}

type line struct {
	Type      string `json:"type"`
	UUID      string `json:"uuid"`
	RequestID string `json:"request_id"`
	Request   struct {
		Subtype string `json:"subtype"`
	} `json:"request"`
	Response struct {
		RequestID string          `json:"request_id"`
		Response  json.RawMessage `json:"response"`
	} `json:"response"`
	Message struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"message"`
}

func fakeClaude() int {
	s := &script{home: os.Getenv("HOME"), in: make(chan line, 1000)}
	for i, arg := range os.Args {
		if arg == "--session-id" || arg == "--resume" {
			s.session = os.Args[i+1]
		}
	}
	if err := s.open(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := os.Stat(filepath.Join(s.home, stillborn)); err == nil {
		return 3
	}
	go s.listen()
	for l := range s.in {
		switch l.Type {
		case "control_request":
			s.control(l)
		case "user":
			s.turn(l)
		}
	}
	return 0
}

func (s *script) open() (err error) {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	slug := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, dir)
	folder := filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "projects", slug)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	const grow = os.O_CREATE | os.O_APPEND | os.O_WRONLY
	if s.transcript, err = os.OpenFile(filepath.Join(folder, s.session+".jsonl"), grow, 0o600); err != nil {
		return err
	}
	s.log, err = os.OpenFile(filepath.Join(s.home, stdinLog), grow, 0o600)
	return err
}

func (s *script) listen() {
	defer close(s.in)
	lines := bufio.NewReader(os.Stdin)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		_, _ = s.log.Write(text)
		var l line
		if json.Unmarshal(text, &l) == nil {
			s.in <- l
		}
	}
}

func (s *script) say(v map[string]any) {
	v["session_id"] = s.session
	if v["uuid"] == nil {
		v["uuid"] = uuid.NewString()
	}
	out, _ := json.Marshal(v)
	_, _ = os.Stdout.Write(append(out, '\n'))
}

func (s *script) stream(ev map[string]any) {
	s.say(map[string]any{"type": "stream_event", "event": ev, "parent_tool_use_id": nil})
}

// keep writes a line to the transcript.
func (s *script) keep(kind, id string, message map[string]any) {
	out, _ := json.Marshal(map[string]any{
		"type": kind, "uuid": id, "sessionId": s.session, "timestamp": time.Now().UTC(), "message": message,
	})
	_, _ = s.transcript.Write(append(out, '\n'))
}

func (s *script) control(l line) {
	s.say(map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "success", "request_id": l.RequestID, "response": map[string]any{},
	}})
}

func (s *script) turn(l line) {
	s.turns++
	s.message, s.index, s.said = fmt.Sprintf("msg_%s_%d", s.session[:8], s.turns), 0, ""
	prompt := l.Message.Content[0].Text
	user := map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": prompt}}}
	if _, err := os.Stat(filepath.Join(s.home, unwritten)); err == nil {
		// Its stdin is closed a moment before it is killed with its runner.
		for range s.in {
		}
		os.Exit(3)
	}
	s.keep("user", l.UUID, user)
	s.say(map[string]any{"type": "system", "subtype": "init", "model": "scripted"})
	s.say(map[string]any{"type": "system", "subtype": "status", "status": "requesting"})
	s.say(map[string]any{"type": "user", "uuid": l.UUID, "message": user, "isReplay": true})
	s.stream(map[string]any{"type": "message_start", "message": map[string]any{"id": s.message, "model": "scripted", "content": []any{}}})
	interrupted := s.play(strings.Fields(prompt))
	s.stream(map[string]any{"type": "message_stop"})
	reason := "completed"
	if interrupted {
		reason = "aborted_streaming"
	}
	s.say(map[string]any{
		"type": "result", "subtype": "success", "is_error": false, "result": s.said, "stop_reason": "end_turn", "terminal_reason": reason,
		"total_cost_usd": 0.001 * float64(s.turns), "usage": map[string]any{"input_tokens": 100, "output_tokens": 10},
	})
	s.say(map[string]any{"type": "system", "subtype": "session_state_changed", "state": "idle"})
}

func (s *script) play(words []string) (interrupted bool) {
	for i, w := range words {
		switch w {
		case "words":
			n, _ := strconv.Atoi(words[i+1])
			after := strings.Join(words[i+2:], " ")
			s.speak(n, strings.HasPrefix(after, "die"), strings.HasPrefix(after, "gate die"))
		case "gate":
			s.gate()
		case "tool":
			s.tool(true)
		case "begin":
			s.call()
		case "bill":
			s.stream(map[string]any{"type": "message_delta", "delta": map[string]any{}, "usage": map[string]any{"input_tokens": 7, "output_tokens": 3}})
		case "ask":
			s.ask()
		case "big":
			n, _ := strconv.Atoi(words[i+1])
			for range 4 * n {
				s.say(map[string]any{"type": "system", "subtype": "status", "status": strings.Repeat("x", 1<<18)})
			}
		case "deaf":
			s.deaf = true
			signal.Ignore(syscall.SIGTERM)
		case "hang":
			if s.hang() {
				return true
			}
		}
	}
	return false
}

// gateFile in the agent's home opens its gate.
const gateFile = "gate-is-open"

func (s *script) gate() {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for range look.C {
		if _, err := os.Stat(filepath.Join(s.home, gateFile)); err == nil {
			return
		}
	}
}

func (s *script) speak(n int, die, dieLater bool) {
	s.stream(map[string]any{"type": "content_block_start", "index": s.index, "content_block": map[string]any{"type": "text", "text": ""}})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	text := ""
	for range n {
		<-tick.C
		s.count++
		word := fmt.Sprintf("w%d ", s.count)
		text += word
		s.stream(map[string]any{"type": "content_block_delta", "index": s.index, "delta": map[string]any{"type": "text_delta", "text": word}})
	}
	message := map[string]any{"id": s.message, "model": "scripted", "role": "assistant", "content": []any{map[string]any{"type": "text", "text": text}}}
	id := uuid.NewString()
	s.say(map[string]any{"type": "assistant", "uuid": id, "message": message, "parent_tool_use_id": nil})
	if dieLater {
		s.gate()
	}
	if die || dieLater {
		os.Exit(3)
	}
	s.keep("assistant", id, message)
	s.stream(map[string]any{"type": "content_block_stop", "index": s.index})
	s.index++
	s.said = text
}

func (s *script) tool(allowed bool) {
	call := s.call()
	result := map[string]any{"role": "user", "content": []any{map[string]any{
		"type": "tool_result", "tool_use_id": call, "content": fmt.Sprint("allowed: ", allowed), "is_error": !allowed,
	}}}
	id := uuid.NewString()
	s.say(map[string]any{"type": "user", "uuid": id, "message": result, "parent_tool_use_id": nil})
	s.keep("user", id, result)
}

// call calls a tool, and returns the call's id.
func (s *script) call() string {
	s.count++
	call := fmt.Sprintf("toolu_%s_%d", s.session[:8], s.count)
	message := map[string]any{"id": s.message, "model": "scripted", "role": "assistant", "content": []any{map[string]any{
		"type": "tool_use", "id": call, "name": "Bash", "input": map[string]any{"command": "true"},
	}}}
	s.stream(map[string]any{"type": "content_block_start", "index": s.index, "content_block": map[string]any{"type": "tool_use", "id": call, "name": "Bash", "input": map[string]any{}}})
	id := uuid.NewString()
	s.say(map[string]any{"type": "assistant", "uuid": id, "message": message, "parent_tool_use_id": nil})
	s.keep("assistant", id, message)
	s.stream(map[string]any{"type": "content_block_stop", "index": s.index})
	s.index++
	return call
}

// ask waits for the host's answer before it calls a tool.
func (s *script) ask() {
	s.count++
	request := fmt.Sprintf("ask-%s-%d", s.session[:8], s.count)
	s.say(map[string]any{"type": "control_request", "request_id": request, "request": map[string]any{
		"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "t", "input": map[string]any{"command": "true"},
	}})
	for l := range s.in {
		if l.Type == "control_response" && l.Response.RequestID == request {
			s.tool(strings.Contains(string(l.Response.Response), `"allow"`))
			return
		}
		s.control(l)
	}
}

// hang waits until it is interrupted.
func (s *script) hang() bool {
	for l := range s.in {
		if l.Type != "control_request" || s.deaf {
			continue
		}
		s.control(l)
		if l.Request.Subtype == "interrupt" {
			return true
		}
	}
	return false
}
