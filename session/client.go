package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/stream"
)

// ClientOptions are the servers that a Client talks to. Temporal is required; a
// method that needs a part that is not set returns an error that names it.
type ClientOptions struct {
	// Temporal is not closed by Client.
	Temporal client.Client
	// Namespace is Temporal's namespace, for Delete. Default: default.
	Namespace string
	// Stream is the live event log, for Events, Wait and Show.
	Stream *stream.Log
	// Archive is for Show, List and reopening.
	Archive *archive.Archive
	// Agents are the adapters that sessions may use, and whose parsers Show uses.
	Agents adapters.Registry
	// Profile reports whether a profile exists. Default: any name is accepted, and an
	// unknown one fails the session at its first turn.
	Profile func(ctx context.Context, id string) error
	// MaxTimelineEntries is how many blocks of each conversation Show, ShowTree and Runtime
	// hold, the newest: a bound for the memory of a caller with sessions of any length. Stream and
	// archive have all; what a model is to see is chosen by a Timeline. Default: no limit.
	MaxTimelineEntries int
	// Interceptors are called around what this client asks: see Interceptor. Default: none.
	Interceptors []Interceptor
	// Callbacks returns what is called back of a session that Handle.Listen follows, before
	// those of the call. Default: none.
	Callbacks func(h *Handle) Callbacks
	// Tools are added to those of each session that this client creates, but for one that has a
	// tool of the same name. Default: none.
	Tools []Tool
	// OnBeforeRestore is called before a closed session is reopened, with its record,
	// whose Options it may change: the session continues with the changed options.
	// False cancels: Open returns ErrRestoreCanceled and the session stays closed.
	// Open returns its error. Default: every session is restored as it was.
	OnBeforeRestore func(ctx context.Context, id string, rec *Record) (bool, error)
	// OnAfterRestore is called when a closed session is open again.
	OnAfterRestore func(ctx context.Context, h *Handle)
}

// Client creates, finds and lists sessions. Safe for concurrent use.
type Client struct{ o ClientOptions }

// NewClient returns a client. It opens nothing and needs no Close.
func NewClient(o ClientOptions) (*Client, error) {
	if o.Temporal == nil {
		return nil, Invalid("Temporal", "is nil", "a Temporal client")
	}
	if len(o.Agents.Names()) == 0 {
		return nil, Invalid("Agents", "is empty", "a registry of adapters")
	}
	if o.MaxTimelineEntries < 0 {
		return nil, Invalid("maxTimelineEntries", "is negative", "0 (no limit) or more")
	}
	return &Client{o}, nil
}

// Create creates a session. An empty id is replaced by a new UUID. Errors: an
// InvalidError, ErrExists, ErrUnavailable. No sandbox is made before the first
// message, and after an error nothing remains.
func (c *Client) Create(ctx context.Context, id string, o Options) (*Handle, error) {
	if id == "" {
		id = uuid.NewString()
	}
	return c.created(ctx, id, &o, func(ctx context.Context) (*Handle, error) { return c.create(ctx, id, o) })
}

// created makes a session through the client's interceptors, once.
func (c *Client) created(ctx context.Context, id string, o *Options, start func(context.Context) (*Handle, error)) (*Handle, error) {
	o.Tools = withShared(o.Tools, c.o.Tools)
	made := &Handle{}
	call := &Call{Operation: OperationCreate, SessionID: id, Request: o, Reply: made}
	err := intercepted(ctx, c.o.Interceptors, call, func(ctx context.Context) error {
		if made.c != nil {
			return nil
		}
		h, err := start(ctx)
		if err == nil && h != nil {
			*made = *h
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if made.c == nil {
		return nil, fmt.Errorf("create session %s: an interceptor neither continued nor said why", id)
	}
	return made, nil
}

func (c *Client) create(ctx context.Context, id string, o Options) (*Handle, error) {
	if err := c.validateNew(ctx, id, o); err != nil {
		return nil, err
	}
	return c.start(ctx, Input{SessionID: id, Options: o, CreatedAt: time.Now().UTC()})
}

// validateNew refuses the id of a session that exists, too.
func (c *Client) validateNew(ctx context.Context, id string, o Options) error {
	if err := c.validate(ctx, id, o); err != nil {
		return err
	}
	_, err := c.lookup(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("session %s: %w", id, ErrExists)
}

// Run creates an ephemeral session for one message. It answers the message,
// closes by itself and is not listed. The handle is like any other; Wait for the
// receipt returns the answer.
func (c *Client) Run(ctx context.Context, o Options, m Message) (*Handle, Receipt, error) {
	id := uuid.NewString()
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	message := m.ID
	rec := Receipt{SessionID: id, MessageID: message, ExecutionID: FirstExecution}
	h, err := c.created(ctx, id, &o, func(ctx context.Context) (h *Handle, err error) {
		call := &Call{Operation: OperationSend, SessionID: id, Request: &m, Reply: &rec}
		err = intercepted(ctx, c.o.Interceptors, call, func(ctx context.Context) (err error) {
			if h == nil {
				m.ID = message
				h, err = c.run(ctx, id, o, m)
			}
			return err
		})
		return h, err
	})
	return h, rec, err
}

func (c *Client) run(ctx context.Context, id string, o Options, m Message) (*Handle, error) {
	if err := c.validate(ctx, id, o); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return c.start(ctx, Input{SessionID: id, Options: o, CreatedAt: time.Now().UTC(), First: &m, Ephemeral: true})
}

// Open gets or creates: it attaches to a session that is open, reopens one that
// is closed, with its earlier options, and creates an unknown one from o. An
// empty id is replaced by a new UUID. Error: ErrRestoreCanceled, and those of
// Create. With an error there is a handle if the session is open, but could not be
// configured with what was amended while it was reopened.
func (c *Client) Open(ctx context.Context, id string, o Options) (*Handle, error) {
	if id == "" {
		return c.Create(ctx, id, o)
	}
	if err := ValidateID("id", id); err != nil {
		return nil, err
	}
	h, err := c.openOnce(ctx, id, o)
	if errors.Is(err, ErrExists) {
		// Another process opened it between the look-up and the start.
		return c.openOnce(ctx, id, o)
	}
	return h, err
}

func (c *Client) openOnce(ctx context.Context, id string, o Options) (*Handle, error) {
	known, err := c.lookup(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return c.Create(ctx, id, o)
	case err != nil:
		return nil, err
	case known.open:
		return &Handle{c: c, id: id, first: known.first}, nil
	case known.terminated:
		if err := c.awaitReconciled(ctx, TerminatedRun{SessionID: id, RunID: known.run}); err != nil {
			return nil, err
		}
	}
	return c.reopen(ctx, id)
}

// Get finds a session, open or closed. Error: ErrNotFound.
func (c *Client) Get(ctx context.Context, id string) (*Handle, error) {
	if err := ValidateID("id", id); err != nil {
		return nil, err
	}
	known, err := c.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Handle{c: c, id: id, first: known.first}, nil
}

// IsOpen reports whether a session is open. It needs Temporal alone, and the archive for one that
// Temporal no longer retains. Error: ErrNotFound.
func (c *Client) IsOpen(ctx context.Context, id string) (bool, error) {
	if err := ValidateID("id", id); err != nil {
		return false, err
	}
	known, err := c.lookup(ctx, id)
	return known.open, err
}

func (c *Client) validate(ctx context.Context, id string, o Options) error {
	if err := ValidateID("id", id); err != nil {
		return err
	}
	if err := (Input{SessionID: id, Options: o}).Validate(id); err != nil {
		return err
	}
	if err := c.validateAgent(o); err != nil {
		return err
	}
	if o.Profile == "" || c.o.Profile == nil {
		return nil
	}
	return c.o.Profile(ctx, o.Profile)
}

// validateAgent refuses an agent that is unknown, and bounds that would not bind it.
func (c *Client) validateAgent(o Options) error {
	agent, err := c.o.Agents.Get(o.Agent)
	switch {
	case err != nil:
		return Invalid("agent", fmt.Sprintf("%q is unknown", o.Agent), "one of "+c.agents())
	case agent.Info().Capabilities.Ticks:
		return nil
	case o.Limits.ModelCalls > 0:
		return Invalid("limits.modelCalls", o.Agent+" does not tell its model calls", "0, or an agent whose model calls are counted")
	case o.MaxTicks > 0:
		return Invalid("maxTicks", o.Agent+" does not tell its model calls", "0, or an agent whose model calls are counted")
	}
	return nil
}

func (c *Client) agents() string { return strings.Join(c.o.Agents.Names(), ", ") }

// found is the result of lookup.
type found struct {
	open bool
	// first is the run id of the first run of the workflow chain; "" for a session
	// that Temporal no longer retains.
	first string
	// run is the last run; terminated reports whether it was ended from outside.
	run        string
	terminated bool
}

// lookup queries Temporal, then the archive. Another program's workflow is no session.
func (c *Client) lookup(ctx context.Context, id string) (found, error) {
	d, err := c.o.Temporal.DescribeWorkflowExecution(ctx, id, "")
	info := d.GetWorkflowExecutionInfo()
	if err == nil && info.GetType().GetName() == WorkflowType {
		return found{
			open:       info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
			first:      info.GetFirstRunId(),
			run:        info.GetExecution().GetRunId(),
			terminated: TerminationOf(info.GetStatus()) != "",
		}, nil
	}
	var missing *serviceerror.NotFound
	if err != nil && !errors.As(err, &missing) {
		return found{}, c.unavailable(ctx, "look up session "+id, err)
	}
	if c.o.Archive == nil {
		return found{}, fmt.Errorf("session %s: %w", id, ErrNotFound)
	}
	if _, err := c.o.Archive.Session(ctx, id); err != nil {
		if errors.Is(err, archive.ErrNotFound) {
			return found{}, fmt.Errorf("session %s: %w", id, ErrNotFound)
		}
		return found{}, fmt.Errorf("look up session %s: %w", id, err)
	}
	return found{}, nil
}

// awaitReconciled waits until a terminated session is cleaned up: its pending
// messages must have failed before it is reopened.
func (c *Client) awaitReconciled(ctx context.Context, run TerminatedRun) error {
	if err := Reconcile(ctx, c.o.Temporal, run); err != nil {
		return err
	}
	if err := c.o.Temporal.GetWorkflow(ctx, reconcileID(run), "").Get(ctx, nil); err != nil {
		return c.unavailable(ctx, "clean up after session "+run.SessionID, err)
	}
	return nil
}

// reopen starts a new run of a closed session.
func (c *Client) reopen(ctx context.Context, id string) (*Handle, error) {
	if c.o.Archive == nil {
		return nil, fmt.Errorf("reopen session %s: no archive is configured", id)
	}
	data, err := c.o.Archive.Session(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("reopen session %s: %w", id, err)
	}
	rec, err := RecordOf(data)
	if err == nil && rec.Copying {
		err = errCopying(id)
	}
	if err != nil {
		return nil, fmt.Errorf("reopen session %s: %w", id, err)
	}
	if err := c.beforeRestore(ctx, id, &rec); err != nil {
		return nil, err
	}
	if rec.Options.Sandbox == SandboxParent {
		rec.Options.Sandbox = SandboxOwn // it has no parent any more
	}
	h, err := c.start(ctx, Input{SessionID: id, Options: rec.Options, CreatedAt: data.CreatedAt, Reopened: true, LastSeq: rec.LastSeq, Executions: rec.Executions})
	if err != nil {
		return nil, err
	}
	if err = h.amendedMeanwhile(ctx, data); err != nil {
		err = fmt.Errorf("session %s is open, without what was amended meanwhile: %w", id, err)
	}
	if c.o.OnAfterRestore != nil {
		c.o.OnAfterRestore(ctx, h)
	}
	return h, err
}

// beforeRestore calls the hook, if one is set. The options that it returns are
// validated like those of a new session.
func (c *Client) beforeRestore(ctx context.Context, id string, rec *Record) error {
	if c.o.OnBeforeRestore == nil {
		return nil
	}
	goOn, err := c.o.OnBeforeRestore(ctx, id, rec)
	switch {
	case err != nil:
		return fmt.Errorf("before session %s is restored: %w", id, err)
	case !goOn:
		return fmt.Errorf("session %s: %w", id, ErrRestoreCanceled)
	}
	return c.validate(ctx, id, rec.Options)
}

func (c *Client) start(ctx context.Context, in Input) (*Handle, error) {
	in.Version = StateVersion
	run, err := c.o.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       in.SessionID,
		TaskQueue:                                TaskQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		StaticSummary:                            in.Options.Title,
		Memo:                                     in.Memo(),
		WorkflowTaskTimeout:                      WorkflowTaskTimeout,
		TypedSearchAttributes:                    startAttributes(in),
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, WorkflowType, in)
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &started) {
		return nil, fmt.Errorf("session %s: %w", in.SessionID, ErrExists)
	}
	if err != nil {
		return nil, c.unavailable(ctx, "start session "+in.SessionID, err)
	}
	return &Handle{c: c, id: in.SessionID, first: run.GetRunID()}, nil
}

// startAttributes let a session be listed before its first workflow task.
func startAttributes(in Input) temporal.SearchAttributes {
	set := []temporal.SearchAttributeUpdate{
		AttrStatus.ValueSet(string(StatusIdle)),
		AttrAgent.ValueSet(in.Options.Agent),
		AttrRoot.ValueSet(in.SessionID),
	}
	if in.Ephemeral {
		set = append(set, AttrParent.ValueSet(ParentNone))
	}
	if in.Options.Profile != "" {
		set = append(set, AttrProfile.ValueSet(in.Options.Profile))
	}
	if in.Options.Title != "" {
		set = append(set, AttrTitle.ValueSet(in.Options.Title))
	}
	if in.Options.Tenant != "" {
		set = append(set, AttrTenant.ValueSet(in.Options.Tenant))
	}
	return temporal.NewSearchAttributes(set...)
}

// isLate reports whether Temporal has not answered in time.
func isLate(err error) bool {
	var late *serviceerror.DeadlineExceeded
	return errors.As(err, &late)
}

// isAway reports whether Temporal could not be reached. It is also how the server ends a
// query that no worker has answered.
func isAway(err error) bool {
	var away *serviceerror.Unavailable
	return errors.As(err, &away)
}

// isUnpolled reports whether Temporal has seen no worker ask for tasks for a while, and so
// does not wait for one to answer a query.
func isUnpolled(err error) bool {
	var unpolled *serviceerror.FailedPrecondition
	return errors.As(err, &unpolled)
}

// unavailable distinguishes "can't be reached" from other failures of Temporal, whose errors
// for the end of the caller's context are not those of package context.
func (c *Client) unavailable(ctx context.Context, op string, err error) error {
	away := isAway(err) || isLate(err)
	if ended := ctx.Err(); ended != nil {
		err = alsoError{err, ended}
	}
	if away {
		return fmt.Errorf("%s: Temporal: %w: %w", op, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// alsoError is an error that matches another one too.
type alsoError struct {
	error
	also error
}

func (e alsoError) Is(target error) bool { return target == e.also }

func (e alsoError) Unwrap() error { return e.error }
