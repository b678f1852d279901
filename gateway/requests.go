package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"go.temporal.io/api/serviceerror"

	"github.com/sojourn-run/sojourn/session"
)

// maxBody bounds a request's body: a message with its JSON.
const maxBody = session.MaxMessageBytes + 64<<10

// bodyTime is how long a client may take to send its body.
const bodyTime = 30 * time.Second

// read decodes a request's body; an empty one changes nothing. Unknown and repeated fields are
// refused, and text that is not UTF-8: they would be ignored or changed without a word.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // a server that can't has limits of its own
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = control.SetReadDeadline(time.Time{})
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err == nil {
		err = decode(data, into)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", err, session.Invalid("body", err.Error(), "one JSON value of the documented form"))
	}
	return nil
}

func decode(data []byte, into any) error {
	return jsonv2.Unmarshal(data, into, jsonv2.RejectUnknownMembers(true))
}

const (
	// takeTime is how long a request waits for a worker to take it.
	takeTime = 30 * time.Second
	// endTime is how long a request waits for a session's end: what it said is archived first.
	endTime = 2 * time.Minute
)

// within calls do with a bound. A request that no worker has taken by then may still be done.
func within(r *http.Request, limit time.Duration, do func(ctx context.Context) error) error {
	_, err := taken(r, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// taken is within for what has an answer.
func taken[T any](r *http.Request, limit time.Duration, do func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	v, err := do(ctx)
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		err = fmt.Errorf("%w within %s; the request may still be done: %w", session.ErrNoWorker, limit, err)
	}
	return v, err
}

// reply answers with what was done.
func reply(w http.ResponseWriter, body any, err error) error {
	if err == nil {
		answer(w, http.StatusOK, body)
	}
	return err
}

// of returns what serves a request about a session, which is found first.
func (g *gateway) of(serve func(http.ResponseWriter, *http.Request, *session.Handle) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		id := r.PathValue("id")
		if err := session.ValidateID("id", id); err != nil {
			return err
		}
		h, err := g.Sessions.Get(r.Context(), id)
		if err != nil {
			return err
		}
		return serve(w, r, h)
	}
}

// made is a session that was created.
type made struct {
	ID string `json:"id"`
}

// created answers with a session that was made.
func created(w http.ResponseWriter, h *session.Handle, err error) error {
	if err == nil {
		w.Header().Set("Location", "/sessions/"+h.ID())
		answer(w, http.StatusCreated, made{h.ID()})
	}
	return err
}

func (g *gateway) create(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		ID string `json:"id"`
		session.Options
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	h, err := g.Sessions.Create(r.Context(), body.ID, body.Options)
	return created(w, h, err)
}

func (g *gateway) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	o := session.ListOptions{Query: q.Get("query"), Children: q.Get("children") == "true", PageToken: q.Get("page")}
	if limit := q.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > 1000 {
			return session.Invalid("limit", fmt.Sprintf("is %q", limit), "1 to 1000")
		}
		o.PageSize = n
	}
	page, err := g.Sessions.List(r.Context(), o)
	if bad := new(serviceerror.InvalidArgument); errors.As(err, &bad) {
		return session.Invalid("query", bad.Error(), "a visibility query of Temporal's, and a page that a list returned")
	}
	return reply(w, page, err)
}

// shown is a session: its conversation, and the state of one that is open.
type shown struct {
	session.Conversation
	Open       bool                `json:"open"`
	Inspection *session.Inspection `json:"inspection,omitempty"`
}

// stateTime bounds the wait for a worker, who alone knows the state of an open session.
const stateTime = 5 * time.Second

// show asks for the state first: the conversation has then all that the state's last event had.
func (g *gateway) show(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	open, err := g.Sessions.IsOpen(r.Context(), h.ID())
	if err != nil {
		return err
	}
	var i *session.Inspection
	if open {
		i = g.inspect(r.Context(), h)
	}
	conv, err := g.Sessions.Show(r.Context(), h.ID(), session.FromAuto)
	if err != nil {
		return err
	}
	if i != nil {
		conv.LastSeq = max(conv.LastSeq, i.LastSeq) // the stream of an old session may have no event left
	}
	answer(w, http.StatusOK, shown{conv, open, i})
	return nil
}

// inspect returns the state of an open session, nil if it was closed meanwhile, or can't be had: the
// conversation is shown all the same.
func (g *gateway) inspect(ctx context.Context, h *session.Handle) *session.Inspection {
	ctx, cancel := context.WithTimeout(ctx, stateTime)
	defer cancel()
	i, err := h.Inspect(ctx)
	switch {
	case err == nil:
		return &i
	case !errors.Is(err, session.ErrClosed):
		g.Log.Warn("the state of a session is not known", "session", h.ID(), "error", err)
	}
	return nil
}

// state answers with the state of an open session, without its conversation.
func (g *gateway) state(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	i, err := taken(r, stateTime, h.Inspect)
	return reply(w, i, err)
}

func (g *gateway) delete(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	if err := within(r, endTime, h.Close); err != nil && !errors.Is(err, session.ErrClosed) {
		return err
	}
	return done(w, g.Sessions.Delete(r.Context(), h.ID()))
}

// done answers that something was done.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (g *gateway) send(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	var m session.Message
	if err := read(w, r, &m); err != nil {
		return err
	}
	receipt, err := taken(r, takeTime, func(ctx context.Context) (session.Receipt, error) { return h.Send(ctx, m) })
	if err != nil {
		return err
	}
	// Also for who does not get the answer any more: the message is accepted.
	w.Header().Set("Location", "/sessions/"+h.ID()+"/messages/"+url.PathEscape(receipt.MessageID))
	if r.URL.Query().Get("wait") != "true" {
		answer(w, http.StatusAccepted, receipt)
		return nil
	}
	res, err := h.Wait(r.Context(), receipt)
	return reply(w, res, err)
}

func (g *gateway) result(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	res, err := h.Result(r.Context(), r.PathValue("message"))
	return reply(w, res, err)
}

// configure changes the options of an open session, and of a closed one title, metadata and tags.
func (g *gateway) configure(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	var c session.Configure
	if err := read(w, r, &c); err != nil {
		return err
	}
	s, err := taken(r, takeTime, func(ctx context.Context) (session.Snapshot, error) { return h.Configure(ctx, c) })
	if errors.Is(err, session.ErrClosed) && amends(c) {
		s, err = g.Sessions.Amend(r.Context(), h.ID(), session.Amendment{Title: c.Title, Metadata: c.Metadata, Tags: c.Tags})
	}
	return reply(w, s, err)
}

// amends reports whether a change is one of what closed sessions have.
func amends(c session.Configure) bool {
	c.Title, c.Metadata, c.Tags = nil, nil, nil
	left, err := json.Marshal(c)
	return err == nil && string(left) == "{}"
}

func (g *gateway) interrupt(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	var req session.InterruptRequest
	if err := read(w, r, &req); err != nil {
		return err
	}
	done, err := taken(r, takeTime, func(ctx context.Context) (session.InterruptReply, error) { return h.Interrupt(ctx, req) })
	return reply(w, done, err)
}

func (g *gateway) respond(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	var req struct {
		Allow *bool `json:"allow"` // a missing one must not deny
		session.RespondRequest
	}
	if err := read(w, r, &req); err != nil {
		return err
	}
	if req.Allow == nil {
		return session.Invalid("allow", "is missing", "true or false")
	}
	req.RespondRequest.Allow = *req.Allow
	return done(w, within(r, takeTime, func(ctx context.Context) error { return h.Respond(ctx, req.RespondRequest) }))
}

// syncPoll is how often it is asked whether the archive has caught up.
const syncPoll = 500 * time.Millisecond

// errBehind: the archive lacks something for long.
var errBehind = errors.New("the archive is behind")

// sync waits until nothing runs and the archive is not behind. A closed session is archived.
func (g *gateway) sync(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	_, err := h.AwaitIdle(r.Context())
	if err == nil {
		err = archived(r.Context(), h)
	}
	if err != nil && !errors.Is(err, session.ErrClosed) {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"id": h.ID(), "archived": true})
	return nil
}

func archived(ctx context.Context, h *session.Handle) error {
	late := time.After(takeTime)
	for {
		i, err := h.Inspect(ctx)
		if err != nil || i.ArchiveBehind == "" || i.Status == session.StatusClosed {
			return err
		}
		select {
		case <-time.After(syncPoll):
		case <-late:
			return fmt.Errorf("%w: %s", errBehind, i.ArchiveBehind)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *gateway) evict(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	return done(w, within(r, takeTime, h.Evict))
}

func (g *gateway) close(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	return done(w, within(r, endTime, h.Close))
}

// open reopens a closed session; an open one stays as it is.
func (g *gateway) open(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	_, err := g.Sessions.Open(r.Context(), h.ID(), session.Options{})
	return reply(w, made{h.ID()}, err)
}

func (g *gateway) fork(w http.ResponseWriter, r *http.Request, h *session.Handle) error {
	var body struct {
		ID string `json:"id"`
		At string `json:"at"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	fork, err := g.Sessions.Fork(r.Context(), h.ID(), session.Fork{ID: body.ID, At: body.At})
	return created(w, fork, err)
}

func (g *gateway) merge(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		ID  string   `json:"id"`
		IDs []string `json:"ids"`
	}
	if err := read(w, r, &body); err != nil {
		return err
	}
	h, err := g.Sessions.Merge(r.Context(), body.IDs, body.ID)
	return created(w, h, err)
}

func (g *gateway) files(w http.ResponseWriter, r *http.Request) error {
	files, err := g.Sessions.Files(r.Context(), r.PathValue("id"))
	return reply(w, map[string]any{"files": files}, err)
}

var errNoFile = errors.New("no such file")

// file writes a file's content. One that is found damaged while it is sent is cut off, which its length
// shows.
func (g *gateway) file(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("path")
	files, err := g.Sessions.Files(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Path != name || !f.Regular() {
			continue
		}
		content, err := g.Sessions.OpenFile(r.Context(), r.PathValue("id"), name)
		if errors.Is(err, fs.ErrNotExist) {
			break // it was changed meanwhile
		}
		if err != nil {
			return err
		}
		defer content.Close() // it was only read
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(f.Size, 10))
		w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if _, err := io.Copy(w, content); err != nil {
			g.Log.Error("file not sent whole", "session", r.PathValue("id"), "path", name, "error", err)
		}
		return nil
	}
	return fmt.Errorf("file %q: %w", name, errNoFile)
}
