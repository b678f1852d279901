package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// requestClose asks the loop to finish. The first reason is kept.
func (r *run) requestClose(reason string) {
	if r.closing != "" {
		return
	}
	r.closing = reason
	r.closeChildren()
	if r.stopWaiting(); r.cur != nil {
		r.interrupt("the session closes")
	}
}

func (r *run) closeChildren() {
	for _, c := range r.st.Children {
		r.closeChild(c.SessionID)
	}
}

// finish ends the session: first the children, then what was not answered, the sandbox, the
// record. The last write may wait for the archive for hours; what arrives meanwhile is
// recorded under another epoch, and so is the end once more, behind it.
func (r *run) finish() error {
	r.publish()
	if err := workflow.Await(r.ctx, func() bool { return len(r.st.Children) == 0 }); err != nil {
		return err
	}
	for ended := false; ; {
		r.drain(r.ctx)
		if r.failQueue(); ended && r.outboxEmpty() {
			return nil
		}
		r.epochUnknown = r.epochUnknown || ended
		if err := workflow.Await(r.ctx, func() bool { return r.outboxEmpty() && workflow.AllHandlersFinished(r.ctx) }); err != nil {
			return err
		}
		switch {
		case len(r.st.Queue) > 0:
			// A signal arrived while that was written.
		case r.st.Sandbox != nil:
			r.endSandbox(contract.EndSandboxInput{Reason: "manual"})
		default:
			err := r.writeEnd()
			if ended = err == nil; !ended && !r.catchUp(r.ctx, err) {
				return err
			}
		}
	}
}

// maxBackground bounds how long background commands keep a sandbox, after the session's
// last activity.
const maxBackground = 24 * time.Hour

// endIdle ends the sandbox of a session that was idle for its idle timeout, unless commands
// run in it, or a child is open that is to: then the timeout starts again.
func (r *run) endIdle() {
	r.endSandbox(contract.EndSandboxInput{Reason: "idle", Shared: r.shares(), UnlessBusy: r.shares() || workflow.Now(r.ctx).Sub(r.st.LastActivity) < maxBackground})
	if len(r.st.Background) > 0 {
		r.idleLooks++
	}
}

// idleWait returns the idle timeout. Running background commands double it each time, up to
// the default: a check costs history.
func (r *run) idleWait() time.Duration {
	idle := time.Duration(r.st.IdleTimeoutMS) * time.Millisecond
	wait := idle
	for range r.idleLooks {
		wait = min(2*wait, max(idle, session.DefaultIdleTimeout))
	}
	return wait
}

// endSandbox archives and ends the sandbox. A lost host took its sandbox with it; the
// session continues without, and hostLost is true.
func (r *run) endSandbox(in contract.EndSandboxInput) (hostLost bool) {
	sb := *r.st.Sandbox
	defer r.waitFor("the sandbox on host " + sb.Host + " to be archived and ended")()
	ctx := workflow.WithActivityOptions(r.ctx, timeouts.End(sb.Host))
	in.Agent, in.Sandbox, in.LastSeq, in.Reset = r.agent(), sb, r.st.LastSeq, r.wasReset()
	var out contract.EndSandboxOutput
	err := workflow.ExecuteActivity(ctx, contract.ActivityEndSandbox, in).Get(ctx, &out)
	if r.catchUp(r.ctx, err) {
		// The state has changed: the caller reads it again.
		return false
	}
	if r.st.Background = out.Background; len(out.Background) > 0 {
		return false
	}
	r.st.Sandbox = nil
	if err != nil {
		r.st.Restarts++
		// The host may still have it: the notice takes a higher epoch, so that the host adds
		// nothing to what is taken from the stream, and ends the sandbox when it returns.
		r.epochUnknown = true
		r.st.ArchiveBehind = "the sandbox's host did not answer when it was ended"
		workflow.GetLogger(r.ctx).Error("a sandbox could not be ended", "sandbox", sb.ID, "host", sb.Host, "error", err)
		env := sb.Environment("terminated")
		env.Reason, env.Message = "unhealthy", timeouts.ErrorInfo(err).Message
		r.notify(event.EEError{Environment: env}, event.EETerminated{Environment: env})
		if werr := workflow.Await(r.ctx, r.outboxEmpty); werr != nil {
			workflow.GetLogger(r.ctx).Debug("wait ended early", "error", werr)
		}
	} else if u := r.st.Unarchived; u == nil || u.Epoch >= sb.Epoch {
		r.st.ArchiveBehind, r.st.Unarchived = "", nil
	}
	r.advance(out.LastSeq, "")
	r.publish()
	return err != nil
}

func (r *run) writeEnd() error {
	done := r.waitFor("stream and archive to take the session's end")
	ctx := workflow.WithActivityOptions(r.ctx, timeouts.Write)
	in := contract.FinishInput{
		Session: r.in, Epoch: r.st.Epoch, Record: r.record(), Reason: r.closing, Unlisted: r.in.Unlisted(), Lost: r.st.LostSandbox, Unarchived: r.st.Unarchived, Reset: r.wasReset(),
	}
	r.writing = true
	err := workflow.ExecuteActivity(ctx, contract.ActivityFinish, in).Get(ctx, nil)
	r.writing = false
	done()
	if err != nil {
		return fmt.Errorf("session %s: close: %w", r.in.SessionID, err)
	}
	r.st.LostSandbox, r.st.Unarchived, r.published.Status = nil, nil, ""
	r.publishAs(session.StatusClosed)
	return nil
}
