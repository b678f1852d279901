package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/stream"
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
	// OnToolCall is called for each tool call of the agent that waits for an answer, which it
	// returns; nil leaves it to others. A session asks for each call with the standing answer ask
	// (Options.Permission) and no rules. An allowed call may run with another Input, if the agent
	// can do that: otherwise it is denied, with the reason.
	OnToolCall func(ctx context.Context, s SessionRef, call event.PermissionRequested) (*RespondRequest, error)
	// OnPersist is called behind each execution. Its state, at most MaxCompanionState bytes, is
	// stored with the session, and is part of its snapshot (Snapshot.Companions) until the next one;
	// nil leaves it. It is called again if the program is lost before the state is stored.
	OnPersist func(ctx context.Context, s SessionRef, r Result) (state json.RawMessage, err error)
	// OnDestroy is called once when the session is closed, and again when it is after a reopening.
	OnDestroy func(ctx context.Context, s SessionRef) error
}

// MaxCompanionState bounds the state of a companion, in bytes.
const MaxCompanionState = 8 << 10

// SessionRef is a session as a companion sees it, at the moment of the call: what it is called for
// may have happened long before.
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
	// Destroyed: OnDestroy was called, and the session not reopened since.
	Destroyed bool `json:"destroyed,omitempty"`
}

var companionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,48}$`)

// Accompany calls a companion until the session is closed or ctx ends, beginning with what happened
// since the companion was last called, in any process and any incarnation of the session. What is
// past the stream's retention by then is not called, but for the session's end. Only one process may
// do so under a name. It returns the first error of a function, which is called again by the next
// Accompany; its other errors are those of Events, Inspect and Configure, and [ErrNoArchive]: the
// state of a closed session is stored there. The stored state is part of the session's metadata, and
// of their 64 KiB.
func (h *Handle) Accompany(ctx context.Context, c Companion) error {
	if !companionName.MatchString(c.Name) {
		return Invalid("name", fmt.Sprintf("is %q", shorten(c.Name, maxKeyword)), `1 to 48 letters, digits, "_" and "-"`)
	}
	err := ErrNoArchive
	if h.c.o.Archive != nil {
		a := accompanying{Companion: c, h: h}
		err = a.run(ctx)
	}
	if err != nil {
		return fmt.Errorf("companion %s of session %s: %w", c.Name, h.id, err)
	}
	return nil
}

type accompanying struct {
	Companion
	// h is of the session's newest incarnation.
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
	// It is closed, and the event that said so may be past retention.
	i, err := a.inspect(ctx)
	if err != nil || a.now.Destroyed {
		return err
	}
	return a.destroy(ctx, i.LastSeq)
}

// begin initialises or restores the companion; done reports that the session was closed and all of
// it was called.
func (a *accompanying) begin(ctx context.Context) (done bool, err error) {
	if err := a.renew(ctx); err != nil {
		return false, err
	}
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
	if a.now.Destroyed {
		// What has happened since begins with a reopening.
		return i.Status == StatusClosed && a.now.Seq >= i.LastSeq, nil
	}
	if err := a.lookBack(ctx); err != nil {
		return false, err
	}
	if known {
		return false, a.restore(ctx, i)
	}
	if a.OnInit != nil {
		if err := a.OnInit(ctx, a.ref(i)); err != nil {
			return false, err
		}
	}
	a.now.Seq = i.LastSeq
	return false, a.store(ctx)
}

// renew addresses the session's newest incarnation.
func (a *accompanying) renew(ctx context.Context) error {
	h, err := a.h.c.Get(ctx, a.h.id)
	if err == nil {
		a.h = h
	}
	return err
}

// lookBack finds the requests that are open now.
func (a *accompanying) lookBack(ctx context.Context) error {
	tail, err := a.h.c.o.Stream.Tail(ctx, a.h.id)
	if err != nil && !errors.Is(err, stream.ErrNotFound) {
		return err
	}
	a.past, a.open = tail.LastSeq, map[string]bool{}
	requests, err := a.h.c.Requests(ctx, a.h.id)
	for _, ev := range requests {
		a.open[ev.Payload.(event.PermissionRequested).RequestID] = true
	}
	if errors.Is(err, stream.ErrNotFound) {
		return nil
	}
	return err
}

func (a *accompanying) restore(ctx context.Context, i Inspection) error {
	if a.OnRestore == nil {
		return nil
	}
	return a.OnRestore(ctx, a.ref(i), a.now.State)
}

// inspect returns the session's state. That of a closed one is in its record: its workflow has not
// learned what was stored behind its end.
func (a *accompanying) inspect(ctx context.Context) (Inspection, error) {
	i, err := a.h.Inspect(ctx)
	if err == nil && i.Status != StatusClosed {
		return i, nil
	}
	known, lerr := a.h.c.lookup(ctx, a.h.id)
	data, serr := a.h.c.o.Archive.Session(ctx, a.h.id)
	if lerr == nil && serr == nil && !known.open {
		return inspectClosed(data)
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
		return a.answer(ctx, ev, p)
	case event.SessionInitialized:
		return a.reopened(ctx, ev.Context.Seq)
	case event.SessionClosed:
		return a.destroy(ctx, ev.Context.Seq)
	}
	return nil
}

// reopened restores a companion whose session was closed. An execution's end restores it too: the
// event of the reopening may be past retention.
func (a *accompanying) reopened(ctx context.Context, seq uint64) error {
	if !a.now.Destroyed {
		return nil
	}
	err := errors.Join(a.renew(ctx), a.lookBack(ctx))
	if err != nil {
		return err
	}
	i, err := a.inspect(ctx)
	if err != nil {
		return err
	}
	if err := a.restore(ctx, i); err != nil {
		return err
	}
	a.now.Seq, a.now.Destroyed = seq, false
	return a.store(ctx)
}

func (a *accompanying) persist(ctx context.Context, seq uint64, r Result) error {
	if err := a.reopened(ctx, seq-1); err != nil || a.OnPersist == nil {
		return err
	}
	i, err := a.inspect(ctx)
	if err != nil {
		return err
	}
	state, err := a.OnPersist(ctx, a.ref(i), r)
	if err != nil {
		return err
	}
	if len(state) > MaxCompanionState {
		return Invalid("state", fmt.Sprintf("is %d bytes", len(state)), fmt.Sprintf("at most %d bytes", MaxCompanionState))
	}
	if a.now.Seq = seq; state != nil {
		a.now.State = state
	}
	return a.store(ctx)
}

func (a *accompanying) answer(ctx context.Context, ev event.Event, call event.PermissionRequested) error {
	if a.OnToolCall == nil || ev.Context.Seq <= a.past && !a.open[call.RequestID] {
		return nil
	}
	if open, err := a.stillOpen(ctx, ev); err != nil || !open {
		return err
	}
	i, err := a.inspect(ctx)
	if err != nil {
		return err
	}
	answer, err := a.OnToolCall(ctx, a.ref(i), call)
	if err != nil || answer == nil {
		return err
	}
	answer.By = cmp.Or(answer.By, companionPrefix+a.Name)
	err = a.h.RespondTo(ctx, ev, *answer)
	if invalid, ok := errors.AsType[*InvalidError](err); ok && invalid.Field == "input" {
		err = a.h.RespondTo(ctx, ev, RespondRequest{Message: invalid.Error(), By: answer.By})
	}
	if invalid, ok := errors.AsType[*InvalidError](err); ok && invalid.Field == "requestId" || errors.Is(err, ErrClosed) {
		return nil // it was answered meanwhile, by a rule, a person or the turn's end
	}
	return err
}

// stillOpen reports whether what follows a request has no answer to it, as one by a rule is at once.
func (a *accompanying) stillOpen(ctx context.Context, ev event.Event) (bool, error) {
	open := OpenRequests(nil, ev)
	for next, err := range a.h.c.left(ctx, a.h.id, ev.Context.Seq, false) {
		if err != nil {
			return false, err
		}
		open = OpenRequests(open, next)
	}
	return slices.ContainsFunc(open, func(o event.Event) bool { return o.Context.Seq == ev.Context.Seq }), nil
}

func (a *accompanying) destroy(ctx context.Context, seq uint64) error {
	if a.now.Destroyed {
		return nil // a session's end may be said twice
	}
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
