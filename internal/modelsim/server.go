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
	m.HandleFunc("POST /v1/messages", s.messages)
	m.HandleFunc("POST /v1/messages/count_tokens", s.countTokens)
	m.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Stats()) })
	m.HandleFunc("GET /gates", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.gates.list()) })
	m.HandleFunc("POST /gates/{name}", func(_ http.ResponseWriter, r *http.Request) { s.Open(r.PathValue("name")) })
	m.HandleFunc("GET /requests/last", s.lastRequest)
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeAPIError(w, http.StatusNotFound, "no such path: "+r.Method+" "+r.URL.Path)
	})
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

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.answers.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err := s.answer(ctx, w, r); err != nil {
		// The rest of the answer is lost; an orderly end would hide that.
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return writeAPIError(w, http.StatusRequestEntityTooLarge, err.Error())
	}
	session := r.Header.Get(sessionHeader)
	if err := s.record.add(session, body); err != nil {
		return writeAPIError(w, http.StatusInternalServerError, err.Error())
	}
	req, conv, err := decodeAnthropic(body)
	s.ledger.begin(session, conv)
	defer s.ledger.end()
	if err != nil {
		return writeAPIError(w, http.StatusBadRequest, err.Error())
	}
	parts, err := reply(conv)
	if err != nil {
		return writeAPIError(w, http.StatusBadRequest, "script: "+err.Error())
	}
	return s.perform(ctx, w, req, conv, parts)
}

func (s *Server) perform(ctx context.Context, w http.ResponseWriter, req messagesRequest, c Conversation, parts []part) error {
	var out interface {
		sink
		finish() error
	} = &wholeSink{w: w, model: req.Model, tools: c.Tools}
	if req.Stream {
		out = newEventSink(w, req.Model, c.Tools)
	}
	p := &player{ctx: ctx, out: out, pace: s.opts.Pace, gates: &s.gates}
	if over, err := p.perform(parts); over || err != nil {
		return err
	}
	return out.finish()
}

// countTokens guesses four bytes per token.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeAPIError(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	writeJSON(w, map[string]int64{"input_tokens": n / 4})
}

func (s *Server) lastRequest(w http.ResponseWriter, _ *http.Request) {
	kept := s.Recorded()
	if len(kept) == 0 {
		writeAPIError(w, http.StatusNotFound, "no request is kept")
		return
	}
	writeJSON(w, kept[len(kept)-1])
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// newID is a random id in the form of Anthropic's.
func newID(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}
