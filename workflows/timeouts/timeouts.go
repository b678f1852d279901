// Package timeouts has the timeouts and retry policies of the activities, each with its
// reason.
package timeouts

import (
	"errors"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// permanent are the error types that no retry helps.
var permanent = []string{
	session.TypeInvalid, session.TypeNotFound, session.TypeAgentMissing, session.TypeAgentFailed,
	session.TypeFenced, session.TypeHostLost, session.TypeClosed,
}

// IsPermanent reports whether a retry can't help.
func IsPermanent(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && (app.NonRetryable() || slices.Contains(permanent, app.Type()))
}

// patient retries for as long as it takes: the stream, the archive or a worker may be
// unavailable, and what was accepted must be written.
var patient = &temporal.RetryPolicy{
	InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
	NonRetryableErrorTypes: permanent,
}

// Write is for the light writes to stream and archive. Each takes milliseconds; after 30 s
// a connection hangs and a new attempt is better.
var Write = workflow.ActivityOptions{
	TaskQueue:           session.TaskQueue,
	StartToCloseTimeout: 30 * time.Second,
	RetryPolicy:         patient,
}

// Create has no schedule-to-start limit: with no free slot anywhere the turn waits,
// visibly. Five minutes cover the copying in of a large session; the heartbeat detects a
// host that dies meanwhile.
var Create = workflow.ActivityOptions{
	TaskQueue:           session.CreateQueue,
	StartToCloseTimeout: 5 * time.Minute,
	HeartbeatTimeout:    10 * time.Second,
	RetryPolicy:         patient,
	// A sandbox that was made while the wait was cancelled has an owner.
	WaitForCancellation: true,
}

// CreateOn is [Create] for a sandbox in another one: that one's host needs no free slot, and is
// lost if no worker takes the task within 45 s.
func CreateOn(host string) workflow.ActivityOptions {
	opts := Create
	opts.TaskQueue, opts.ScheduleToStartTimeout = session.ControlQueue(host), 45*time.Second
	return opts
}

// Look waits for a sandbox of the parent as long as it takes, visibly.
var Look = workflow.ActivityOptions{
	TaskQueue:           session.TaskQueue,
	StartToCloseTimeout: 30 * time.Second,
	RetryPolicy:         patient,
}

// Turn: a turn may take days, so only the heartbeat detects its death: 3 s, at a heartbeat
// every second. A new attempt goes to the same host; if no worker takes it within 45 s,
// longer than the agent's lease of 40 s, the host is lost and no agent runs there any more.
func Turn(host string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              session.HostQueue(host),
		ScheduleToStartTimeout: 45 * time.Second,
		StartToCloseTimeout:    30 * 24 * time.Hour,
		HeartbeatTimeout:       3 * time.Second,
		RetryPolicy:            patient,
	}
}

// Control: the workflow sends a control again that was not taken within 10 s, so the
// activity itself is not retried.
func Control(host string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              session.ControlQueue(host),
		ScheduleToStartTimeout: 10 * time.Second,
		StartToCloseTimeout:    10 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}

// End: ending a sandbox waits for the archive as long as it takes, but not for a host
// without a worker for 45 s: what it had is in the archive or lost.
func End(host string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              session.ControlQueue(host),
		ScheduleToStartTimeout: 45 * time.Second,
		StartToCloseTimeout:    5 * time.Minute,
		HeartbeatTimeout:       10 * time.Second,
		RetryPolicy:            patient,
	}
}

// Check: a command in a sandbox ends in the time that it has. It takes the place of a turn, of
// which its session has none meanwhile, and runs again on the same host when the worker died;
// without the host there is no sandbox.
func Check(host string, takes time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              session.HostQueue(host),
		ScheduleToStartTimeout: 45 * time.Second,
		StartToCloseTimeout:    takes + time.Minute,
		HeartbeatTimeout:       10 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 3},
	}
}

// Watch: a child may live for months, so only the heartbeat detects that no worker waits
// for its end: 45 s, at a heartbeat every 15 s.
var Watch = workflow.ActivityOptions{
	TaskQueue:           session.WatchQueue,
	StartToCloseTimeout: 365 * 24 * time.Hour,
	HeartbeatTimeout:    45 * time.Second,
	RetryPolicy:         patient,
}

// Failure returns what ended an activity. A timeout has the failure of the attempt before
// as its cause, which ended nothing.
func Failure(err error) error {
	var activity *temporal.ActivityError
	if errors.As(err, &activity) {
		return activity.Unwrap()
	}
	return err
}

// HostLost reports whether the sandbox's host did not answer, or has lost the sandbox.
func HostLost(err error) bool {
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
	}
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == session.TypeHostLost
}

// Find: the list of what ended within a minute is short; after a long outage it may not be.
// The next run does the rest.
var Find = workflow.ActivityOptions{
	TaskQueue:           session.TaskQueue,
	StartToCloseTimeout: 5 * time.Minute,
	RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 3},
}

// Reported returns the error that a host itself gave; "" if it reported none.
func Reported(err error) string {
	if app, reported := Failure(err).(*temporal.ApplicationError); reported {
		return app.Message()
	}
	return ""
}

// ErrorInfo returns an activity's error as the conversation shows it.
func ErrorInfo(err error) event.ErrorInfo {
	switch failure := Failure(err).(type) {
	case *temporal.ApplicationError:
		return event.ErrorInfo{Message: failure.Message(), Code: failure.Type()}
	case *temporal.TimeoutError:
		if HostLost(err) {
			return event.ErrorInfo{Message: "the sandbox's host does not answer; the sandbox is given up", Code: session.TypeHostLost}
		}
		return event.ErrorInfo{Message: "the turn took longer than a turn may: " + failure.Error(), Code: session.TypeAgentFailed}
	}
	return event.ErrorInfo{Message: err.Error(), Code: session.TypeAgentFailed}
}
