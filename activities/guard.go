package activities

import (
	"context"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// ResetGuard refuses activities of a run that was reset and whose stream has more than the
// run knows: they fail with session.TypeFenced before they do anything, and the run catches
// up. A worker of sessions must have it.
func ResetGuard(log *stream.Log) interceptor.WorkerInterceptor { return &resetGuard{log: log} }

type resetGuard struct {
	interceptor.WorkerInterceptorBase
	log *stream.Log
}

// InterceptActivity adds the guard to an activity.
func (g *resetGuard) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &guardedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, g.log}
}

type guardedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	log *stream.Log
}

// ExecuteActivity refuses the activity or runs it.
func (a *guardedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if len(in.Args) == 1 {
		info := activity.GetInfo(ctx)
		if w := writeOf(in.Args[0], info.Attempt > 1); w.reset {
			// The session's workflow has the session's id.
			if err := notAhead(ctx, a.log, info.WorkflowExecution.ID, w); err != nil {
				return nil, toApplicationError(err)
			}
		}
	}
	return a.Next.ExecuteActivity(ctx, in)
}

// write is what the guard needs of an activity's input.
type write struct {
	// reset reports whether the run was reset; after is its last known event.
	reset bool
	after uint64
	// repeats reports whether an earlier attempt of the same activity may have appended an
	// event; nil if none may.
	repeats func(event.Payload) bool
}

// writeOf returns what the guard needs of the activities that write for a session's run;
// the zero write for all others. again reports whether the activity was tried before.
func writeOf(input any, again bool) write {
	switch in := input.(type) {
	case contract.BeginInput:
		return write{reset: in.Reset, after: in.Session.LastSeq}
	case contract.CreateSandboxInput:
		return write{reset: in.Reset, after: in.LastSeq}
	case contract.EmitInput:
		return write{in.Reset, in.LastSeq, func(p event.Payload) bool {
			return again && slices.ContainsFunc(in.Events, func(own event.Event) bool { return decideTheSame(own.Payload, p) })
		}}
	case contract.RunTurnInput:
		return write{in.Reset, in.LastSeq, func(p event.Payload) bool {
			_, started := p.(event.QueryStarted)
			return started || again && ends(p, in.ExecutionID, in.Message.ID)
		}}
	case contract.EndSandboxInput:
		return write{in.Reset, in.LastSeq, func(p event.Payload) bool { return terminates(p, in.Sandbox.ID) }}
	case contract.FinishInput:
		return write{in.Reset, in.Record.LastSeq, func(p event.Payload) bool { _, is := p.(event.SessionClosed); return is }}
	}
	return write{}
}

// decideTheSame reports whether an event of the stream decides what an emission's own does.
func decideTheSame(own, found event.Payload) bool {
	if e, ok := own.(event.EETerminated); ok {
		return terminates(found, e.SandboxID)
	}
	messages := endedMessages(own)
	if len(messages) == 0 {
		return false
	}
	res, _ := session.ResultOf(event.Event{Payload: own}, messages[0])
	return event.TypeOf(own) == event.TypeOf(found) && ends(found, res.ExecutionID, messages[0])
}

func terminates(p event.Payload, sandboxID string) bool {
	e, ok := p.(event.EETerminated)
	return ok && e.SandboxID == sandboxID
}

// ends reports whether an event ends the execution of a message.
func ends(p event.Payload, executionID, messageID string) bool {
	res, ok := session.ResultOf(event.Event{Payload: p}, messageID)
	return ok && res.ExecutionID == executionID
}

// notAhead returns errAhead if the stream has anything, after the run's last known event,
// that changes what a workflow would do.
func notAhead(ctx context.Context, log *stream.Log, sessionID string, w write) error {
	var found event.Payload
	err := eachAfter(ctx, log, sessionID, w.after, func(ev event.Event) bool {
		if decisive(ev.Payload) && (w.repeats == nil || !w.repeats(ev.Payload)) {
			found = ev.Payload
		}
		return found == nil
	})
	if err == nil && found != nil {
		err = fmt.Errorf("session %s: %s: %w", sessionID, event.TypeOf(found), errAhead)
	}
	return err
}

// decisive reports whether an event changes what a workflow would do.
func decisive(p event.Payload) bool {
	switch p.(type) {
	case event.QueryStarted, event.EEReady, event.EETerminated, event.SessionClosed:
		return true
	}
	return len(endedMessages(p)) > 0
}
