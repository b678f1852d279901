package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/details"
)

// published is what the search attributes said last, so that an upsert, which
// is an event in history, is made only for what changed.
type published struct {
	status   session.Status
	outcome  session.Outcome
	title    string
	host     string
	turns    int
	cost     *float64
	activity time.Time
	tags     []string
	complete bool
}

func (r *run) status() session.Status {
	switch {
	case r.cur != nil && len(r.cur.waiting) > 0:
		return session.StatusWaiting
	case r.cur != nil:
		return session.StatusRunning
	case r.pausedBy() != "":
		return session.StatusPaused
	default:
		return session.StatusIdle
	}
}

// publish shows the state to operators: the current details cost nothing in
// history, the search attributes one event when they changed.
func (r *run) publish() { r.publishAs(r.status()) }

func (r *run) publishAs(status session.Status) {
	workflow.SetCurrentDetails(r.ctx, r.details())
	now := published{
		status: status, outcome: r.st.Outcome, title: r.st.Title, turns: r.st.Turns, cost: r.st.CostUSD,
		activity: r.st.LastActivity, tags: r.st.Tags, complete: true,
	}
	if r.st.Sandbox != nil {
		now.host = r.st.Sandbox.Host
	}
	if updates := r.changes(now); len(updates) > 0 {
		if err := workflow.UpsertTypedSearchAttributes(r.ctx, updates...); err != nil {
			workflow.GetLogger(r.ctx).Error("search attributes could not be set", "error", err)
		}
	}
	r.published = now
}

func (r *run) changes(now published) []temporal.SearchAttributeUpdate {
	was := r.published
	var set []temporal.SearchAttributeUpdate
	if !was.complete {
		set = append(set, r.constants()...)
	}
	if now.status != was.status {
		set = append(set, session.AttrStatus.ValueSet(string(now.status)))
	}
	if now.outcome != was.outcome {
		set = append(set, session.AttrOutcome.ValueSet(string(now.outcome)))
	}
	if now.title != was.title {
		set = append(set, session.AttrTitle.ValueSet(now.title))
	}
	if now.host != was.host {
		set = append(set, keywordOrNone(session.AttrHost, now.host))
	}
	if now.turns != was.turns || !was.complete {
		set = append(set, session.AttrTurns.ValueSet(int64(now.turns)))
	}
	if now.cost != nil && (was.cost == nil || *now.cost != *was.cost || !was.complete) {
		set = append(set, session.AttrCostUSD.ValueSet(*now.cost))
	}
	if !now.activity.Equal(was.activity) {
		set = append(set, session.AttrLastActivity.ValueSet(now.activity))
	}
	if !slices.Equal(now.tags, was.tags) {
		set = append(set, session.AttrTags.ValueSet(now.tags))
	}
	return set
}

func keywordOrNone(key temporal.SearchAttributeKeyKeyword, v string) temporal.SearchAttributeUpdate {
	if v == "" {
		return key.ValueUnset()
	}
	return key.ValueSet(v)
}

// constants never change over a session's life.
func (r *run) constants() []temporal.SearchAttributeUpdate {
	set := []temporal.SearchAttributeUpdate{
		session.AttrAgent.ValueSet(r.in.Options.Agent),
		session.AttrRoot.ValueSet(r.root()),
		session.AttrDepth.ValueSet(int64(r.depth())),
	}
	if r.in.Options.Profile != "" {
		set = append(set, session.AttrProfile.ValueSet(r.in.Options.Profile))
	}
	if r.in.Options.Tenant != "" {
		set = append(set, session.AttrTenant.ValueSet(r.in.Options.Tenant))
	}
	switch {
	case r.in.Parent != nil:
		set = append(set, session.AttrParent.ValueSet(r.in.Parent.SessionID))
	case r.in.Ephemeral:
		set = append(set, session.AttrParent.ValueSet(session.ParentNone))
	}
	return set
}

func (r *run) listenQueries() error {
	return errors.Join(
		workflow.SetQueryHandler(r.ctx, session.QuerySnapshot, func() (session.Snapshot, error) { return r.snapshot(), nil }),
		workflow.SetQueryHandler(r.ctx, session.QueryInspect, func() (session.Inspection, error) { return r.inspect(), nil }),
		workflow.SetQueryHandler(r.ctx, session.QueryFinalState, r.finalState),
		workflow.SetQueryHandler(r.ctx, session.QueryResult, r.result),
	)
}

func (r *run) snapshot() session.Snapshot {
	s := session.Snapshot{
		Version: session.SnapshotVersion, SessionID: r.in.SessionID, Agent: r.in.Options.Agent,
		Profile: r.in.Options.Profile, Title: r.st.Title, Status: r.status(), Parent: r.in.Parent,
		Children: slices.Clone(r.st.Children), Aborted: r.st.Aborted, Queued: []session.Message{},
		Turns: r.st.Turns, Usage: r.st.Usage, CostUSD: r.st.CostUSD, LastSeq: r.st.LastSeq,
		Sandbox: r.st.Sandbox, Timestamp: workflow.Now(r.ctx),
	}
	if s.Children == nil {
		s.Children = []session.Child{}
	}
	for _, q := range r.st.Queue {
		s.Queued = append(s.Queued, q.Message)
	}
	if r.closing != "" {
		s.Status = session.StatusClosed
	}
	return s
}

func (r *run) inspect() session.Inspection {
	i := session.Inspection{
		Snapshot: r.snapshot(), Phase: r.phase(), WaitsFor: r.waitingFor, Options: r.options(), CreatedAt: r.in.CreatedAt,
		LastBlock: r.st.LastBlock, LastOutcome: r.st.Outcome, Pending: []string{}, Failure: r.st.Failure, ArchiveBehind: r.st.ArchiveBehind,
		Epoch: r.st.Epoch, Restarts: r.st.Restarts, HistoryLength: workflow.GetInfo(r.ctx).GetCurrentHistoryLength(),
	}
	i.WaitsFor = cmp.Or(i.WaitsFor, r.pausedBy())
	if r.cur != nil {
		i.CurrentExecution = r.cur.queued.ExecutionID
		i.Pending = append(i.Pending, r.cur.waiting...)
	}
	if n := len(r.st.Results); n > 0 && r.st.Results[n-1].Result != nil {
		last := r.st.Results[n-1].Result
		i.LastOutput, i.LastOutputTruncated = last.Response, last.Truncated
	}
	return i
}

func (r *run) phase() string {
	switch {
	case r.closing != "":
		return "closing"
	case !r.begun:
		return "beginning"
	case r.pausedBy() != "":
		return "paused"
	case r.cur == nil:
		return "idle"
	case r.cur.live && r.cur.interrupted:
		return "interrupting"
	case len(r.cur.waiting) > 0:
		return "waiting"
	case r.cur.live:
		return "turn"
	}
	return "waiting for a sandbox"
}

// result answers for one of the last executions, by execution or message id; ""
// is the last one.
func (r *run) result(id string) (session.Result, error) {
	for _, res := range slices.Backward(r.st.Results) {
		if id == "" || res.ExecutionID == id || res.MessageID == id {
			return res, nil
		}
	}
	if r.hasToRun(id) {
		return session.Result{}, session.ToTemporal(fmt.Errorf("execution %q: %w", id, session.ErrBusy))
	}
	return session.Result{}, session.ToTemporal(fmt.Errorf("execution %q: %w", id, session.ErrNotFound))
}

// hasToRun reports whether an execution runs or waits, by execution or message
// id.
func (r *run) hasToRun(id string) bool {
	is := func(q session.Queued) bool { return q.ExecutionID == id || q.Message.ID == id }
	return r.cur != nil && is(r.cur.queued) || slices.ContainsFunc(r.st.Queue, is)
}

// details returns the session in Markdown, for the Web UI.
func (r *run) details() string {
	i, now := r.inspect(), ""
	if r.cur != nil {
		now = titleOf(r.cur.queued.Message.Text)
	}
	return details.Markdown(i, now)
}

// waitFor shows what the run waits for, until the returned function is called.
// It costs nothing in history.
func (r *run) waitFor(what string) (done func()) {
	show := func(what string) {
		r.waitingFor = what
		workflow.SetCurrentDetails(r.ctx, r.details())
	}
	show(what)
	return func() { show("") }
}

// finalState is what a run leaves that is ended from outside.
func (r *run) finalState() (contract.FinalState, error) {
	st := contract.FinalState{
		Agent: r.agent(), Record: r.record(), Sandbox: r.st.Sandbox, Turn: r.nextTurn() + 1, Unlisted: r.in.Unlisted(),
	}
	if r.cur != nil {
		m := pendingMessage(r.cur.queued)
		st.Running = &m
		if run := r.running; run != nil && run.MessageID == m.MessageID {
			st.Since = run
		}
	}
	for _, q := range r.st.Queue {
		st.Waiting = append(st.Waiting, pendingMessage(q))
	}
	return st, nil
}

func pendingMessage(q session.Queued) contract.PendingMessage {
	return contract.PendingMessage{ExecutionID: q.ExecutionID, MessageID: q.Message.ID, Title: titleOf(q.Message.Text)}
}
