//go:build linux

package runner_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// server is an agent that serves HTTP and one stream of events. Its arguments set
// its behavior, each path is a command.
func server(args []string) int {
	s := &httpAgent{password: os.Getenv("SERVER_PASSWORD"), streams: map[*audience]bool{}}
	address := ""
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "stubborn":
			signal.Ignore(syscall.SIGTERM)
		case "wait": // until somebody opens the named pipe
			fmt.Println("waiting")
			f, err := os.Open(value)
			if err == nil {
				f.Close()
			}
		case "address":
			address = value
		case "refuse":
			s.refuse, _ = strconv.Atoi(value)
		case "tell":
			fmt.Fprintln(os.Stderr, "my password is "+s.password)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if address == "" {
		address = "http://" + l.Addr().String()
	}
	fmt.Println("server listening on " + address + " (pid " + strconv.Itoa(os.Getpid()) + ")")
	fmt.Println(http.Serve(l, s))
	return 1
}

type httpAgent struct {
	password string

	mu      sync.Mutex
	streams map[*audience]bool
	refuse  int // the number of subscriptions
	running int
	asked   []string
}

func (s *httpAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if s.password != "" && (user != "me" || password != s.password) {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	if r.URL.Path == "/event" {
		s.events(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	s.obey(w, r, string(body))
}

// obey executes one command.
func (s *httpAgent) obey(w http.ResponseWriter, r *http.Request, body string) {
	s.enter(r.URL.Path)
	defer s.leave()
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	switch r.URL.Path {
	case "/say":
		s.emit(fmt.Sprintf("event: x\nid: 7\ndata: {\"said\":%s}\n\n", body))
		w.WriteHeader(http.StatusNoContent)
	case "/raw":
		var raw string
		_ = json.Unmarshal([]byte(body), &raw)
		s.emit(raw)
	case "/big-event":
		s.emit(`data: {"type":"big","text":"` + strings.Repeat("x", n) + "\"}\r\n\r\n")
	case "/big":
		_, _ = io.WriteString(w, `{"text":"`+strings.Repeat("y", n)+`"}`)
	case "/text":
		fmt.Fprint(w, "two\n\"lines\"")
	case "/pretty":
		fmt.Fprint(w, "{\n  \"a\": [1,\n  2]\n}\n")
	case "/echo":
		fmt.Fprintf(w, `{"method":%q,"query":%q,"type":%q,"body":%q}`, r.Method, r.URL.RawQuery, r.Header.Get("Content-Type"), body)
	case "/redirect":
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	case "/asked":
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s.asked)
	case "/hang":
		<-r.Context().Done()
	case "/break": // the event streams, of which the next n are refused
		s.hangUp(n)
	case "/log":
		fmt.Fprintln(os.Stderr, body)
	case "/spawn":
		var fifo string
		_ = json.Unmarshal([]byte(body), &fifo)
		fmt.Fprint(w, spawn(fifo))
	case "/exit":
		s.emit("data: last words\n\n")
		os.Exit(n)
	default:
		http.NotFound(w, r)
	}
}

// enter records a request and how many run at once.
func (s *httpAgent) enter(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	s.asked = append(s.asked, fmt.Sprint(path, " ", s.running))
}

func (s *httpAgent) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

func (s *httpAgent) events(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.refuse > 0 {
		s.refuse--
		s.mu.Unlock()
		http.Error(w, "not yet", http.StatusServiceUnavailable)
		return
	}
	mine := &audience{say: make(chan string), heard: make(chan bool), gone: r.Context().Done()}
	s.streams[mine] = true
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	said := ": hello\n\ndata: {\"type\":\"connected\"}\n\n"
	for first, open := true, true; open; first = false {
		_, _ = io.WriteString(w, said)
		w.(http.Flusher).Flush()
		if !first {
			mine.heard <- true
		}
		select {
		case said, open = <-mine.say:
		case <-mine.gone:
			open = false
		}
	}
}

// audience is one event stream.
type audience struct {
	say   chan string
	heard chan bool
	gone  <-chan struct{}
}

// emit returns when every stream has the event.
func (s *httpAgent) emit(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.streams {
		select {
		case a.say <- text:
			<-a.heard
		case <-a.gone:
			delete(s.streams, a)
		}
	}
}

func (s *httpAgent) hangUp(refuse int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
	for a := range s.streams {
		close(a.say)
		delete(s.streams, a)
	}
}
