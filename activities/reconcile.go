package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// Reconciler cleans up behind sessions whose workflow was ended from outside.
type Reconciler struct {
	Temporal client.Client
	Stream   *stream.Log
	Archive  *archive.Archive
	// Agents read what lies in the archive of a session whose host is gone.
	Agents adapters.Registry
}

// Remains is what a session's workflow knew when it was ended; its query
// remains answers with it.
type Remains struct {
	Agent   Agent            `json:"agent"`
	Record  session.Record   `json:"record"`
	Sandbox *session.Sandbox `json:"sandbox,omitempty"`
	// Turn is above every turn that was fenced.
	Turn int `json:"turn"`
	// Running is the message that was being answered, and Since a sequence
	// number before everything of it, with the last block there.
	Running *Owed    `json:"running,omitempty"`
	Since   *Running `json:"since,omitempty"`
	Waiting []Owed   `json:"waiting,omitempty"`
	// Unlisted as in FinishInput.
	Unlisted bool `json:"unlisted,omitempty"`
}

// Owed is a message that was accepted.
type Owed struct {
	ExecutionID string `json:"executionId"`
	MessageID   string `json:"messageId"`
	// Title is the message's first line, cut.
	Title string `json:"title"`
}

// DeadOutput says whether a session is to be cleaned up, and what of it.
type DeadOutput struct {
	// Dead is false for one that is open again, or has closed itself.
	Dead bool `json:"dead"`
	// Why is how it died, in words.
	Why     string  `json:"why,omitempty"`
	Remains Remains `json:"remains"`
}

// LookAtDead asks Temporal how a session ended, and its workflow, which answers
// when it is closed too, what is left.
func (r *Reconciler) LookAtDead(ctx context.Context, in session.Dead) (DeadOutput, error) {
	out, err := r.lookAtDead(ctx, in)
	return out, crossing(err)
}

func (r *Reconciler) lookAtDead(ctx context.Context, in session.Dead) (out DeadOutput, err error) {
	status, dead, err := r.dead(ctx, in)
	if err != nil || !dead {
		return out, err
	}
	out.Dead, out.Why = true, whyDead(status)
	if out.Remains, err = r.remains(ctx, in); err != nil {
		return out, err
	}
	unread, err := r.unread(ctx, in)
	for _, o := range unread {
		if !slices.ContainsFunc(out.Remains.Waiting, func(known Owed) bool { return known.MessageID == o.MessageID }) {
			out.Remains.Waiting = append(out.Remains.Waiting, o)
		}
	}
	return out, err
}

// remains are what the session's workflow knew, or could know.
func (r *Reconciler) remains(ctx context.Context, in session.Dead) (rem Remains, err error) {
	answer, err := r.Temporal.QueryWorkflow(ctx, in.SessionID, in.RunID, session.QueryRemains)
	if err == nil {
		return rem, answer.Get(&rem)
	}
	var failed *serviceerror.QueryFailed
	var early *serviceerror.WorkflowNotReady
	if !errors.As(err, &failed) && !errors.As(err, &early) || busy(failed) {
		return rem, err
	}
	return r.beginnings(ctx, in)
}

// deadlockCode begins what a worker says of a workflow that has run for longer
// than its deadlock detector allows; see docs.temporal.io/references/errors.
const deadlockCode = "[TMPRL1101]"

// busy reports whether a query failed for its worker's want of time: the next try
// may not.
func busy(failed *serviceerror.QueryFailed) bool {
	return failed != nil && strings.Contains(failed.Message, deadlockCode)
}

// unread are the messages of signals that came behind the last task that the
// workflow completed: it was ended before it saw them. A signal that is no
// message was refused then and is left out.
func (r *Reconciler) unread(ctx context.Context, in session.Dead) (out []Owed, err error) {
	events := r.Temporal.GetWorkflowHistory(ctx, in.SessionID, in.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		ev, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("read the history of session %s: %w", in.SessionID, err)
		}
		if ev.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			out = nil
		}
		signal := ev.GetWorkflowExecutionSignaledEventAttributes()
		if name := signal.GetSignalName(); name != session.SignalMessage && name != session.SignalQueue {
			continue
		}
		m, err := session.MessageOf(ctx, r.Archive, signal.GetInput())
		if invalid := (*session.InvalidError)(nil); errors.As(err, &invalid) {
			continue
		}
		if err != nil {
			return nil, err
		}
		id := cmp.Or(m.ID, fmt.Sprintf("signal-%d", ev.GetEventId()))
		out = append(out, Owed{ExecutionID: "unread-" + id, MessageID: id, Title: turn.Truncate(m.Text, 60)})
	}
	return out, nil
}

// beginnings are the remains of a session whose workflow can't say anything: it
// never ran, or can't be replayed. What it was made with is known, and its
// record, if it had one.
func (r *Reconciler) beginnings(ctx context.Context, in session.Dead) (Remains, error) {
	var made session.Input
	first, err := r.Temporal.GetWorkflowHistory(ctx, in.SessionID, in.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
	if err == nil {
		made, err = session.InputOf(ctx, r.Archive, first.GetWorkflowExecutionStartedEventAttributes().GetInput())
	}
	if err != nil {
		return Remains{}, fmt.Errorf("read what session %s was made with: %w", in.SessionID, err)
	}
	rem := Remains{Unlisted: made.Unlisted()}
	if m := made.First; m != nil {
		rem.Waiting = []Owed{{ExecutionID: session.FirstExecution, MessageID: m.ID, Title: turn.Truncate(m.Text, 60)}}
	}
	rem.Record, err = r.record(ctx, in.SessionID)
	if errors.Is(err, archive.ErrNotFound) {
		rem.Record, err = session.Record{Options: made.Options, Native: 1, Executions: made.Executions, LastSeq: made.LastSeq}, nil
	}
	rem.Agent = Agent{SessionID: in.SessionID, Name: made.Options.Agent, Native: max(rem.Record.Native, 1)}
	return rem, err
}

// dead says whether a session's last run is the one given, and was ended from
// outside.
func (r *Reconciler) dead(ctx context.Context, in session.Dead) (status enumspb.WorkflowExecutionStatus, dead bool, err error) {
	d, err := r.Temporal.DescribeWorkflowExecution(ctx, in.SessionID, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	info := d.GetWorkflowExecutionInfo()
	return info.GetStatus(), session.Died(info.GetStatus()) && info.GetExecution().GetRunId() == in.RunID, nil
}

func whyDead(s enumspb.WorkflowExecutionStatus) string {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		return "the session's workflow failed"
	case enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return "the session's workflow timed out"
	}
	return "the session was terminated"
}

// reason is how session:closed names the end.
func reason(why string) string {
	_, how, _ := strings.Cut(why, "workflow ")
	if how == "" {
		return "terminated"
	}
	return how
}

func (r *Reconciler) record(ctx context.Context, id string) (session.Record, error) {
	data, err := r.Archive.Session(ctx, id)
	if err != nil {
		return session.Record{}, err
	}
	return session.RecordOf(data)
}

// EpitaphInput asks for the last words on a dead session.
type EpitaphInput struct {
	Dead    session.Dead `json:"dead"`
	Why     string       `json:"why"`
	Remains Remains      `json:"remains"`
	// Lost says that the sandbox's host did not answer: what the agent said
	// last may not be in the archive.
	Lost bool `json:"lost,omitempty"`
}

// WriteEpitaph closes a dead session, under an epoch of its own: every message
// that was accepted and not answered is failed by name, the record and the
// list's marker are written, session:closed is appended. One that was reopened
// meanwhile is left alone.
func (r *Reconciler) WriteEpitaph(ctx context.Context, in EpitaphInput) error {
	return crossing(r.writeEpitaph(ctx, in))
}

func (r *Reconciler) writeEpitaph(ctx context.Context, in EpitaphInput) error {
	epoch, err := r.takeEpoch(ctx, in.Dead)
	if err != nil || epoch == 0 {
		return err
	}
	e, err := r.compose(ctx, in)
	if err != nil {
		return err
	}
	id, key := in.Dead.SessionID, "epitaph-"+in.Dead.RunID
	last, err := r.Stream.Emit(ctx, id, stream.Emission{
		Fence: stream.Fence{Epoch: epoch}, LastSeq: in.Remains.Record.LastSeq, Key: key, Events: slices.Concat(e.lost, e.words),
	})
	if err != nil {
		return err
	}
	entries, anchor := ownEntries(key, e.words, e.anchor)
	if err := r.Archive.AppendOwn(ctx, id, epoch, append(e.before, entries...)...); err != nil {
		return err
	}
	rec := in.Remains.Record
	rec.LastSeq, rec.LastBlockID = last, anchor
	if err := r.saveRecord(ctx, id, rec); err != nil {
		return err
	}
	if !in.Remains.Unlisted {
		if err := r.Archive.MarkClosed(ctx, id, epoch, time.Now()); err != nil {
			return err
		}
	}
	return r.Stream.Changed(ctx, id, stream.ChangeClosed)
}

// takeEpoch takes the session's next epoch, unless the session is open again:
// then it gives 0. Whoever reopens one starts its workflow before it takes an
// epoch, so that one of both sees the other.
func (r *Reconciler) takeEpoch(ctx context.Context, d session.Dead) (uint64, error) {
	for {
		seen, err := r.Archive.Epoch(ctx, d.SessionID)
		if err != nil {
			return 0, err
		}
		if _, dead, err := r.dead(ctx, d); err != nil || !dead {
			return 0, err
		}
		epoch, err := r.Archive.TakeEpochAfter(ctx, d.SessionID, seen)
		if !errors.Is(err, archive.ErrFenced) {
			return epoch, err
		}
	}
}

// saveRecord writes what the session came to. One that died before it had a
// record gets it now.
func (r *Reconciler) saveRecord(ctx context.Context, id string, rec session.Record) error {
	_, err := r.Archive.UpdateSession(ctx, id, rec.Apply)
	if !errors.Is(err, archive.ErrNotFound) {
		return err
	}
	data := archive.ListData{ID: id}
	if err := rec.Apply(&data); err != nil {
		return err
	}
	_, err = r.Archive.CreateSession(ctx, data)
	return err
}

// epitaph is what is to be said of a dead session.
type epitaph struct {
	// lost are about what the host took with it, words about the session.
	lost, words []event.Event
	// before are blocks of Sojourn's own that the host took with it.
	before []archive.OwnEntry
	// anchor is the last block before it that is sure to stay.
	anchor string
}

// compose finds what was answered and says what was not.
func (r *Reconciler) compose(ctx context.Context, in EpitaphInput) (epitaph, error) {
	since := TakeUpInput{SessionID: in.Dead.SessionID, LastSeq: in.Remains.Record.LastSeq, Anchor: in.Remains.Record.LastBlockID}
	if s := in.Remains.Since; s != nil {
		since.LastSeq, since.Anchor = s.AfterSeq, s.Anchor
	}
	p, err := readPast(ctx, r.Stream, since)
	if err != nil {
		return epitaph{}, err
	}
	var e epitaph
	if in.Lost {
		if e.lost, err = r.lost(ctx, in, since.LastSeq); err != nil {
			return e, err
		}
		for i, ev := range e.lost {
			ev.Context.Seq = p.seq + uint64(i) + 1 // which it will have
			p.blocks.Add(ev)
		}
		e.before = ownEntriesOf(p.blocks.Placed())
	}
	e.anchor = p.blocks.Last()
	e.words = lastWords(in, p)
	return e, nil
}

// lost marks what was said live and is in no transcript of the archive.
func (r *Reconciler) lost(ctx context.Context, in EpitaphInput, since uint64) ([]event.Event, error) {
	a, err := r.Agents.Get(in.Remains.Agent.Name)
	if err != nil {
		return nil, err
	}
	live, saved := reducer.NewBuilder(reducer.State{}), reducer.NewBuilder(reducer.State{})
	err = eachAfter(ctx, r.Stream, in.Dead.SessionID, since, func(ev event.Event) bool { live.Add(ev); return true })
	if err != nil {
		return nil, err
	}
	for ev, err := range r.Archive.Events(ctx, in.Dead.SessionID, a.Parse) {
		if err == nil {
			saved.Add(ev)
		}
	}
	running := ""
	if run := in.Remains.Running; run != nil {
		running = run.MessageID
	}
	return turn.Reconcile(promptIDs(a, running), live.State(), saved.State(), time.Now().UTC()), ctx.Err()
}

// lastWords fail what was not answered, in the stream and in the conversation,
// and close the session.
func lastWords(in EpitaphInput, p *past) []event.Event {
	info := event.ErrorInfo{Message: in.Why + " before this message was answered", Code: session.TypeTerminated}
	owed := in.Remains.Waiting
	if run := in.Remains.Running; run != nil {
		owed = append([]Owed{*run}, owed...)
	}
	var events []event.Event
	var names []string
	for _, o := range owed {
		end, ended := p.endOf(o.MessageID)
		if ended && (end.Error == nil || end.Error.Code != session.TypeTerminated) {
			continue
		}
		names = append(names, fmt.Sprintf("%s (%s)", o.Title, o.MessageID))
		if !ended {
			events = append(events, own(event.QueryFailed{Query: event.Query{ExecutionID: o.ExecutionID, MessageIDs: []string{o.MessageID}, Error: &info}}))
		}
	}
	text := in.Why
	if len(names) > 0 {
		text += " before these messages were answered: " + strings.Join(names, "; ")
	}
	if in.Lost {
		text += "; its host " + in.Remains.Sandbox.Host + " did not answer, and what was not archived is lost"
	}
	events = append(events, own(event.BlockUpsert{Block: event.Block{
		ID: "sojourn-" + in.Dead.RunID + "-terminated", Type: event.BlockSystem, Status: event.StatusComplete,
		Source: event.SourceServer, Subtype: "terminated", Message: event.Text(text),
	}}))
	return append(events, own(runtime(false)), own(event.SessionClosed{Reason: reason(in.Why)}))
}

// endOf is how a message's execution ended.
func (p *past) endOf(messageID string) (session.Result, bool) {
	for _, res := range p.results {
		if res.MessageID == messageID {
			return res, true
		}
	}
	return session.Result{}, false
}

// FindDeadInput says from when on dead sessions are looked for.
type FindDeadInput struct {
	After time.Time `json:"after,omitzero"`
}

// FindDeadOutput says from when on the next look has to be.
type FindDeadOutput struct {
	Next time.Time `json:"next"`
	// Found is how many dead sessions there were.
	Found int `json:"found,omitempty"`
}

// visibilityLag is how much later than it happened an end may be listed.
const visibilityLag = 10 * time.Minute

// FindDead has every session cleaned up that died since the time given. One
// that is found again is not cleaned up again.
func (r *Reconciler) FindDead(ctx context.Context, in FindDeadInput) (FindDeadOutput, error) {
	out := FindDeadOutput{Next: time.Now().UTC().Add(-visibilityLag)}
	query := "WorkflowType = '" + session.WorkflowType + "' AND ExecutionStatus IN ('Terminated', 'Failed', 'TimedOut', 'Canceled')"
	if !in.After.IsZero() {
		query += " AND CloseTime >= '" + in.After.UTC().Format(time.RFC3339) + "'"
	}
	var token []byte
	for more := true; more; more = len(token) > 0 {
		page, err := r.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, NextPageToken: token})
		if err != nil {
			return out, fmt.Errorf("find dead sessions: %w", err)
		}
		for _, info := range page.GetExecutions() {
			d := session.Dead{SessionID: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId()}
			if session.ValidateID("id", d.SessionID) != nil {
				continue // Anybody may start a workflow of our type under any id.
			}
			_, dead, err := r.dead(ctx, d)
			if err == nil && dead {
				out.Found++
				err = session.Reconcile(ctx, r.Temporal, d)
			}
			if err != nil {
				return out, err
			}
		}
		token = page.GetNextPageToken()
	}
	return out, nil
}
