package opencode

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// conversationOf returns a server's output in n turns: each has a prompt, a text
// in ten pieces, a call with a growing output, and sometimes a subagent.
func conversationOf(n int) []traffic.Record {
	s := &synth{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i := range n {
		s.turn(i)
	}
	return s.records
}

type synth struct {
	at      time.Time
	records []traffic.Record
	ids     int
}

func (s *synth) say(format string, args ...any) {
	s.at = s.at.Add(time.Millisecond)
	s.records = append(s.records, traffic.Record{TS: s.at, Dir: event.DirOut, Line: fmt.Sprintf(format, args...)})
}

func (s *synth) id(kind string) string {
	s.ids++
	return fmt.Sprintf("%s_%012x001abcdefghijklmn", kind, 0x100000+s.ids)
}

const synthMain = "ses_main"

func (s *synth) turn(i int) {
	user := s.id("msg")
	s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"message.updated","properties":{"sessionID":"ses_main","info":{"id":"%s","role":"user","sessionID":"ses_main","time":{"created":1},"agent":"build","model":{"providerID":"fake","modelID":"m"}}}}`, user)
	s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"message.part.updated","properties":{"sessionID":"ses_main","part":{"type":"text","text":"prompt %d","messageID":"%s","sessionID":"ses_main","id":"%s"},"time":1}}`, i, user, s.id("prt"))
	s.answer(synthMain, user)
	if i%10 == 0 {
		s.task(user)
	}
	s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"session.status","properties":{"sessionID":"ses_main","status":{"type":"idle"}}}`)
	s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"session.idle","properties":{"sessionID":"ses_main"}}`)
	s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"session.updated","properties":{"sessionID":"ses_main","info":{"id":"ses_main","slug":"x","title":"%s"}}}`, strings.Repeat("x", 300))
}

func (s *synth) message(session, id, parent, more string) {
	s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"message.updated","properties":{"sessionID":"%s","info":{"id":"%s","parentID":"%s","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/w","root":"/w"},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"modelID":"m","providerID":"fake","time":{"created":1%s},"sessionID":"%s"}}}`,
		session, id, parent, more, session)
}

func (s *synth) answer(session, user string) {
	m, text, call := s.id("msg"), s.id("prt"), s.id("prt")
	s.message(session, m, user, "")
	s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"message.part.updated","properties":{"sessionID":"%s","part":{"id":"%s","messageID":"%s","sessionID":"%s","type":"text","text":"","time":{"start":1}},"time":1}}`, session, text, m, session)
	all := ""
	for range 10 {
		all += "some words of it "
		s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"message.part.delta","properties":{"sessionID":"%s","messageID":"%s","partID":"%s","field":"text","delta":"some words of it "}}`, session, m, text)
	}
	s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"message.part.updated","properties":{"sessionID":"%s","part":{"id":"%s","messageID":"%s","sessionID":"%s","type":"text","text":"%s","time":{"start":1,"end":2}},"time":2}}`, session, text, m, session, all)
	for _, state := range []string{
		`"status":"pending","input":{},"raw":""`, `"status":"running","input":{"command":"ls"},"time":{"start":1}`,
		`"status":"running","input":{"command":"ls"},"metadata":{"output":"a"},"time":{"start":1}`,
		`"status":"completed","input":{"command":"ls"},"output":"a\nb","metadata":{"output":"a\nb","exit":0},"title":"ls","time":{"start":1,"end":3}`,
	} {
		s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"message.part.updated","properties":{"sessionID":"%s","part":{"type":"tool","tool":"bash","callID":"c%s","state":{%s},"id":"%s","sessionID":"%s","messageID":"%s"},"time":1}}`, session, call, state, call, session, m)
	}
	s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"message.part.updated","properties":{"sessionID":"%s","part":{"id":"%s","reason":"stop","messageID":"%s","sessionID":"%s","type":"step-finish","tokens":{"total":120,"input":100,"output":20,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0.01},"time":3}}`, session, s.id("prt"), m, session)
	s.message(session, m, user, `,"completed":4`)
}

func (s *synth) task(user string) {
	m, call, child := s.id("msg"), s.id("prt"), s.id("ses")
	s.message(synthMain, m, user, "")
	s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"session.created","properties":{"sessionID":"%s","info":{"id":"%s","parentID":"ses_main","title":"t"}}}`, child, child)
	for _, state := range []string{
		`"status":"running","input":{"prompt":"p","description":"d","subagent_type":"general"},"metadata":{"sessionId":"` + child + `"},"time":{"start":1}`,
		`"status":"completed","input":{"prompt":"p","description":"d","subagent_type":"general"},"output":"<task id=\"x\">\n<task_result>\nr\n</task_result>\n</task>","metadata":{"sessionId":"` + child + `"},"time":{"start":1,"end":2}`,
	} {
		s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"message.part.updated","properties":{"sessionID":"ses_main","part":{"type":"tool","tool":"task","callID":"c%s","state":{%s},"id":"%s","sessionID":"ses_main","messageID":"%s"},"time":1}}`, call, state, call, m)
		if strings.Contains(state, "running") {
			s.answer(child, s.id("msg"))
			s.say(`{"id":"evt_1fb791ce2001zIglBqWCkIFUay","type":"session.idle","properties":{"sessionID":"%s"}}`, child)
		}
	}
	s.message(synthMain, m, user, `,"completed":4`)
}
