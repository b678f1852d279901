package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
)

// Batch addresses a batch. It holds no resources: any process finds the batch again with
// Find. Safe for concurrent use.
type Batch struct {
	t  client.Client
	a  *archive.Archive
	id string
}

// Start writes the items, lines of JSON (see [Item]), into the archive, and starts the batch.
// It returns when Temporal has it. "" is a new id. A batch that exists is attached to if its
// input and items are the same, also one that has ended and that Temporal has forgotten;
// otherwise the error is session.ErrConflict. The other errors: *session.InvalidError, or what
// archive or Temporal report.
func Start(ctx context.Context, t client.Client, a *archive.Archive, id string, in Input, items io.Reader) (*Batch, error) {
	if id == "" {
		id = "batch-" + uuid.NewString()
	}
	if err := session.ValidateID("batch id", id); err != nil {
		return nil, err
	}
	if err := in.validateWithoutItems(); err != nil {
		return nil, err
	}
	to, err := a.Batch(id)
	if err != nil {
		return nil, err
	}
	in.Items, in.Digest, in.Carried = 0, "", nil
	if in, err = upload(ctx, to, in, items); err != nil {
		return nil, fmt.Errorf("batch %s: %w", id, err)
	}
	b := Find(t, a, id)
	switch _, err := b.report(ctx); {
	case err == nil:
		return b, nil // it has ended, and Temporal may have forgotten it
	case !errors.Is(err, archive.ErrNotFound):
		return nil, err
	}
	_, err = t.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: session.TaskQueue, StaticSummary: fmt.Sprintf("%d items, %s", in.Items, in.Job.Options.Agent),
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		Priority:                 priorityOf(id, in),
	}, Type, in)
	if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil, fmt.Errorf("start batch %s: %w", id, err)
	}
	return b, nil
}

// Find returns the batch with an id, without asking whether there is one. a may be nil for
// what needs no results.
func Find(t client.Client, a *archive.Archive, id string) *Batch { return &Batch{t, a, id} }

// ID returns the id of the batch, which is that of its workflow.
func (b *Batch) ID() string { return b.id }

// Progress returns how far the batch is. Of one that Temporal has forgotten it is what the batch
// came to, by its report, without window, budget and start. Errors: [session.ErrNotFound], and
// those of [session.Query].
func (b *Batch) Progress(ctx context.Context) (p Progress, err error) {
	err = session.Query(ctx, b.t, b.id, QueryProgress, &p)
	if b.isForgotten(err) {
		out, err := b.kept(ctx)
		if errors.Is(err, ErrCancelled) {
			err = nil
		}
		return Progress{Totals: out.Totals, Items: out.Items}, err
	}
	if err != nil {
		return p, b.failed(ctx, "progress", err)
	}
	return p, nil
}

// isForgotten reports whether a request failed because Temporal does not know the batch, of which
// the archive may have the report.
func (b *Batch) isForgotten(err error) bool {
	_, unknown := errors.AsType[*serviceerror.NotFound](err)
	return unknown && b.a != nil
}

// Errors of a batch that has ended.
var (
	// ErrCancelled: it was cancelled.
	ErrCancelled = errors.New("the batch was cancelled")
	// ErrEnded: it takes no more requests.
	ErrEnded = errors.New("the batch has ended")
)

// Wait returns the report when the batch has ended, also when Temporal has forgotten it. A batch
// that was cancelled has one, too, and the error ErrCancelled.
func (b *Batch) Wait(ctx context.Context) (out Report, err error) {
	err = b.t.GetWorkflow(ctx, b.id, "").Get(ctx, &out)
	if temporal.IsCanceledError(err) {
		if out, err = b.report(ctx); err == nil {
			err = fmt.Errorf("batch %s: %w", b.id, ErrCancelled)
		}
		return out, err
	}
	if b.isForgotten(err) {
		return b.kept(ctx)
	}
	if err != nil {
		return out, b.failed(ctx, "wait", err)
	}
	return out, nil
}

// kept returns the report of a batch that Temporal has forgotten. One that was cancelled left
// items out.
func (b *Batch) kept(ctx context.Context) (out Report, err error) {
	out, err = b.report(ctx)
	switch {
	case errors.Is(err, archive.ErrNotFound):
		return out, fmt.Errorf("batch %s: %w", b.id, session.ErrNotFound)
	case err == nil && out.Completed+out.Failed < out.Items:
		return out, fmt.Errorf("batch %s: %w", b.id, ErrCancelled)
	}
	return out, err
}

func (b *Batch) report(ctx context.Context) (out Report, err error) {
	o, err := b.objects()
	if err != nil {
		return out, err
	}
	text, _, err := o.Get(ctx, reportName)
	if err != nil {
		return out, fmt.Errorf("batch %s: report: %w", b.id, err)
	}
	return out, json.Unmarshal(text, &out)
}

// Pause stops the starting of items; running ones continue. Resume undoes that.
func (b *Batch) Pause(ctx context.Context) error { return b.signal(ctx, SignalPause) }

// Resume has the batch start items again.
func (b *Batch) Resume(ctx context.Context) error { return b.signal(ctx, SignalResume) }

func (b *Batch) signal(ctx context.Context, name string) error {
	if err := b.t.SignalWorkflow(ctx, b.id, "", name, nil); err != nil {
		return b.failed(ctx, name, err)
	}
	return nil
}

// Configure changes the batch, and returns how far it is.
func (b *Batch) Configure(ctx context.Context, c Change) (p Progress, err error) {
	if err := c.Validate(); err != nil {
		return p, err
	}
	h, err := b.t.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: b.id, UpdateName: UpdateConfigure, Args: []any{c}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = h.Get(ctx, &p)
	}
	if err != nil {
		return p, b.failed(ctx, "configure", err)
	}
	return p, nil
}

// Cancel ends the batch: its items at work are cancelled, those that have ended are in the
// results. It returns when Temporal has the request.
func (b *Batch) Cancel(ctx context.Context) error {
	if err := b.t.CancelWorkflow(ctx, b.id, ""); err != nil {
		return b.failed(ctx, "cancel", err)
	}
	return nil
}

// Results yields what became of the items, by index, as far as they have ended. The error ends
// it.
func (b *Batch) Results(ctx context.Context) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		o, err := b.objects()
		var m manifest
		if err == nil {
			m, err = loadManifest(ctx, o)
		}
		for _, p := range m.Pages {
			lines, err := results(ctx, o, p)
			if err != nil {
				yield(Line{}, fmt.Errorf("batch %s: results: %w", b.id, err))
				return
			}
			for _, l := range lines {
				if !yield(l, nil) {
					return
				}
			}
		}
		if errors.Is(err, archive.ErrNotFound) {
			err = session.ErrNotFound
		}
		if err != nil {
			yield(Line{}, fmt.Errorf("batch %s: results: %w", b.id, err))
		}
	}
}

// results returns what there is of a page's results.
func results(ctx context.Context, o *archive.Objects, p page) ([]Line, error) {
	text, _, err := o.Get(ctx, resultsName(p.First))
	if errors.Is(err, archive.ErrNotFound) {
		text, err = unjoined(ctx, o, p)
	}
	if err != nil {
		return nil, err
	}
	return parseLines(text)
}

// unjoined returns the results of a page that was not joined yet. What is missing may have been
// joined meanwhile.
func unjoined(ctx context.Context, o *archive.Objects, p page) ([]byte, error) {
	single, err := singles(ctx, o, p)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(single, func(text []byte) bool { return text == nil }) {
		joined, _, err := o.Get(ctx, resultsName(p.First))
		if !errors.Is(err, archive.ErrNotFound) {
			return joined, err
		}
	}
	return bytes.Join(single, nil), nil
}

func (b *Batch) objects() (*archive.Objects, error) {
	if b.a == nil {
		return nil, errors.New("batch: results need an archive")
	}
	return b.a.Batch(b.id)
}

// failed returns the error of a request to the batch. Temporal takes one that has ended for one
// that it does not know.
func (b *Batch) failed(ctx context.Context, op string, err error) error {
	if _, missing := errors.AsType[*serviceerror.NotFound](err); !missing {
		return fmt.Errorf("batch %s: %s: %w", b.id, op, session.FromTemporal(err))
	}
	switch ended, err := b.hasEnded(ctx); {
	case err != nil:
		return fmt.Errorf("batch %s: %s: %w", b.id, op, err)
	case ended:
		return fmt.Errorf("batch %s: %w", b.id, ErrEnded)
	}
	return fmt.Errorf("batch %s: %w", b.id, session.ErrNotFound)
}

// hasEnded reports whether a batch that takes no requests has been there.
func (b *Batch) hasEnded(ctx context.Context) (bool, error) {
	_, err := b.t.DescribeWorkflowExecution(ctx, b.id, "")
	if b.isForgotten(err) {
		_, err = b.report(ctx)
	}
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown || errors.Is(err, archive.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
