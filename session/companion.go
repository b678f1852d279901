package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// Companion is what a program does beside a session, over all of the session's life and through
// restarts of the program: see [Handle.Accompany]. Each function may be nil. They are called one
// after another, in the order of what happens.
type Companion struct {
	// Name distinguishes the companions of a session: 1 to 48 letters, digits, "_" and "-".
	Name string
	// OnInit is called once in a session's life, before all others.
	OnInit func(ctx context.Context, s SessionRef) error
	// OnRestore is called in place of OnInit, with the state that OnPersist returned last: the
	// program was started again, or the session was reopened. state is nil if it never has.
	OnRestore func(ctx context.Context, s SessionRef, state json.RawMessage) error
	// OnToolCall is called for each tool call of the agent that needs an answer, which it returns;
	// nil leaves it to others. A session asks for each call with the standing answer ask
	// (Options.Permission). An allowed call may run with another Input.
	OnToolCall func(ctx context.Context, s SessionRef, call event.PermissionRequested) (*RespondRequest, error)
	// OnPersist is called behind each execution. Its state is stored with the session, and is part of
	// its snapshot (Snapshot.Companions) until the next one; nil leaves it. It is called again if
	// the program is lost before the state is stored.
	OnPersist func(ctx context.Context, s SessionRef, r Result) (state json.RawMessage, err error)
	// OnDestroy is called once when the session is closed, until it is reopened.
	OnDestroy func(ctx context.Context, s SessionRef) error
}

// SessionRef is a session as a companion sees it, at the moment of the call.
type SessionRef struct {
	ID     string
	Status Status
	// CurrentTick is the number of the running turn's model call; 0 if none is known to run.
	CurrentTick int
	h           *Handle
}

// Snapshot returns the session's state now.
func (s SessionRef) Snapshot(ctx context.Context) (Snapshot, error) { return s.h.Snapshot(ctx) }

// companionPrefix begins the keys of the metadata in which companions are.
const companionPrefix = "companion:"

// accompanied is what is stored of a companion.
type accompanied struct {
	// Seq is the last event that it is done with.
	Seq   uint64          `json:"seq"`
	State json.RawMessage `json:"state,omitempty"`
	// Destroyed: the session is closed, and OnDestroy was called.
	Destroyed bool `json:"destroyed,omitempty"`
}

var companionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,48}$`)

// Accompany calls a companion until the session is closed or ctx ends, beginning with what happened
// since the companion was last called, in any process. Only one process may do so under a name. It
// returns the first error of a function, which is called again by the next Accompany; its other
// errors are those of Events, Inspect and Configure. The stored state is part of the session's
// metadata, and of their 64 KiB.
func (h *Handle) Accompany(ctx context.Context, c Companion) error {
	if !companionName.MatchString(c.Name) {
		return Invalid("name", fmt.Sprintf("is %q", shorten(c.Name, maxKeyword)), `1 to 48 letters, digits, "_" and "-"`)
	}
	a := accompanying{Companion: c, h: h}
	if err := a.run(ctx); err != nil {
		return fmt.Errorf("companion %s of session %s: %w", c.Name, h.id, err)
	}
	return nil
}

type accompanying struct {
	Companion
	h   *Handle
	now accompanied
	// Of the requests up to the event past only those in open have no answer yet.
	past uint64
	open map[string]bool
}

func (a *accompanying) run(ctx context.Context) error {
	done, err := a.begin(ctx)
	if done || err != nil {
		return err
	}
	for ev, err := range a.h.c.left(ctx, a.h.id, a.now.Seq, Follow) {
		if err == nil {
			err = a.event(ctx, ev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin initialises or restores the companion; done reports that the session was closed and all of
// it was called.
func (a *accompanying) begin(ctx context.Context) (done bool, err error) {
	i, err := a.inspect(ctx)
	if err != nil {
		return false, err
	}
	stored, known := i.Options.Metadata[companionPrefix+a.Name]
	if known {
		if err := json.Unmarshal(stored, &a.now); err != nil {
			return false, fmt.Errorf("stored state: %w", err)
		}
	}
	if i.Status == StatusClosed && a.now.Destroyed {
		return true, nil
	}
	a.past, a.open = i.LastSeq, map[string]bool{}
	requests, err := a.h.c.Requests(ctx, a.h.id)
	if err != nil {
		return false, err
	}
	for _, ev := range requests {
		a.open[ev.Payload.(event.PermissionRequested).RequestID] = true
	}
	switch {
	case known && a.OnRestore != nil:
		err = a.OnRestore(ctx, a.ref(i), a.now.State)
	case !known && a.OnInit != nil:
		err = a.OnInit(ctx, a.ref(i))
	}
	if err != nil || known && !a.now.Destroyed {
		return false, err
	}
	if !known {
		a.now.Seq = i.LastSeq
	}
	a.now.Destroyed = false
	return false, a.store(ctx)
}

// inspect returns the session's state. That of a closed one is in its record: its workflow has not
// learned what was stored behind its end.
func (a *accompanying) inspect(ctx context.Context) (Inspection, error) {
	i, err := a.h.Inspect(ctx)
	if store := a.h.c.o.Archive; store != nil && (err != nil || i.Status == StatusClosed) {
		known, lerr := a.h.c.lookup(ctx, a.h.id)
		data, serr := store.Session(ctx, a.h.id)
		if lerr == nil && serr == nil && !known.open {
			return inspectClosed(data)
		}
	}
	return i, err
}

func (a *accompanying) ref(i Inspection) SessionRef {
	s := SessionRef{ID: a.h.id, Status: i.Status, h: a.h}
	if i.CurrentTick != nil {
		s.CurrentTick = *i.CurrentTick
	}
	return s
}

func (a *accompanying) event(ctx context.Context, ev event.Event) error {
	if q, how, ended := endOf(ev); ended {
		message := ""
		if len(q.MessageIDs) > 0 {
			message = q.MessageIDs[0]
		}
		return a.persist(ctx, ev.Context.Seq, resultOf(q, message, how))
	}
	switch p := ev.Payload.(type) {
	case event.PermissionRequested:
		if ev.Context.Seq > a.past || a.open[p.RequestID] {
			return a.answer(ctx, ev, p)
		}
	case event.SessionClosed:
		return a.destroy(ctx, ev.Context.Seq)
	}
	return nil
}

func (a *accompanying) persist(ctx context.Context, seq uint64, r Result) error {
	if a.OnPersist == nil {
		return nil
	}
	i, err := a.inspect(ctx)
	if err != nil {
		return err
	}
	state, err := a.OnPersist(ctx, a.ref(i), r)
	if err != nil {
		return err
	}
	if a.now.Seq = seq; state != nil {
		a.now.State = state
	}
	return a.store(ctx)
}

func (a *accompanying) answer(ctx context.Context, ev event.Event, call event.PermissionRequested) error {
	if a.OnToolCall == nil {
		return nil
	}
	i, err := a.inspect(ctx)
	if err != nil {
		return err
	}
	answer, err := a.OnToolCall(ctx, a.ref(i), call)
	if err != nil || answer == nil {
		return err
	}
	if answer.By == "" {
		answer.By = companionPrefix + a.Name
	}
	err = a.h.RespondTo(ctx, ev, *answer)
	if invalid, ok := errors.AsType[*InvalidError](err); ok && invalid.Field == "requestId" || errors.Is(err, ErrClosed) {
		return nil // it was answered meanwhile, by a rule, a person or the turn's end
	}
	return err
}

func (a *accompanying) destroy(ctx context.Context, seq uint64) error {
	if a.OnDestroy != nil {
		i, err := a.inspect(ctx)
		if err != nil {
			return err
		}
		if err := a.OnDestroy(ctx, a.ref(i)); err != nil {
			return err
		}
	}
	a.now.Seq, a.now.Destroyed = seq, true
	return a.store(ctx)
}

// store stores the companion with the session, which may be closed by now.
func (a *accompanying) store(ctx context.Context) error {
	data, err := json.Marshal(a.now)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	bag := map[string]json.RawMessage{companionPrefix + a.Name: data}
	_, err = a.h.Configure(ctx, Configure{Metadata: bag})
	if errors.Is(err, ErrClosed) {
		_, err = a.h.amendClosed(ctx, Amendment{Metadata: bag})
	}
	return err
}

// companionsIn returns the states of the companions that are stored in a session's metadata, by
// their names.
func companionsIn(bag map[string]json.RawMessage) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	for key, value := range bag {
		name, is := strings.CutPrefix(key, companionPrefix)
		var stored accompanied
		if !is || json.Unmarshal(value, &stored) != nil || stored.State == nil {
			continue
		}
		if out == nil {
			out = map[string]json.RawMessage{}
		}
		out[name] = stored.State
	}
	return out
}
