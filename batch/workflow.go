package batch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// continueAt is the history length at which a run makes way for the next one.
const continueAt = 8000

// Workflow is the workflow of a batch. Its id is the batch's.
func Workflow(ctx workflow.Context, in Input) (Report, error) {
	if err := in.Validate(); err != nil {
		return Report{}, session.ToTemporal(err)
	}
	b := &batch{ctx: ctx, id: workflow.GetInfo(ctx).WorkflowExecution.ID, in: in, st: in.Carried}
	if b.st == nil {
		b.st = &State{Window: cmp.Or(in.Window, DefaultWindow), MaxCostUSD: in.MaxCostUSD, StartedAt: workflow.Now(ctx)}
	}
	b.in.Carried = nil
	return b.run()
}

// batch is one run of the workflow.
type batch struct {
	ctx workflow.Context
	id  string
	in  Input
	st  *State
	// starting counts the items whose start Temporal has not confirmed: the next run could
	// not know whether they are at work.
	starting int
	signals  []workflow.ReceiveChannel
	// ended is set by each item that ends, until the run has looked what follows.
	ended bool
}

func (b *batch) run() (Report, error) {
	if err := b.listen(); err != nil {
		return Report{}, err
	}
	// Items that the previous run started are still running.
	for _, a := range b.st.Running {
		workflow.Go(b.ctx, func(ctx workflow.Context) { b.await(ctx, a, b.watch) })
	}
	for !b.over() {
		b.fill()
		b.show()
		if b.mayContinue() {
			return Report{}, b.continueAsNew()
		}
		b.ended = false
		if err := workflow.Await(b.ctx, func() bool { return b.ended || b.startable() || b.over() || b.mayContinue() }); err != nil {
			return Report{}, b.cancel(err)
		}
	}
	b.show()
	return b.report()
}

// listen takes the batch's messages.
func (b *batch) listen() error {
	for _, signal := range []string{SignalPause, SignalResume} {
		c := workflow.GetSignalChannel(b.ctx, signal)
		b.signals = append(b.signals, c)
		workflow.Go(b.ctx, func(ctx workflow.Context) {
			// Not Receive: that takes a signal before its coroutine runs, so that mayContinue
			// can't see it.
			for workflow.Await(ctx, func() bool { return c.Len() > 0 }) == nil {
				c.ReceiveAsync(nil)
				b.st.Paused = signal == SignalPause
				b.show()
			}
		})
	}
	configure := func(_ workflow.Context, c Change) (Progress, error) {
		b.st.Window, b.st.MaxCostUSD = cmp.Or(c.Window, b.st.Window), cmp.Or(c.MaxCostUSD, b.st.MaxCostUSD)
		b.show()
		return b.progress(), nil
	}
	validate := workflow.UpdateHandlerOptions{Validator: func(c Change) error { return session.ToTemporal(c.Validate()) }}
	return errors.Join(
		workflow.SetQueryHandler(b.ctx, QueryProgress, func() (Progress, error) { return b.progress(), nil }),
		workflow.SetUpdateHandlerWithOptions(b.ctx, UpdateConfigure, configure, validate),
	)
}

func (b *batch) over() bool {
	return b.st.Next == b.in.Items && len(b.st.Running) == 0 && len(b.st.Again) == 0
}

// startable reports whether an item may be started now.
func (b *batch) startable() bool {
	return b.ctx.Err() == nil && b.pausedBy() == "" && len(b.st.Running) < b.st.Window && (len(b.st.Again) > 0 || b.st.Next < b.in.Items) && !b.overlong()
}

func (b *batch) pausedBy() string {
	switch {
	case b.st.Paused:
		return PausedByHand
	case b.st.MaxCostUSD > 0 && b.st.Totals.CostUSD >= b.st.MaxCostUSD:
		return PausedByCost
	}
	return ""
}

// fill starts items until the window is full.
func (b *batch) fill() {
	for b.startable() {
		a := b.st.take(b.in.Items)
		b.st.Running = append(b.st.Running, a)
		b.starting++
		workflow.Go(b.ctx, func(ctx workflow.Context) { b.await(ctx, a, b.start) })
	}
}

// itemID returns the id of an attempt's workflow.
func itemID(batchID string, a Attempt) string {
	return fmt.Sprintf("%s-%d-%d", batchID, a.Index, a.Attempt)
}

// await has an attempt counted when it has ended.
func (b *batch) await(ctx workflow.Context, a Attempt, wait func(workflow.Context, Attempt) (Outcome, error)) {
	out, err := wait(ctx, a)
	if err != nil {
		out = endedAs(err)
		if !b.triedAgain(a, out) {
			// Before it is counted: a run that continues as new meanwhile leaves it to the next one.
			b.recordEnded(ctx, a, out)
		}
	}
	b.end(a, out)
}

// triedAgain reports whether an attempt that ended is followed by another one.
func (b *batch) triedAgain(a Attempt, o Outcome) bool {
	return o.Type != "" && a.Attempt < b.in.attempts(o.Type) && b.ctx.Err() == nil
}

// start runs an attempt to its end.
func (b *batch) start(ctx workflow.Context, a Attempt) (out Outcome, err error) {
	free, _ := workflow.NewDisconnectedContext(ctx)
	cctx := workflow.WithChildOptions(free, workflow.ChildWorkflowOptions{
		WorkflowID: itemID(b.id, a), TaskQueue: session.TaskQueue, WorkflowTaskTimeout: session.WorkflowTaskTimeout,
		// The next run takes it over.
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WaitForCancellation:   true,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		Priority:              priorityOf(b.id, b.in),
	})
	child := workflow.ExecuteChildWorkflow(cctx, ItemType, ItemInput{BatchID: b.id, Attempt: a})
	err = child.GetChildWorkflowExecution().Get(free, nil)
	b.starting--
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return b.watch(free, a) // an operator has reset the batch
	}
	if err == nil {
		err = child.Get(free, &out)
	}
	return out, err
}

// priorityOf returns the priority of a batch's workflows and their tasks. Its id is their
// fairness key, which Temporal bounds by 64 bytes: so batches take turns where they wait for
// the same workers.
func priorityOf(id string, in Input) temporal.Priority {
	return temporal.Priority{PriorityKey: cmp.Or(in.Priority, DefaultPriority), FairnessKey: id[:min(len(id), 64)]}
}

// watch waits for the end of an attempt that another run has started.
func (b *batch) watch(ctx workflow.Context, a Attempt) (out Outcome, err error) {
	free, _ := workflow.NewDisconnectedContext(ctx)
	free = workflow.WithActivityOptions(free, timeouts.Watch)
	err = workflow.ExecuteActivity(free, ActivityAwaitItem, AwaitItemInput{WorkflowID: itemID(b.id, a)}).Get(free, &out)
	return out, err
}

// endedAs returns how an attempt ended whose workflow returned no outcome.
func endedAs(err error) Outcome {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case ok:
		return Outcome{Type: app.Type(), Message: app.Message()}
	case temporal.IsCanceledError(err):
		return Outcome{Type: TypeCancelled, Message: "the item was cancelled"}
	}
	return Outcome{Type: TypeEnded, Message: "the item's workflow ended: " + err.Error()}
}

// end counts the end of an attempt, and has the item tried again if it may be.
func (b *batch) end(a Attempt, o Outcome) {
	t := &b.st.Totals
	t.add(o)
	switch {
	case o.Type == "":
		t.Completed++
	case b.triedAgain(a, o):
		t.Retried++
		b.st.Again = append(b.st.Again, Attempt{a.Index, a.Attempt + 1})
	default:
		t.Failed++
		if t.ByType == nil {
			t.ByType = map[string]int{}
		}
		t.ByType[o.Type]++
	}
	b.st.Running = slices.DeleteFunc(b.st.Running, func(r Attempt) bool { return r == a })
	b.ended = true
}

// recordEnded writes the line of an item whose workflow could not.
func (b *batch) recordEnded(ctx workflow.Context, a Attempt, o Outcome) {
	free, _ := workflow.NewDisconnectedContext(ctx)
	free = workflow.WithActivityOptions(free, timeouts.Write)
	in := SaveLineInput{BatchID: b.id, Line: Line{Index: a.Index, Type: o.Type, Message: o.Message, Attempts: a.Attempt}}
	if err := workflow.ExecuteActivity(free, ActivitySaveLine, in).Get(free, nil); err != nil {
		workflow.GetLogger(ctx).Error("the line of an item could not be written", "item", a.Index, "error", err)
	}
}

// cancel ends the items at work, and the batch with what there is.
func (b *batch) cancel(why error) error {
	free, _ := workflow.NewDisconnectedContext(b.ctx)
	// Temporal can't cancel what it has not started yet.
	if err := workflow.Await(free, func() bool { return b.starting == 0 }); err != nil {
		return err
	}
	for _, a := range slices.Clone(b.st.Running) {
		workflow.Go(free, func(ctx workflow.Context) {
			if err := workflow.RequestCancelExternalWorkflow(ctx, itemID(b.id, a), "").Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Info("an item was gone before it could be cancelled", "item", a.Index, "error", err)
			}
		})
	}
	if err := workflow.Await(free, func() bool { return len(b.st.Running) == 0 }); err != nil {
		return err
	}
	if _, err := b.report(); err != nil {
		return err
	}
	return why
}

// report writes the report, also of a batch that is cancelled meanwhile.
func (b *batch) report() (out Report, err error) {
	ctx, _ := workflow.NewDisconnectedContext(b.ctx)
	opts := timeouts.Watch // it reads and writes for as long as there are results
	opts.TaskQueue = session.TaskQueue
	ctx = workflow.WithActivityOptions(ctx, opts)
	in := ReportInput{BatchID: b.id, Totals: b.st.Totals, MS: workflow.Now(ctx).Sub(b.st.StartedAt).Milliseconds()}
	if err := workflow.ExecuteActivity(ctx, ActivityReport, in).Get(ctx, &out); err != nil {
		return out, session.Typed(fmt.Errorf("batch %s: report: %w", b.id, timeouts.Failure(err)))
	}
	return out, nil
}

// overlong reports whether the next run is to take over. A cancelled one ends.
func (b *batch) overlong() bool {
	if b.ctx.Err() != nil {
		return false
	}
	info := workflow.GetInfo(b.ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > continueAt || info.GetTargetWorkerDeploymentVersionChanged()
}

func (b *batch) mayContinue() bool {
	// A signal that was not taken is lost with the run.
	unread := slices.ContainsFunc(b.signals, func(c workflow.ReceiveChannel) bool { return c.Len() > 0 })
	return b.overlong() && b.starting == 0 && !unread && workflow.AllHandlersFinished(b.ctx)
}

func (b *batch) continueAsNew() error {
	next := b.in
	next.Carried = b.st
	return workflow.NewContinueAsNewError(b.ctx, Type, next)
}

func (b *batch) progress() Progress {
	st := b.st
	return Progress{
		Totals: st.Totals, Items: b.in.Items, Running: len(st.Running), Waiting: len(st.Again),
		PausedBy: b.pausedBy(), Window: st.Window, MaxCostUSD: st.MaxCostUSD, StartedAt: st.StartedAt,
	}
}

// show has the Web UI show the progress; it costs nothing in history.
func (b *batch) show() {
	workflow.SetCurrentDetails(b.ctx, markdown(b.progress(), workflow.Now(b.ctx)))
}

// markdown returns a batch's progress for the Web UI.
func markdown(p Progress, now time.Time) string {
	const width = 40
	full := width * p.Ended() / max(p.Items, 1)
	var s strings.Builder
	fmt.Fprintf(&s, "`%s%s` **%d of %d**\n\n", strings.Repeat("█", full), strings.Repeat("░", width-full), p.Ended(), p.Items)
	fmt.Fprintf(&s, "%d completed, %d failed, %d at work, %d tried again. ", p.Completed, p.Failed, p.Running, p.Retried)
	switch {
	case p.Unpriced == 0:
		fmt.Fprintf(&s, "$%.4f", p.CostUSD)
	case p.CostUSD == 0:
		s.WriteString("The cost is unknown")
	default:
		fmt.Fprintf(&s, "$%.4f, and %d attempts of unknown cost", p.CostUSD, p.Unpriced)
	}
	fmt.Fprintf(&s, ". %s so far.", now.Sub(p.StartedAt).Round(time.Second))
	if p.PausedBy != "" {
		fmt.Fprintf(&s, "\n\nNo items are started: %s.", p.PausedBy)
	}
	for _, typ := range typesIn(p.ByType) {
		fmt.Fprintf(&s, "\n- %d failed: %s", p.ByType[typ], typ)
	}
	return s.String()
}
