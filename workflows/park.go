package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

// lose counts another sandbox that the execution has lost. Earlier decisions are carried:
// they may not have been sent to the agent yet.
func (t *turn) lose(l session.Lost) *session.Lost {
	if had := t.lost; had != nil {
		l.Times, l.Parks, l.Parked, l.Ticks = had.Times, had.Parks, had.Parked, had.Ticks
	}
	l.Times++
	return &l
}

// park gives up the sandbox of a turn that waits for a person. The answer resumes the turn
// as after a loss.
func (r *run) park(out contract.RunTurnOutput) {
	cur := r.cur
	cur.lost = cur.lose(session.Lost{AfterSeq: cur.after, Why: "the turn was parked to wait for a person"})
	cur.lost.Parks++
	if out.Ticks != nil {
		cur.lost.Ticks += *out.Ticks
	}
	cur.lost.Parked = out.Parked
	cur.parked, cur.waiting = true, out.Parked.Open()
	r.addUsage(out)
	for r.st.Sandbox != nil {
		cur.lost.Host = r.st.Sandbox.Host
		if r.endSandbox(contract.EndSandboxInput{Reason: "parked"}) {
			cur.hosts++ // what it had not archived is lost
		}
	}
}

// awaitAnswers waits while the turn is parked: until all its requests are answered, or it
// is interrupted. Only the deadline has a timer.
func (r *run) awaitAnswers() error {
	cur := r.cur
	if cur.lost == nil || len(cur.lost.Parked.Open()) == 0 {
		return nil
	}
	p := cur.lost.Parked
	cur.parked, cur.waiting = true, p.Open()
	r.publish()
	over := func() bool {
		return cur.interrupted || cur.found != nil || len(p.Requests) == 0 && r.outboxEmpty()
	}
	for !over() {
		late, next := p.Late(workflow.Now(r.ctx))
		for _, d := range late {
			r.decide(d.ID, d)
		}
		if err := r.awaitWithin(next, func() bool { return over() || r.mayContinue() }); err != nil {
			return err
		}
		if r.drain(r.ctx); !over() && r.mayContinue() {
			r.carryTurn()
			return errMakeWay
		}
	}
	cur.parked, cur.waiting = false, nil
	r.publish()
	return workflow.Await(r.ctx, func() bool { return !r.writing })
}

// awaitWithin waits until ready returns true, for d at most; 0 is without limit.
func (r *run) awaitWithin(d time.Duration, ready func() bool) error {
	if d == 0 {
		return workflow.Await(r.ctx, ready)
	}
	_, err := awaitAtMost(r.ctx, d, ready)
	return err
}

// decide takes the answer to a request with which the turn is, or was, parked. It reports
// whether there is such a request. The first answer counts.
func (r *run) decide(id string, answer permission.Decision) bool {
	if r.cur == nil || r.cur.lost == nil {
		return false
	}
	known, first := r.cur.lost.Parked.Decide(id, answer)
	if first {
		r.cur.waiting = r.cur.lost.Parked.Open()
		decision := map[bool]string{true: string(permission.Allow), false: string(permission.Deny)}[answer.Allow]
		r.notify(event.PermissionResolved{RequestID: id, Decision: decision, By: answer.By, Message: answer.Message})
		r.publish()
	}
	return known
}
