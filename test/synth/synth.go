package synth

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// Write writes whole turns until at least size bytes are written, and returns their
// number. It fails only if w does.
func Write(w io.Writer, size int64) (int64, error) {
	counted := &counter{w: w}
	s := newSession(counted)
	for s.turns = 0; s.err == nil && counted.n+int64(s.out.Buffered()) < size; s.turns++ {
		s.turn()
	}
	if s.err == nil {
		s.err = s.out.Flush()
	}
	return counted.n, s.err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// session is a transcript being written.
type session struct {
	out   *bufio.Writer
	err   error
	dice  *rand.Rand
	now   time.Time
	turns int
	last  string
}

func newSession(w io.Writer) *session {
	return &session{out: bufio.NewWriterSize(w, 1<<16), dice: rand.New(rand.NewPCG(1, 2)),
		now: time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)}
}

const (
	sessionID = "55d11314-48f5-495e-9754-c0cad7100bc4"
	model     = "claude-opus-4-8"
	// tail is the end of every line of the conversation.
	tail = `"userType":"external","entrypoint":"sdk-cli","cwd":"/srv/sample-lab/run/claude_ws",` +
		`"sessionId":"` + sessionID + `","version":"2.1.197","gitBranch":"HEAD"}`
	usage = `"usage":{"input_tokens":100,"cache_creation_input_tokens":0,"cache_read_input_tokens":48210,"output_tokens":20,` +
		`"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":"standard",` +
		`"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"inference_geo":"","iterations":[],"speed":"standard"}`
)

func (s *session) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.out, format+"\n", args...)
	}
}

// uuid returns a new line's id, and as parent the id of the line before.
func (s *session) uuid() (id, parent string) {
	id = fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", s.dice.Uint32(), s.dice.Uint32()&0xffff,
		s.dice.Uint32()&0xfff, s.dice.Uint32()&0xfff, s.dice.Uint64()&0xffffffffffff)
	parent, s.last = s.last, id
	return id, parent
}

func (s *session) stamp() string {
	s.now = s.now.Add(time.Duration(20+s.dice.IntN(4000)) * time.Millisecond)
	return s.now.Format("2006-01-02T15:04:05.000Z")
}

func (s *session) id(prefix string) string {
	return fmt.Sprintf("%s%012x%012x", prefix, s.dice.Uint64()>>16, s.dice.Uint64()>>16)
}

func (s *session) turn() {
	text := s.prose(40 + s.dice.IntN(300))
	s.prompt(text)
	if s.turns%50 == 0 {
		s.listings()
	}
	for range 3 {
		message := s.id("msg_")
		if s.dice.IntN(4) == 0 {
			s.say(message, fmt.Sprintf(`{"type":"thinking","thinking":%s,"signature":%q}`,
				quote(s.prose(200+s.dice.IntN(1200))), strings.Repeat("RmFrZVNpZ25hdHVyZQ", 24)), "tool_use")
		}
		s.say(message, fmt.Sprintf(`{"type":"text","text":%s}`, quote(s.prose(60+s.dice.IntN(500)))), "tool_use")
		s.tool(message)
	}
	if s.turns%20 == 7 {
		s.steer()
	}
	s.say(s.id("msg_"), fmt.Sprintf(`{"type":"text","text":%s}`, quote(s.prose(300+s.dice.IntN(1800)))), "end_turn")
	s.line(`{"type":"last-prompt","lastPrompt":%s,"leafUuid":%q,"sessionId":%q}`, quote(text), s.last, sessionID)
}

func (s *session) prompt(text string) {
	s.line(`{"type":"queue-operation","operation":"enqueue","timestamp":%q,"sessionId":%q,"content":%s}`, s.stamp(), sessionID, quote(text))
	s.line(`{"type":"queue-operation","operation":"dequeue","timestamp":%q,"sessionId":%q}`, s.stamp(), sessionID)
	promptID, _ := s.uuid()
	id, parent := s.uuid()
	s.line(`{"parentUuid":%q,"isSidechain":false,"promptId":%q,"type":"user","message":{"role":"user","content":[{"type":"text","text":%s}]},`+
		`"uuid":%q,"timestamp":%q,"permissionMode":"bypassPermissions","promptSource":"sdk",`+tail, parent, promptID, quote(text), id, s.stamp())
}

func (s *session) attach(body string) {
	id, parent := s.uuid()
	s.line(`{"parentUuid":%q,"isSidechain":false,"attachment":%s,"type":"attachment","uuid":%q,"timestamp":%q,`+tail, parent, body, id, s.stamp())
}

func (s *session) listings() {
	s.attach(`{"type":"agent_listing_delta","addedTypes":["claude","Explore","general-purpose"],"addedLines":[` + quote(s.prose(1900)) + `]}`)
	s.attach(`{"type":"skill_listing","content":` + quote(s.prose(5100)) + `,"skillCount":13,"isInitial":true,"names":["deep-research","verify","loop"]}`)
}

func (s *session) steer() {
	s.attach(fmt.Sprintf(`{"type":"queued_command","prompt":[{"type":"text","text":%s}],"commandMode":"prompt","timestamp":%q}`,
		quote(s.prose(80)), s.stamp()))
}

// say writes an assistant line with one part.
func (s *session) say(message, part, stop string) {
	id, parent := s.uuid()
	s.line(`{"parentUuid":%q,"isSidechain":false,"message":{"id":%q,"type":"message","role":"assistant","model":"`+model+`","content":[%s],`+
		`"stop_reason":%q,"stop_sequence":null,`+usage+`,"stop_details":null},"requestId":%q,"type":"assistant","uuid":%q,"timestamp":%q,`+tail,
		parent, message, part, stop, s.id("req_"), id, s.stamp())
}

// tool writes a call and its result.
func (s *session) tool(message string) {
	call := s.id("toolu_")
	s.say(message, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"Bash","input":{"command":%s,"description":%s}}`,
		call, quote("cd /srv/sample-lab && go test ./"+s.word()+" | grep -n \""+s.word()+"\""), quote(s.prose(40))), "tool_use")
	output := quote(s.output())
	promptID, _ := s.uuid()
	id, parent := s.uuid()
	s.line(`{"parentUuid":%q,"isSidechain":false,"promptId":%q,"type":"user","message":{"role":"user","content":[{"tool_use_id":%q,"type":"tool_result",`+
		`"content":%s,"is_error":false}]},"uuid":%q,"timestamp":%q,"toolUseResult":{"stdout":%s,"stderr":"","interrupted":false,"isImage":false,`+
		`"noOutputExpected":false},"sourceToolAssistantUUID":%q,`+tail, parent, promptID, call, output, id, s.stamp(), output, parent)
}

// quote returns text as JSON with the program's own escapes, which are only the
// necessary ones.
func quote(text string) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		panic(err) // a string can always be encoded
	}
	return strings.TrimSuffix(out.String(), "\n")
}
