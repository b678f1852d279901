package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
)

// used returns what the session has used so far, the running turn's time included. Waiting
// for a sandbox doesn't count.
func (r *run) used() limits.Used {
	u := r.st.Used()
	if r.cur != nil && !r.cur.began.IsZero() {
		u.Work += workflow.Now(r.ctx).Sub(r.cur.began)
	}
	return u
}

// usedNow is used with what the running turn has used, which its host knows. It asks only if a
// child has a part of a limit.
func (r *run) usedNow(ctx workflow.Context, childID string) limits.Used {
	if cur, l := r.cur, r.st.Limits; r.runs(cur) && (l.CostUSD > 0 || l.Tokens > 0) {
		out, err := r.control(ctx, contract.ControlInput{ID: "used-" + childID, Usage: true})
		if err == nil && r.cur == cur { // else it has ended, and counts
			return r.used().Add(out.Usage, out.CostUSD, 0)
		}
	}
	return r.used()
}

// bounds returns what binds the running turn now.
func (r *run) bounds() *contract.Bounds {
	return &contract.Bounds{Limits: r.st.Limits, Used: r.st.Used()}
}

// limit returns the limit that was reached; "" for none.
func (r *run) limit() string { return r.st.Limits.Reached(r.used()) }

// pausedBy returns the limit that keeps a message from running; "" for none.
func (r *run) pausedBy() string {
	if r.cur != nil || !r.due() || r.runnable() {
		return ""
	}
	return r.limit()
}

// continueLater queues the continuation of the turn, if a limit interrupted it and nothing
// else did. The message waits, before all others, until the limit is raised.
func (r *run) continueLater(end session.Result) {
	if r.cur.interrupted || end.Outcome != session.Interrupted || end.Error == nil || end.Error.Code != session.TypeLimit {
		return
	}
	r.accept(session.Message{
		ID: "sojourn-continue-" + end.ExecutionID, Text: session.ContinueText, WhenBusy: session.BusyInterrupt, MaxTicks: r.cur.queued.Message.MaxTicks,
	}, false)
}
