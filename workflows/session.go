package workflows

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/index"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// Session is the workflow of one session. Its workflow id is the session id.
func Session(ctx workflow.Context, in session.Input) (session.Output, error) {
	if err := in.CheckVersion(); err != nil {
		// A failing workflow task is retried until a worker of a good build is back; a
		// returned error would end the session.
		panic(err)
	}
	r, err := newRun(ctx, in)
	if err != nil {
		return session.Output{}, session.ToTemporal(err)
	}
	if err := r.listen(ctx); err != nil {
		return session.Output{}, err
	}
	return r.loop()
}

// run is one run of the session workflow.
type run struct {
	// ctx is disconnected from cancellation: canceling a session closes it.
	ctx workflow.Context
	in  session.Input
	st  *session.State
	// begun is set when the run has its epoch, so that it may write.
	begun bool
	// cur is the running turn; nil if there is none.
	cur *turn
	// epochUnknown: a failed CreateSandbox or a lost host may have taken an epoch, or may
	// still write under this one; the next write takes a new one.
	epochUnknown bool
	// closing is why the session closes; "" while it is open.
	closing string
	// cancelled reports whether the workflow was cancelled, even before the loop acts on
	// it.
	cancelled func() bool
	// idling reports whether the idle timer runs; rearm asks the loop to restart it with
	// the newly configured idle timeout.
	idling, rearm bool
	// stopWaiting ends the wait for a sandbox; unplaced: none could be made for a child.
	stopWaiting workflow.CancelFunc
	unplaced    bool
	// waitingFor is what the run waits for other than an agent, for display.
	waitingFor string
	// idleLooks counts how often in a row the idle timeout passed with running background
	// commands.
	idleLooks int
	// outbox has what is to be appended to the stream; see deliver.go.
	outbox []*notice
	// notices counts all notices ever in the outbox, for ids.
	notices int
	// busy counts what runs beside the handlers and has to end in this run; atEdge is set
	// while the run waits for that between two turns, to make way.
	busy   int
	atEdge bool
	// writing is set while an activity runs that writes to the stream and is no turn's.
	writing bool
	// published are the present values of the search attributes.
	published index.Entry
	// catchUps counts how often in a row the run found that it is behind.
	catchUps int
	// running is the execution that was running when the run caught up, or took over from
	// the previous run.
	running *contract.Running
}

func newRun(ctx workflow.Context, in session.Input) (*run, error) {
	if err := in.Validate(workflow.GetInfo(ctx).WorkflowExecution.ID); err != nil {
		return nil, err
	}
	free, _ := workflow.NewDisconnectedContext(ctx)
	r := &run{ctx: free, in: in, st: in.Carried, stopWaiting: func() {}, cancelled: func() bool { return ctx.Err() != nil }}
	if r.st == nil {
		r.st = freshState(in)
	}
	r.begun = in.Carried != nil
	r.in.Carried = nil
	r.unpack()
	return r, nil
}

func freshState(in session.Input) *session.State {
	st := &session.State{
		Title: in.Options.Title, Model: in.Options.Model, Permission: in.Options.Permission,
		Permissions: in.Options.Permissions, PermissionDeadline: in.Options.PermissionDeadline, Park: in.Options.Park, UnknownEffects: in.Options.UnknownEffects,
		Metadata: in.Options.Metadata, Tags: in.Options.Tags,
		IdleTimeoutMS: in.Options.IdleTimeoutMS, Limits: in.Options.Limits, MaxTicks: in.Options.MaxTicks, Native: 1, LastSeq: in.LastSeq, Executions: in.Executions,
	}
	if st.IdleTimeoutMS == 0 {
		st.IdleTimeoutMS = session.DefaultIdleTimeout.Milliseconds()
	}
	return st
}

func (r *run) loop() (session.Output, error) {
	if err := r.begin(); err != nil {
		return r.output(), err
	}
	for {
		switch {
		case r.cur != nil:
			if err := r.continueTurn(); err != nil {
				return r.output(), err
			}
		case r.closing != "":
			return r.output(), r.finish()
		case r.overlong():
			if err := r.continueAsNew(); err != nil {
				return r.output(), err
			}
		case r.runnable() && !session.EvictsBusy(r.st.Evict):
			r.startTurn(r.dequeue())
			if err := r.runTurn(); err != nil {
				return r.output(), err
			}
		case r.childWantsSandbox():
			err := r.createSandbox()
			r.unplaced = err != nil && !r.catchUp(r.ctx, err)
		case r.finished():
			r.requestClose("completed")
		default:
			if err := r.idle(); err != nil {
				return r.output(), err
			}
		}
	}
}

// begin opens the run: its first message, an epoch, the record, session:initialized.
func (r *run) begin() error {
	if r.begun {
		r.publish()
		return nil
	}
	if err := r.acceptFirst(); err != nil {
		return fmt.Errorf("session %s: begin: %w", r.in.SessionID, err)
	}
	ctx := workflow.WithActivityOptions(r.ctx, timeouts.Write)
	in := contract.BeginInput{Session: r.in, RunID: r.firstRun(), Reset: r.wasReset()}
	var out contract.BeginOutput
	err := workflow.ExecuteActivity(ctx, contract.ActivityBegin, in).Get(ctx, &out)
	switch {
	case r.catchUp(ctx, err):
		// The session had started before its workflow was reset.
	case err != nil:
		return fmt.Errorf("session %s: begin: %w", r.in.SessionID, err)
	default:
		r.st.Epoch, r.st.LastSeq = out.Epoch, out.LastSeq
		r.recall(out.Record)
	}
	r.begun = true
	r.publish()
	return nil
}

// acceptFirst queues the message with which the session was created.
func (r *run) acceptFirst() error {
	if r.in.First == nil {
		return nil
	}
	first, err := withID(r.ctx, *r.in.First)
	if err != nil {
		return err
	}
	if _, again := r.known(first.ID); !again {
		r.accept(first, false)
	}
	r.in.First = nil
	return nil
}

// recall takes over the session's totals from before this run; its options are in the input
// already.
func (r *run) recall(rec *session.Record) {
	if rec == nil {
		return
	}
	st := r.st
	st.Turns, st.Usage, st.CostUSD, st.ChildTokens, st.WorkMS, st.Ticks = rec.Turns, rec.Usage, rec.CostUSD, rec.ChildTokens, rec.WorkMS, rec.Ticks
	st.LastBlockID, st.LastBlock = rec.LastBlockID, rec.LastBlock
	st.Native, st.Spent = max(rec.Native, 1), rec.Spent
	r.failSpent(rec.Spent)
}

// idle waits for work, and ends the sandbox when none arrives within the idle timeout.
func (r *run) idle() error {
	if r.rearm = false; r.stale() {
		r.publish() // a limit holds back what arrived, or nothing is left that it could
	}
	if why := r.st.Evict; why != "" {
		// The sandbox may have been ended meanwhile.
		r.st.Evict = ""
		if r.st.Sandbox != nil {
			caughtUp := r.catchUps
			r.endSandbox(contract.EndSandboxInput{Reason: why})
			if r.catchUps > caughtUp && r.st.Sandbox != nil {
				r.st.Evict = why
			}
		}
		return nil
	}
	if r.st.Sandbox == nil {
		return workflow.Await(r.ctx, r.hasWork)
	}
	r.idling = true
	work, err := awaitAtMost(r.ctx, r.idleWait(), r.hasWork)
	r.idling = false
	if err == nil && !work {
		r.endIdle()
	}
	return err
}

// awaitAtMost is workflow.AwaitWithTimeout, but cancels its timer when it is not needed: a
// timer left behind wakes the workflow for nothing.
func awaitAtMost(ctx workflow.Context, d time.Duration, ready func() bool) (bool, error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	return workflow.AwaitWithTimeout(ctx, d, ready)
}

// stale reports whether operators see another status than the session has.
func (r *run) stale() bool { return r.published.Status != r.status() }

func (r *run) hasWork() bool {
	return r.stale() || r.closing != "" || r.st.Evict != "" || r.rearm || r.runnable() || r.finished() || r.overlong() || r.childWantsSandbox()
}

func (r *run) runnable() bool {
	return r.due() && (r.limit() == "" || r.st.Queue.NextIsCancelled())
}

// due reports whether a queued message is ready to run.
func (r *run) due() bool {
	return r.closing == "" && r.st.Queue.Next() >= 0
}

// finished reports whether an ephemeral session has done its work.
func (r *run) finished() bool {
	return r.in.Unlisted() && r.begun && r.st.Executions > 0 && len(r.st.Queue) == 0 && len(r.st.Children) == 0 && r.outboxEmpty()
}

// outboxEmpty reports whether every notice is written.
func (r *run) outboxEmpty() bool { return len(r.outbox) == 0 && !r.writing }

func (r *run) output() session.Output {
	out := session.Output{Turns: r.st.Turns, Usage: r.st.Usage, CostUSD: r.st.CostUSD, Tokens: r.st.Used().Tokens, Outcome: r.st.Outcome, Failure: r.st.Failure}
	if n := len(r.st.Results); n > 0 {
		out.Last = r.st.Results[n-1].Result
	}
	return out
}

func (r *run) agent() contract.Agent {
	return contract.Agent{
		SessionID: r.in.SessionID, Name: r.in.Options.Agent, Profile: r.in.Options.Profile,
		Model: r.st.Model, Permission: r.st.Permission, Permissions: r.st.Permissions, PermissionDeadline: r.st.PermissionDeadline, Park: r.st.Park,
		UnknownEffects: r.st.UnknownEffects, Workspace: r.in.Options.Workspace, Native: r.st.Native, SystemPrompt: r.in.Options.SystemPrompt, Spawn: r.in.Options.Spawn, Tools: r.in.Options.Tools, Shares: r.in.Shares(),
	}
}

// firstRun returns the id of the first run, which no reset made, so that the session's
// start is emitted once.
func (r *run) firstRun() string {
	info := workflow.GetInfo(r.ctx)
	return cmp.Or(info.OriginalRunID, info.WorkflowExecution.RunID)
}

// options returns the present options.
func (r *run) options() session.Options {
	st, opts := r.st, r.in.Options
	opts.Title, opts.Model, opts.Permission = st.Title, st.Model, st.Permission
	opts.Permissions, opts.PermissionDeadline, opts.Park, opts.UnknownEffects = st.Permissions, st.PermissionDeadline, st.Park, st.UnknownEffects
	opts.Metadata, opts.Tags, opts.IdleTimeoutMS, opts.Limits, opts.MaxTicks = st.Metadata, st.Tags, st.IdleTimeoutMS, st.Limits, st.MaxTicks
	return opts
}

func (r *run) record() session.Record {
	st := r.st
	return session.Record{
		Options: r.options(), Turns: st.Turns, Usage: st.Usage, CostUSD: st.CostUSD, ChildTokens: st.ChildTokens, WorkMS: st.WorkMS, Ticks: st.Ticks, Native: st.Native, Executions: st.Executions, Spent: session.SpentIn(st),
		LastSeq: st.LastSeq, LastBlockID: st.LastBlockID, LastBlock: st.LastBlock,
	}
}

// notify puts server events into the outbox.
func (r *run) notify(events ...event.Payload) *notice {
	r.notices++
	n := &notice{key: fmt.Sprintf("%s-%d", workflow.GetInfo(r.ctx).WorkflowExecution.RunID, r.notices)}
	for _, p := range events {
		n.events = append(n.events, event.FromServer(p, workflow.Now(r.ctx)))
	}
	r.outbox = append(r.outbox, n)
	return n
}
