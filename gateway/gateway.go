package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/rs/cors"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// Options are what a gateway serves.
type Options struct {
	// Sessions needs Temporal, stream and archive. Required.
	Sessions *session.Client
	// Token is what every request must have. Required.
	Token string
	// Origins are the hosts of web pages that may use the gateway, such as app.example.com; "*" is
	// a wildcard. Default: the gateway's own.
	Origins []string
	// Log has the requests that failed without a fault of the client. Default: they are not logged.
	Log *slog.Logger
}

type gateway struct {
	Options
	token [sha256.Size]byte
}

// New returns the handler. It opens nothing, and starts nothing but what a request needs.
func New(o Options) (http.Handler, error) {
	if o.Sessions == nil {
		return nil, session.Invalid("Sessions", "is nil", "a client of sessions")
	}
	if o.Token == "" {
		return nil, session.Invalid("Token", "is empty", "a secret that clients have")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := &gateway{Options: o, token: sha256.Sum256([]byte(o.Token))}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /sessions":                            g.create,
		"GET /sessions":                             g.list,
		"POST /sessions/merge":                      g.merge,
		"GET /sessions/{id}":                        g.of(g.show),
		"GET /sessions/{id}/state":                  g.of(g.state),
		"DELETE /sessions/{id}":                     g.of(g.delete),
		"POST /sessions/{id}/messages":              g.of(g.send),
		"GET /sessions/{id}/messages/{message}":     g.of(g.result),
		"PATCH /sessions/{id}/options":              g.of(g.configure),
		"POST /sessions/{id}/interrupt":             g.of(g.interrupt),
		"POST /sessions/{id}/respond":               g.of(g.respond),
		"POST /sessions/{id}/sync":                  g.of(g.sync),
		"POST /sessions/{id}/environment/terminate": g.of(g.evict),
		"POST /sessions/{id}/close":                 g.of(g.close),
		"POST /sessions/{id}/open":                  g.of(g.open),
		"POST /sessions/{id}/fork":                  g.of(g.fork),
		"GET /sessions/{id}/files":                  g.files,
		"GET /sessions/{id}/files/{path...}":        g.file,
		"GET /ws":                                   g.rooms,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(w, r); err != nil {
				g.fail(w, r, err)
			}
		})
	}
	return g.pages().Handler(g.authorized(known(mux))), nil
}

// pages lets web pages of the named origins make requests, and read the answers.
func (g *gateway) pages() *cors.Cors {
	return cors.New(cors.Options{
		AllowOriginFunc: g.isAllowed,
		AllowedMethods:  []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete},
		AllowedHeaders:  []string{"Authorization", "Content-Type"},
		ExposedHeaders:  []string{"Location"},
	})
}

// isAllowed compares origins as a WebSocket's are compared.
func (g *gateway) isAllowed(origin string) bool {
	from, err := url.Parse(origin)
	if err != nil {
		return false
	}
	for _, pattern := range g.Origins {
		given := from.Host
		if strings.Contains(pattern, "://") {
			given = from.Scheme + "://" + from.Host
		}
		if ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(given)); err == nil && ok {
			return true
		}
	}
	return false
}

// known answers what the mux has no handler for as any other error is answered.
func known(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			answer(w, http.StatusNotFound, failure{Error: problem{Code: "not_found", Message: r.Method + " " + r.URL.Path + " is no request of a gateway"}})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// authorized refuses requests without the token.
func (g *gateway) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if given == "" && r.URL.Path == "/ws" {
			given = r.URL.Query().Get("access_token")
		}
		sum := sha256.Sum256([]byte(given))
		if subtle.ConstantTimeCompare(sum[:], g.token[:]) != 1 {
			// Its body is not read: without a deadline the server would wait for it.
			w.Header().Set("Connection", "close")
			_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // a server that can't has limits of its own
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, failure{Error: problem{Code: "unauthorized", Message: "the request has no valid token"}})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// failure is the answer to a request that can't be done.
type failure struct {
	Error problem `json:"error"`
}

type problem struct {
	// Code is one of those in problems, or invalid, unauthorized or failed.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Field, Reason and Want are set for bad input.
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason,omitempty"`
	Want   string `json:"want,omitempty"`
}

// problems are the errors that a client may branch on.
var problems = []struct {
	err    error
	status int
	code   string
}{
	{session.ErrNotFound, http.StatusNotFound, "not_found"},
	{archive.ErrNotFound, http.StatusNotFound, "not_found"},
	{errNoFile, http.StatusNotFound, "not_found"},
	{session.ErrExists, http.StatusConflict, "exists"},
	{session.ErrConflict, http.StatusConflict, "conflict"},
	{session.ErrClosed, http.StatusConflict, "closed"},
	{session.ErrBusy, http.StatusConflict, "busy"},
	{session.ErrPaused, http.StatusConflict, "paused"},
	{session.ErrNotBegun, http.StatusConflict, "not_begun"},
	{session.ErrRestoreCanceled, http.StatusConflict, "canceled"},
	{session.ErrDepthLimit, http.StatusConflict, "depth_limit"},
	{stream.ErrPurged, http.StatusGone, "purged"},
	{stream.ErrGap, http.StatusGone, "gap"},
	{errTooMany, http.StatusTooManyRequests, "too_many"},
	{archive.ErrBusy, http.StatusServiceUnavailable, "archive_busy"},
	{errBehind, http.StatusServiceUnavailable, "behind"},
	{session.ErrNoWorker, http.StatusServiceUnavailable, "no_worker"},
	{session.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"},
	{session.ErrNoArchive, http.StatusServiceUnavailable, "no_archive"},
}

// problemOf returns what a client is told of an error.
func problemOf(err error) (status int, p problem) {
	p = problem{Code: "failed", Message: err.Error()}
	var invalid *session.InvalidError
	if errors.As(err, &invalid) {
		p = problem{"invalid", invalid.Error(), invalid.Field, invalid.Reason, invalid.Want}
		if large := new(http.MaxBytesError); errors.As(err, &large) {
			return http.StatusRequestEntityTooLarge, p
		}
		return http.StatusBadRequest, p
	}
	if unserved := new(session.UnservedError); errors.As(err, &unserved) {
		p.Code = "unserved"
		return http.StatusServiceUnavailable, p
	}
	for _, known := range problems {
		if errors.Is(err, known.err) {
			p.Code = known.code
			return known.status, p
		}
	}
	return http.StatusInternalServerError, p
}

func (g *gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, p := problemOf(err)
	if status == http.StatusInternalServerError && r.Context().Err() == nil {
		g.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	answer(w, status, failure{Error: p})
}

// answer writes a JSON answer. A client that has gone gets none.
func answer(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		status = http.StatusInternalServerError
		data, _ = json.Marshal(failure{Error: problem{Code: "failed", Message: err.Error()}}) // strings always encode
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}
