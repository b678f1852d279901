package batch

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// Names under which the activities of batches are registered.
const (
	// On any worker.
	ActivityLoadItem = "LoadBatchItem"
	ActivitySaveLine = "SaveBatchLine"
	ActivityReport   = "ReportBatch"
	// On session.WatchQueue: it waits for as long as the item is at work.
	ActivityAwaitItem = "AwaitBatchItem"
)

// ItemInput names an attempt at an item.
type ItemInput struct {
	BatchID string `json:"batchId"`
	Attempt
}

// LoadedItem is an item as a job.
type LoadedItem struct {
	Number  int        `json:"line"`
	ID      string     `json:"id"`
	Variant string     `json:"variant,omitempty"`
	Job     jobs.Input `json:"job"`
	// Invalid is why the line is no item.
	Invalid string `json:"invalid,omitempty"`
}

// SaveLineInput has the line of an item that has ended.
type SaveLineInput struct {
	BatchID string `json:"batchId"`
	Line    Line   `json:"line"`
}

// AwaitItemInput names the workflow of an attempt.
type AwaitItemInput struct {
	WorkflowID string `json:"workflowId"`
}

// ReportInput has the batch's totals and how long it took, in milliseconds.
type ReportInput struct {
	BatchID string `json:"batchId"`
	Totals  Totals `json:"totals"`
	MS      int64  `json:"ms"`
}

// ItemWorkflow runs one attempt at an item: its job, in this very workflow. A failure of the
// item is an outcome, no error.
func ItemWorkflow(ctx workflow.Context, in ItemInput) (Outcome, error) {
	var item LoadedItem
	wctx := workflow.WithActivityOptions(ctx, timeouts.Write)
	if err := workflow.ExecuteActivity(wctx, ActivityLoadItem, in).Get(wctx, &item); err != nil {
		return Outcome{}, session.Typed(fmt.Errorf("batch %s: load item %d: %w", in.BatchID, in.Index, timeouts.Failure(err)))
	}
	line := Line{Index: in.Index, Number: item.Number, ID: item.ID, Variant: item.Variant, Attempts: in.Attempt.Attempt}
	out := Outcome{Type: session.TypeInvalid, Message: item.Invalid, CostUSD: new(float64)} // nothing was asked
	if item.Invalid == "" {
		began := workflow.Now(ctx)
		res, err := jobs.Workflow(ctx, item.Job)
		out = outcomeOf(res, err)
		line.Result, line.MS = &res, workflow.Now(ctx).Sub(began).Milliseconds()
	}
	line.Type, line.Message = out.Type, out.Message
	free, _ := workflow.NewDisconnectedContext(ctx)
	free = workflow.WithActivityOptions(free, timeouts.Write)
	if err := workflow.ExecuteActivity(free, ActivitySaveLine, SaveLineInput{in.BatchID, line}).Get(free, nil); err != nil {
		return out, session.Typed(fmt.Errorf("batch %s: save item %d: %w", in.BatchID, in.Index, timeouts.Failure(err)))
	}
	return out, nil
}

// outcomeOf returns how a job ended.
func outcomeOf(res jobs.Result, err error) Outcome {
	out := Outcome{Usage: res.Usage, CostUSD: res.CostUSD}
	var app *temporal.ApplicationError
	switch {
	case err == nil:
	case temporal.IsCanceledError(err):
		out.Type, out.Message = TypeCancelled, "the item was cancelled"
	case errors.As(err, &app):
		out.Type, out.Message = app.Type(), app.Message()
	default:
		out.Type, out.Message = session.TypeAgentFailed, err.Error()
	}
	return out
}
