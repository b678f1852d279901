package runner

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// HTTPSpec is how to talk to an agent process that serves HTTP on a loopback
// address, with one stream of server-sent events.
//
// What the process writes to stdout and stderr is its log and is spooled as "err"
// records. The data of every event is spooled as one "out" record: data of
// several lines is compacted if it is JSON, else put into
// {"type":"sojourn.text","text":…}. When the stream breaks while the process
// lives, a "sig" record has "events lost", and "events again" once it is open
// again; events in between are lost.
//
// Every line of an input is one request, and is spooled as an "in" record:
//
//	{"id":"r1","method":"POST","path":"/session?x=y","body":{…}}
//
// The body is JSON and optional. Requests are sent one at a time and in order,
// never before the event stream is open nor while it is broken. Each is
// answered by an "out" record, spooled before the next request is sent:
//
//	{"type":"sojourn.response","id":"r1","status":200,"body":{…}}
//	{"type":"sojourn.response","id":"r1","error":"no response within 1m0s"}
//	{"type":"sojourn.response","id":"r1","error":"no response before …","ended":true}
//
// The body is a string if the response's is not JSON, and absent if that is
// empty. An error means that no whole response came, or that the line is not a
// request, and then the agent does not have it. With "ended" the agent's process
// ended first; the record of its end follows. Redirects are responses like
// others. Responses and events arrive on separate connections, so a request's
// events may be spooled before or after its response. Requests still queued when
// the agent ends, or is being ended, are dropped.
type HTTPSpec struct {
	// Ready is the prefix of the line, on stdout or stderr, that reports that the
	// server is ready; its base URL follows, up to white space. Only loopback
	// addresses are accepted, else the agent is ended with a fault. Required.
	Ready string `json:"ready"`
	// Events is the path of the event stream, such as "/event". Required. It is
	// requested again while it is refused; a server that is ready and refuses it for
	// a minute is ended with a fault.
	Events string `json:"events"`
	// PasswordEnv names a variable in which the process receives a password,
	// generated for it alone, that every request sends as basic auth. It is stored in
	// no file, and blanked in the process's log. Default: no password.
	PasswordEnv string `json:"passwordEnv,omitempty"`
	// User is the user of the basic auth. Default: empty.
	User string `json:"user,omitempty"`
	// RequestTimeout is from the sending of a request to the end of its response; for
	// the event stream, to its beginning. Nanoseconds. Default: 60 s.
	RequestTimeout time.Duration `json:"requestTimeout,omitempty"`
}

func (h HTTPSpec) validate() error {
	if strings.TrimSpace(h.Ready) == "" {
		return fmt.Errorf("field \"http.ready\" is empty")
	}
	if _, err := url.Parse(h.Events); err != nil || !strings.HasPrefix(h.Events, "/") || strings.HasPrefix(h.Events, "//") {
		return fmt.Errorf("field \"http.events\" is %q, want a path that begins with one /", h.Events)
	}
	if strings.ContainsAny(h.PasswordEnv, "=\x00") {
		return fmt.Errorf("field \"http.passwordEnv\" is %q, want the name of a variable", h.PasswordEnv)
	}
	if strings.ContainsAny(h.User, ":\x00") {
		return fmt.Errorf("field \"http.user\" is %q, which basic auth cannot carry", h.User)
	}
	if h.RequestTimeout < 0 {
		return fmt.Errorf("field \"http.requestTimeout\" is %v, want more than 0", h.RequestTimeout)
	}
	return nil
}
