package schedules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
)

// Spec is what a schedule starts, and when.
type Spec struct {
	// Job is started each time. Either Job or Message is required.
	Job *jobs.Input `json:"job,omitempty"`
	// Message is sent each time.
	Message *Message `json:"message,omitempty"`
	// Cron are times as in cron, with five fields: "0 9 * * 1-5". Cron or Every is
	// required.
	Cron []string `json:"cron,omitempty"`
	// Every is the time from one start to the next.
	Every time.Duration `json:"every,omitempty"`
	// Zone is the time zone of Cron, such as Europe/Berlin. Default: UTC.
	Zone string `json:"zone,omitempty"`
	// Jitter delays each start by a random time up to this. Default: none.
	Jitter time.Duration `json:"jitter,omitempty"`
	// Overlap is the policy for when the previous one is still running: skip, buffer-one,
	// buffer-all, cancel, terminate or allow. Default: skip.
	Overlap string `json:"overlap,omitempty"`
	// CatchUp is how late one is started that was missed. Default: Temporal's, a year.
	CatchUp time.Duration `json:"catchUp,omitempty"`
	// PauseOnFailure pauses the schedule when one has failed.
	PauseOnFailure bool `json:"pauseOnFailure,omitempty"`
}

// overlaps are Temporal's policies by their names here.
var overlaps = map[string]enumspb.ScheduleOverlapPolicy{
	"":           enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
	"skip":       enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
	"buffer-one": enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE,
	"buffer-all": enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
	"cancel":     enumspb.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER,
	"terminate":  enumspb.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER,
	"allow":      enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
}

// Overlaps returns the names of the policies for overlap.
func Overlaps() []string {
	names := slices.Sorted(maps.Keys(overlaps))
	return names[1:] // without the default's empty name
}

// Validate returns an error for the first invalid field.
func (s Spec) Validate() error {
	switch {
	case (s.Job == nil) == (s.Message == nil):
		return session.Invalid("job", "and message are both there, or neither", "one of them")
	case len(s.Cron) == 0 && s.Every == 0:
		return session.Invalid("cron", "and every are not there", "one of them")
	case s.Every < 0 || s.Every > 0 && s.Every < time.Second:
		return session.Invalid("every", "is "+s.Every.String(), "at least 1s")
	case s.Jitter < 0 || s.CatchUp < 0:
		return session.Invalid("jitter", "or catchUp is negative", "a time such as 10m")
	}
	for i, cron := range s.Cron {
		if n := len(strings.Fields(cron)); n != 5 {
			return session.Invalid(fmt.Sprintf("cron[%d]", i), fmt.Sprintf("%q has %d fields", cron, n), `five: minute, hour, day, month and weekday, such as "0 9 * * 1-5"`)
		}
	}
	if _, ok := overlaps[s.Overlap]; !ok {
		return session.Invalid("overlap", fmt.Sprintf("is %q", s.Overlap), strings.Join(Overlaps(), ", "))
	}
	if s.Zone != "" {
		if _, err := time.LoadLocation(s.Zone); err != nil {
			return session.Invalid("zone", err.Error(), "a time zone such as Europe/Berlin")
		}
	}
	if s.Job != nil {
		return s.Job.ValidateRepeated()
	}
	return s.Message.Validate()
}

// options returns the schedule as Temporal takes it.
func (s Spec) options(id string) client.ScheduleOptions {
	spec := client.ScheduleSpec{CronExpressions: s.Cron, Jitter: s.Jitter, TimeZoneName: s.Zone}
	if s.Every > 0 {
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: s.Every}}
	}
	action := &client.ScheduleWorkflowAction{ID: id, TaskQueue: session.TaskQueue, Workflow: MessageType, StaticSummary: s.memo().What}
	if s.Job != nil {
		action.Workflow, action.Args = jobs.Type, []any{*s.Job}
	} else {
		action.Args = []any{*s.Message}
	}
	return client.ScheduleOptions{
		ID: id, Spec: spec, Action: action, Overlap: overlaps[s.Overlap], CatchupWindow: s.CatchUp, PauseOnFailure: s.PauseOnFailure,
		Memo: map[string]any{memoName: s.memo()},
	}
}

// memoName marks the schedules of this package, with what lists show of them.
const memoName = "sojourn"

type memo struct {
	What string   `json:"what"`
	When []string `json:"when"`
}

// memo returns the spec in words.
func (s Spec) memo() memo {
	m := memo{When: slices.Clone(s.Cron)}
	if s.Every > 0 {
		m.When = append(m.When, "every "+s.Every.String())
	}
	if s.Zone != "" {
		m.When = append(m.When, s.Zone)
	}
	if s.Job != nil {
		m.What = "a job of " + s.Job.Options.Agent
	} else {
		m.What = "a message to session " + s.Message.SessionID
	}
	return m
}

// Create makes a schedule. Errors: *session.InvalidError, session.ErrExists.
func Create(ctx context.Context, t client.Client, id string, s Spec) error {
	if err := session.ValidateID("schedule id", id); err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return err
	}
	_, err := t.ScheduleClient().Create(ctx, s.options(id))
	var bad *serviceerror.InvalidArgument
	switch {
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning):
		return fmt.Errorf("schedule %s: %w", id, session.ErrExists)
	case errors.As(err, &bad):
		return session.Invalid("cron", bad.Message, `times such as "0 9 * * 1-5"`)
	case err != nil:
		return fmt.Errorf("schedule %s: %w", id, err)
	}
	return nil
}

// Entry is a schedule in a list.
type Entry struct {
	ID string `json:"id"`
	// What it starts, in words.
	What string `json:"what"`
	// When are its times, in words.
	When   []string `json:"when"`
	Paused bool     `json:"paused,omitempty"`
	Note   string   `json:"note,omitempty"`
	// Last is when it has started something last, Next when it does next; the zero time if
	// it has not, or won't.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`
	// LastWorkflow is the id of the workflow that was started last.
	LastWorkflow string `json:"lastWorkflow,omitempty"`
}

// List returns the namespace's schedules that this package has made, by id.
func List(ctx context.Context, t client.Client) ([]Entry, error) {
	all := []Entry{}
	it, err := t.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 1000})
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	for it.HasNext() {
		s, err := it.Next()
		if err != nil {
			return nil, fmt.Errorf("list schedules: %w", err)
		}
		if e, ours := entryOf(s); ours {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// entryOf returns a schedule of this package as an entry.
func entryOf(s *client.ScheduleListEntry) (e Entry, ours bool) {
	p, ours := s.Memo.GetFields()[memoName]
	if !ours {
		return e, false
	}
	var m memo
	if err := converter.GetDefaultDataConverter().FromPayload(p, &m); err != nil {
		m.What = "unknown: " + err.Error()
	}
	e = Entry{ID: s.ID, What: m.What, When: m.When, Paused: s.Paused, Note: s.Note}
	if n := len(s.RecentActions); n > 0 {
		last := s.RecentActions[n-1]
		e.Last = last.ActualTime
		if last.StartWorkflowResult != nil {
			e.LastWorkflow = last.StartWorkflowResult.WorkflowID
		}
	}
	if len(s.NextActionTimes) > 0 && !s.Paused {
		e.Next = s.NextActionTimes[0]
	}
	return e, true
}

// Pause stops the starts of a schedule; note is the reason, which lists show. Resume undoes
// that.
func Pause(ctx context.Context, t client.Client, id, note string) error {
	return failed(id, t.ScheduleClient().GetHandle(ctx, id).Pause(ctx, client.SchedulePauseOptions{Note: note}))
}

// Resume has a paused schedule start again.
func Resume(ctx context.Context, t client.Client, id string) error {
	return failed(id, t.ScheduleClient().GetHandle(ctx, id).Unpause(ctx, client.ScheduleUnpauseOptions{}))
}

// Trigger has a schedule start now, whatever is at work.
func Trigger(ctx context.Context, t client.Client, id string) error {
	return failed(id, t.ScheduleClient().GetHandle(ctx, id).Trigger(ctx, client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL}))
}

// Delete removes a schedule. Workflows that it has started continue.
func Delete(ctx context.Context, t client.Client, id string) error {
	return failed(id, t.ScheduleClient().GetHandle(ctx, id).Delete(ctx))
}

// failed returns the error of a request about a schedule.
func failed(id string, err error) error {
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("schedule %s: %w", id, session.ErrNotFound)
	case err != nil:
		return fmt.Errorf("schedule %s: %w", id, err)
	}
	return nil
}
