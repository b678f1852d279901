package synth

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// Records returns the program's input and output for a number of turns, in its
// session's own mode: the prompt; a text in 60 partial messages, and whole; a tool call
// in four and whole; its result of 3.5 KB on average, twice in its line; another text;
// the turn's result. A turn has 147 lines, of 335 bytes on average. The same number
// returns the same records.
func Records(turns int) []traffic.Record {
	s := newSession(nil)
	r := &stream{session: s}
	for range turns {
		r.turn()
	}
	return r.records
}

type stream struct {
	*session
	records []traffic.Record
}

func (r *stream) say(format string, args ...any) {
	r.now = r.now.Add(time.Millisecond)
	r.records = append(r.records, traffic.Record{TS: r.now, Dir: event.DirOut, Line: fmt.Sprintf(format, args...)})
}

// partial is a line of the model's stream.
func (r *stream) partial(format string, args ...any) {
	id, _ := r.uuid()
	r.say(`{"type":"stream_event","event":%s,"session_id":%q,"parent_tool_use_id":null,"uuid":%q}`, fmt.Sprintf(format, args...), sessionID, id)
}

func (r *stream) whole(message, part string) {
	id, _ := r.uuid()
	r.say(`{"type":"assistant","message":{"model":"`+model+`","id":%q,"type":"message","role":"assistant","content":[%s],"stop_reason":null,"stop_sequence":null,`+
		usage+`,"stop_details":null,"context_management":null},"parent_tool_use_id":null,"session_id":%q,"uuid":%q,"request_id":%q}`,
		message, part, sessionID, id, r.id("req_"))
}

func (r *stream) system(subtype, rest string) {
	id, _ := r.uuid()
	r.say(`{"type":"system","subtype":%q,%s,"session_id":%q,"uuid":%q}`, subtype, rest, sessionID, id)
}

func (r *stream) turn() {
	id, _ := r.uuid()
	line := fmt.Sprintf(`{"type":"user","message":{"role":"user","content":[{"type":"text","text":%s}]},"parent_tool_use_id":null,"session_id":%q,"uuid":%q}`,
		quote(r.prose(200)), sessionID, id)
	r.records = append(r.records, traffic.Record{TS: r.now, Dir: event.DirIn, Line: line})
	r.system("session_state_changed", `"state":"running"`)
	r.system("init", `"cwd":"/srv/sample-lab","model":"`+model+`","permissionMode":"default","tools":["Task","Bash","Edit","Read","Write"],"output_style":"default"`)
	r.message(true)
	r.message(false)
	id, _ = r.uuid()
	r.say(`{"type":"result","subtype":"success","is_error":false,"api_error_status":null,"duration_ms":162,"duration_api_ms":110,"num_turns":2,"result":"done",`+
		`"stop_reason":"end_turn","session_id":%q,"total_cost_usd":0.01,`+usage+`,"permission_denials":[],"terminal_reason":"completed","uuid":%q}`, sessionID, id)
	r.system("session_state_changed", `"state":"idle"`)
}

// message writes the lines of one request to the model.
func (r *stream) message(withTool bool) {
	message := r.id("msg_")
	r.system("status", `"status":"requesting"`)
	r.partial(`{"type":"message_start","message":{"id":%q,"type":"message","role":"assistant","model":"`+model+`","content":[],`+usage+`}}`, message)
	r.partial(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	var text strings.Builder
	for range 60 {
		piece := r.prose(12)
		text.WriteString(piece)
		r.partial(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`, quote(piece))
	}
	r.whole(message, fmt.Sprintf(`{"type":"text","text":%s}`, quote(text.String())))
	r.partial(`{"type":"content_block_stop","index":0}`)
	if withTool {
		r.call(message)
	}
	r.partial(`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},` + usage + `}`)
	r.partial(`{"type":"message_stop"}`)
}

func (r *stream) call(message string) {
	call := r.id("toolu_")
	r.partial(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":%q,"name":"Bash","input":{}}}`, call)
	for range 4 {
		r.partial(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\": \"go"}}`)
	}
	r.whole(message, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"Bash","input":{"command":"go test ./...","description":"run the tests"}}`, call))
	r.partial(`{"type":"content_block_stop","index":1}`)
	output := quote(r.output())
	id, _ := r.uuid()
	r.say(`{"type":"user","message":{"role":"user","content":[{"tool_use_id":%q,"type":"tool_result","content":%s,"is_error":false}]},"parent_tool_use_id":null,`+
		`"session_id":%q,"uuid":%q,"tool_use_result":{"stdout":%s,"stderr":"","interrupted":false,"isImage":false}}`, call, output, sessionID, id, output)
}
