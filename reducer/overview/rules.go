package overview

import (
	"cmp"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/internal/normal"
)

// The statuses of an environment.
const (
	statusStarting   = "starting"
	statusReady      = "ready"
	statusUnhealthy  = "unhealthy"
	statusTerminated = "terminated"
)

// apply is the session's reducer, in two halves: the session's properties, and
// what runs for it.
func (b *Builder) apply(payload event.Payload, at time.Time) {
	s := &b.session
	switch p := payload.(type) {
	case event.SessionInitialized:
		s.initialized(p)
	case event.SessionIdle:
		s.failed(p.Error)
	case event.SessionClosed:
		s.Closed, s.Current, s.Permissions = true, nil, nil
	case event.OptionsUpdate:
		s.options(p)
	case event.MetadataUpdate:
		s.Model = cmp.Or(p.Model, s.Model)
		s.Totals = s.Meter.report(p)
	case event.PermissionRequested:
		s.Permissions = append(slices.Clip(without(s.Permissions, p.RequestID)), normalRequest(p))
	case event.PermissionResolved:
		s.Permissions = without(s.Permissions, p.RequestID)
	case event.Error:
		s.failed(&p.ErrorInfo)
	case event.Status:
		s.status(p)
	default:
		b.applyRunning(payload, at)
	}
}

func (b *Builder) applyRunning(payload event.Payload, at time.Time) {
	s := &b.session
	switch p := payload.(type) {
	case event.EECreating:
		s.newSandbox(p.Environment)
	case event.EEReady:
		s.environment(p.Environment, statusReady)
	case event.EETerminated:
		s.environment(p.Environment, statusTerminated)
	case event.EEError:
		s.environment(p.Environment, statusUnhealthy)
	case event.EEHealthCheck:
		p.LastHealthCheck = cmp.Or(p.LastHealthCheck, at)
		s.environment(p.Environment, "")
	case event.QueryStarted:
		s.Current = &Execution{Query: normalQuery(p.Query), Status: QueryRunning, StartedAt: at}
	case event.QueryCompleted:
		s.ended(p.Query, QueryCompleted, at)
	case event.QueryFailed:
		s.ended(p.Query, QueryFailed, at)
		s.failed(p.Error)
	case event.QueryInterrupted:
		s.ended(p.Query, QueryInterrupted, at)
	default:
		b.applyStored(payload, at)
	}
}

func (b *Builder) applyStored(payload event.Payload, at time.Time) {
	switch p := payload.(type) {
	case event.FileCreated:
		b.putFile(p.File, "created", at)
	case event.FileModified:
		b.putFile(p.File, "modified", at)
	case event.FileDeleted:
		b.putFile(p.File, "deleted", at)
	case event.TranscriptChanged:
		b.putTranscript(p.Transcript)
	case event.TranscriptWritten:
		b.putTranscript(p.Transcript)
	}
}

func (s *Session) initialized(p event.SessionInitialized) {
	s.Agent = cmp.Or(p.Agent, s.Agent)
	s.Profile = cmp.Or(p.Profile, s.Profile)
	s.Title = cmp.Or(p.Title, s.Title)
	s.Parent = cmp.Or(p.Parent, s.Parent)
	s.Closed = false
	s.Reopened = s.Reopened || p.Reopened
}

func (s *Session) options(p event.OptionsUpdate) {
	s.Title = *cmp.Or(p.Title, &s.Title)
	s.Model = *cmp.Or(p.Model, &s.Model)
	s.PermissionMode = *cmp.Or(p.PermissionMode, &s.PermissionMode)
	if p.Tags != nil {
		s.Tags = slices.Clip(p.Tags)
	}
	if len(p.Metadata) == 0 {
		return
	}
	s.Metadata = copyOf(s.Metadata)
	for k, v := range p.Metadata {
		s.Metadata[k] = normal.RawOrNull(v)
	}
}

func (s *Session) status(p event.Status) {
	s.State = cmp.Or(p.State, s.State)
	s.Epoch = cmp.Or(p.Epoch, s.Epoch)
	s.Attempt = cmp.Or(p.Attempt, s.Attempt)
	if p.Runtime == nil {
		return
	}
	if p.Runtime.Sandbox != nil {
		s.environment(*p.Runtime.Sandbox, "")
		return
	}
	// No sandbox runs any more; the last one's data is kept.
	if s.Environment != nil {
		s.environment(event.Environment{}, statusTerminated)
	}
}

// newSandbox discards the data of the previous sandbox, except for the count.
func (s *Session) newSandbox(env event.Environment) {
	if s.Environment != nil {
		env.RestartCount = cmp.Or(env.RestartCount, s.Environment.RestartCount)
	}
	s.Environment = nil
	s.environment(env, statusStarting)
	// A fresh sandbox has a fresh agent process, which counts from zero.
	s.Meter.restart()
}

// environment merges the fields that are set; a status takes precedence over the one that
// the kind of event implies.
func (s *Session) environment(given event.Environment, implied string) {
	var env event.Environment
	if s.Environment != nil {
		env = *s.Environment
	}
	status := cmp.Or(given.Status, implied, env.Status)
	if status == statusReady && env.Status != statusReady {
		env.Reason, env.Message = "", ""
	}
	env.Status = status
	env.SandboxID = cmp.Or(given.SandboxID, env.SandboxID)
	env.Host = cmp.Or(given.Host, env.Host)
	env.Provider = cmp.Or(given.Provider, env.Provider)
	env.RestartCount = cmp.Or(given.RestartCount, env.RestartCount)
	env.Reason = cmp.Or(given.Reason, env.Reason)
	env.Message = cmp.Or(given.Message, env.Message)
	if at := normal.Time(given.LastHealthCheck); !at.IsZero() {
		env.LastHealthCheck = at
	}
	s.Environment = &env
}

// ended moves the execution to Last, and ends its requests: a lost host never answers them.
// It keeps what the start had and the end does not repeat.
func (s *Session) ended(q event.Query, status ExecutionStatus, at time.Time) {
	x := Execution{Query: normalQuery(q), Status: status, EndedAt: at}
	if s.Current != nil && s.Current.ExecutionID == q.ExecutionID {
		x.StartedAt = s.Current.StartedAt
		x.Message = cmp.Or(x.Message, s.Current.Message)
		if len(x.MessageIDs) == 0 {
			x.MessageIDs = s.Current.MessageIDs
		}
		s.Current = nil
	}
	s.Last = &x
	if !q.Queued {
		s.Permissions = nil
	}
}

func (s *Session) failed(err *event.ErrorInfo) {
	if err != nil {
		s.LastError = normalError(err)
	}
}

func normalQuery(q event.Query) event.Query {
	q.Error = normalError(q.Error)
	if len(q.MessageIDs) == 0 {
		q.MessageIDs = nil
	}
	return q
}

func normalError(err *event.ErrorInfo) *event.ErrorInfo {
	if err == nil {
		return nil
	}
	e := *err
	e.Data = normal.Raw(e.Data)
	return &e
}

func normalRequest(p event.PermissionRequested) event.PermissionRequested {
	p.Input, p.Questions = normal.Raw(p.Input), normal.Raw(p.Questions)
	return p
}
