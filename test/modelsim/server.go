package modelsim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxBody bounds a request; the real server's bound is 32 MB.
const maxBody = 64 << 20

// sessionHeader is how Claude Code names its session, subagents included.
const sessionHeader = "X-Claude-Code-Session-Id"

// errCut asks the HTTP server to break the connection.
var errCut = errors.New("modelsim: scripted cut")

// Options configure a server. The zero value works.
type Options struct {
	// Pace is the time between two deltas of a text. Default 0: as fast as
	// the connection takes them.
	Pace time.Duration
	// Keep is how many of the last requests are kept for GET /requests/last
	// and [Server.Recorded]. Default 4; negative keeps none.
	Keep int
	// RecordDir, if given, is an existing folder that gets each kept request
	// as a file; older files of this server are removed. Default: no files.
	RecordDir string
}

// Server is a scripted model server. Its methods may be called from any
// goroutine.
type Server struct {
	opts   Options
	gates  gates
	ledger ledger
	record recorder
	ctx    context.Context
	cancel context.CancelFunc
	// answers are the handlers under way; mu keeps new ones out after Close.
	mu      sync.Mutex
	answers sync.WaitGroup
	http    *http.Server
	serving chan struct{}
}

// New makes a server that is not listening yet.
func New(opts Options) *Server {
	if opts.Keep == 0 {
		opts.Keep = 4
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Server{
		opts: opts, ctx: ctx, cancel: cancel,
		record: recorder{keep: max(opts.Keep, 0), dir: opts.RecordDir},
	}
}

// Start listens on addr ("127.0.0.1:0" for a free port) and serves until ctx
// ends or Close is called. It returns the base URL and may be called once.
func (s *Server) Start(ctx context.Context, addr string) (url string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil || s.ctx.Err() != nil {
		return "", errors.New("modelsim: started twice or after close")
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("modelsim: listen on %s: %w", addr, err)
	}
	s.http = &http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Minute}
	s.serving = make(chan struct{})
	context.AfterFunc(ctx, s.cancel)
	context.AfterFunc(s.ctx, func() { s.http.Close() })
	go func() {
		defer close(s.serving)
		s.http.Serve(l)
	}()
	return "http://" + l.Addr().String(), nil
}

// Close breaks off all answers, gates included, and waits until they have
// ended. It may be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	s.cancel()
	serving := s.serving
	s.mu.Unlock()
	if serving != nil {
		<-serving
	}
	s.answers.Wait()
}

// Requests is how many model requests the agent session has made, those of its
// subagents included.
func (s *Server) Requests(session string) int { return s.ledger.requests(session) }

// Stats is a copy of all counts.
func (s *Server) Stats() Stats { return s.ledger.snapshot() }

// Open lets pass whoever waits or will wait at the gate.
func (s *Server) Open(name string) { s.gates.open(name) }

// Waiting returns nil as soon as an answer waits at the gate, or an error that
// wraps the context's.
func (s *Server) Waiting(ctx context.Context, name string) error { return s.gates.await(ctx, name) }

// Recorded are the last requests, oldest first.
func (s *Server) Recorded() []Recorded { return s.record.list() }

// Handler serves the model API and the control paths.
func (s *Server) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("HEAD /{$}", func(http.ResponseWriter, *http.Request) {})
	m.HandleFunc("POST /v1/messages", s.model(anthropic{}))
	m.HandleFunc("POST /v1/messages/count_tokens", s.countTokens(anthropic{}, "input_tokens"))
	m.HandleFunc("POST /v1/chat/completions", s.model(chat{}))
	m.HandleFunc("POST /v1/responses", s.model(responses{}))
	m.HandleFunc("POST /v1beta/models/{action}", s.gemini)
	m.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Stats()) })
	m.HandleFunc("GET /gates", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.gates.list()) })
	m.HandleFunc("POST /gates/{name}", func(_ http.ResponseWriter, r *http.Request) { s.Open(r.PathValue("name")) })
	m.HandleFunc("GET /requests/last", s.lastRequest)
	m.HandleFunc("/", s.nowhere)
	return m
}

// enter registers an answer; ok is false when the server is closed.
func (s *Server) enter() (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.answers.Add(1)
	return true
}

// api is one protocol of model servers. Its methods may be called from any
// goroutine.
type api interface {
	// decode reads a request. It fails on what the real server would refuse
	// too; what came before the fault counts.
	decode(r *http.Request, body []byte) (asked, error)
	// respond makes the answer to a request, of which nothing is sent yet.
	respond(w http.ResponseWriter, a asked) response
	// fail is an answer that is an error.
	fail(w http.ResponseWriter, status int, message string) error
}

// asked is a request of any protocol.
type asked struct {
	Conversation
	// session is the agent's, parent that of the agent that started it, if it
	// is a subagent with a session of its own.
	session, parent string
	model           string
	stream          bool
	// usage reports whether a stream must end with the usage.
	usage bool
}

// response is an answer that finish ends in order.
type response interface {
	sink
	finish() error
}

func (s *Server) model(p api) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			panic(http.ErrAbortHandler)
		}
		defer s.answers.Done()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		if err := s.answer(ctx, p, w, r); err != nil {
			// The rest of the answer is lost; an orderly end would hide that.
			panic(http.ErrAbortHandler)
		}
	}
}

func (s *Server) answer(ctx context.Context, p api, w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return p.fail(w, http.StatusRequestEntityTooLarge, err.Error())
	}
	a, err := p.decode(r, body)
	defer s.ledger.end()
	session := s.ledger.begin(a)
	if err := s.record.add(session, body); err != nil {
		return p.fail(w, http.StatusInternalServerError, err.Error())
	}
	if err != nil {
		return p.fail(w, http.StatusBadRequest, err.Error())
	}
	parts, err := reply(a.Conversation)
	if err != nil {
		return p.fail(w, http.StatusBadRequest, "script: "+err.Error())
	}
	out := p.respond(w, a)
	play := &player{ctx: ctx, out: out, pace: s.opts.Pace, gates: &s.gates}
	if over, err := play.perform(parts); over || err != nil {
		return err
	}
	return out.finish()
}

// gemini serves the methods that Google's API puts behind a colon.
func (s *Server) gemini(w http.ResponseWriter, r *http.Request) {
	switch _, method, _ := strings.Cut(r.PathValue("action"), ":"); method {
	case "generateContent", "streamGenerateContent":
		s.model(gemini{})(w, r)
	case "countTokens":
		s.countTokens(gemini{}, "totalTokens")(w, r)
	default:
		s.nowhere(w, r)
	}
}

// countTokens guesses four bytes per token.
func (s *Server) countTokens(p api, field string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			p.fail(w, http.StatusRequestEntityTooLarge, err.Error())
			return
		}
		writeJSON(w, http.StatusOK, map[string]int64{field: n / 4})
	}
}

func (s *Server) nowhere(w http.ResponseWriter, r *http.Request) {
	var p api = anthropic{}
	if strings.HasPrefix(r.URL.Path, "/v1beta/") {
		p = gemini{}
	}
	p.fail(w, http.StatusNotFound, "no such path: "+r.Method+" "+r.URL.Path)
}

func (s *Server) lastRequest(w http.ResponseWriter, _ *http.Request) {
	kept := s.Recorded()
	if len(kept) == 0 {
		writeAPIError(w, http.StatusNotFound, "no request is kept")
		return
	}
	writeJSON(w, http.StatusOK, kept[len(kept)-1])
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}

// newID is a random id in the form of those of the real servers.
func newID(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}
