// Package overview folds what a session's events have besides its conversation: where it
// runs, its executions, files and transcripts, and its usage. It is for readers that show a
// session, or wait for something in it; Sojourn itself doesn't need it.
//
// [Session] keeps the rules I1 to I3, I5 and I7 of package reducer.
package overview

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/internal/normal"
)

// Session is what a session's events have besides its conversation: where it runs, its
// executions, files and transcripts, and its usage. Like a conversation's state it is an
// immutable value; the zero value is a session without events.
//
// Events bear dense sequence numbers, and an event whose number is not above
// LastSeq has been folded already: it does nothing, so repeated delivery is
// harmless. Events of another session do nothing either.
type Session struct {
	SessionID string `json:"sessionId,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Profile   string `json:"profile,omitempty"`
	// Parent is the session that spawned this one.
	Parent         string                     `json:"parent,omitempty"`
	Title          string                     `json:"title,omitempty"`
	PermissionMode string                     `json:"permissionMode,omitempty"`
	Metadata       map[string]json.RawMessage `json:"metadata,omitempty"`
	Tags           []string                   `json:"tags,omitempty"`

	// State is the session's state by the last status event.
	State string `json:"state,omitempty"`
	// Epoch and Attempt are those of the last fence in the stream.
	Epoch   uint64 `json:"epoch,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Closed is set until the session is reopened; Reopened reports whether it ever
	// was.
	Closed   bool `json:"closed,omitempty"`
	Reopened bool `json:"reopened,omitempty"`

	// Environment is the sandbox, nil when none was ever made. An ended one is kept,
	// with status terminated and the reason.
	Environment *event.Environment `json:"environment,omitempty"`

	// Current is the execution that runs, Last the one that ended last.
	Current *Execution `json:"current,omitempty"`
	Last    *Execution `json:"last,omitempty"`

	// Permissions are the requests without an answer, in their order.
	Permissions []event.PermissionRequested `json:"permissions,omitempty"`

	// Files maps each workspace path to its latest change.
	Files map[string]FileChange `json:"files,omitempty"`
	// Transcripts maps main or a subagent's id to how much the archive holds.
	Transcripts map[string]event.Transcript `json:"transcripts,omitempty"`

	// Model is the last one reported; Totals are those of the whole session.
	Model  string `json:"model,omitempty"`
	Totals Totals `json:"totals"`
	// Meter computes Totals; see [Meter].
	Meter Meter `json:"meter"`

	LastError *event.ErrorInfo `json:"lastError,omitempty"`
	// LastSeq and LastActivity are those of the last event folded.
	LastSeq      uint64    `json:"lastSeq,omitempty"`
	LastActivity time.Time `json:"lastActivity,omitzero"`
}

// Execution is one query, from its start to its end.
type Execution struct {
	event.Query
	// Status is running, completed, failed or interrupted.
	Status    ExecutionStatus `json:"status"`
	StartedAt time.Time       `json:"startedAt,omitzero"`
	EndedAt   time.Time       `json:"endedAt,omitzero"`
}

// ExecutionStatus is the state of a query.
type ExecutionStatus string

// The statuses of a query.
const (
	QueryRunning     ExecutionStatus = "running"
	QueryCompleted   ExecutionStatus = "completed"
	QueryFailed      ExecutionStatus = "failed"
	QueryInterrupted ExecutionStatus = "interrupted"
)

// FileChange is the latest change of a workspace file. It holds no content: that
// would keep the whole workspace in every reader's memory.
type FileChange struct {
	// Change is created, modified or deleted.
	Change string    `json:"change"`
	Size   int64     `json:"size,omitempty"`
	SHA256 string    `json:"sha256,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// Runtime returns what runs for the session, as a status event would have it:
// loaded from the first activation until it is closed, with the sandbox while
// there is one.
func (s Session) Runtime() event.Runtime {
	r := event.Runtime{IsLoaded: s.SessionID != "" && !s.Closed}
	if s.Environment != nil && s.Environment.Status != statusTerminated {
		env := *s.Environment
		r.Sandbox = &env
	}
	return r
}

// Next returns s after e: pure and total. Only what changes is copied; to fold
// many events use a [Builder].
func (s Session) Next(e event.Event) Session {
	b := Builder{session: s}
	b.Add(e)
	return b.session
}

// Builder folds like [Session.Next], at a cost per event that does not
// grow with the number of files. The zero value is ready and empty. It is not
// safe for concurrent use.
type Builder struct {
	session Session
	// ownFiles and ownTranscripts mean that the map was copied and may be written to.
	ownFiles, ownTranscripts bool
}

// New continues from s, which is not written to.
func New(s Session) *Builder { return &Builder{session: s} }

// Session returns the session so far; later events don't change it.
func (b *Builder) Session() Session {
	b.ownFiles, b.ownTranscripts = false, false
	return b.session
}

// Add folds one event.
func (b *Builder) Add(e event.Event) {
	s, ctx := &b.session, e.Context
	repeated := ctx.Seq != 0 && ctx.Seq <= s.LastSeq
	foreign := ctx.SessionID != "" && s.SessionID != "" && ctx.SessionID != s.SessionID
	if e.Payload == nil || repeated || foreign {
		return
	}
	if s.SessionID == "" {
		s.SessionID = ctx.SessionID
	}
	s.LastSeq = max(s.LastSeq, ctx.Seq)
	if at := normal.Time(ctx.Timestamp); at.After(s.LastActivity) {
		s.LastActivity = at
	}
	b.apply(e.Payload, normal.Time(ctx.Timestamp))
}

func (b *Builder) putFile(f event.File, change string, at time.Time) {
	if !b.ownFiles {
		b.session.Files, b.ownFiles = copyOf(b.session.Files), true
	}
	b.session.Files[f.Path] = FileChange{Change: change, Size: f.Size, SHA256: f.SHA256, At: at}
}

func (b *Builder) putTranscript(t event.Transcript) {
	if !b.ownTranscripts {
		b.session.Transcripts, b.ownTranscripts = copyOf(b.session.Transcripts), true
	}
	b.session.Transcripts[t.ID] = t
}

func copyOf[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

func without(list []event.PermissionRequested, id string) []event.PermissionRequested {
	at := slices.IndexFunc(list, func(p event.PermissionRequested) bool { return p.RequestID == id })
	if at < 0 {
		return list
	}
	if len(list) == 1 {
		return nil
	}
	return slices.Delete(slices.Clone(list), at, at+1)
}
