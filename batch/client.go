package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

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
// input and items are the same; otherwise the error is session.ErrConflict. The other errors:
// *session.InvalidError, or what archive or Temporal report.
func Start(ctx context.Context, t client.Client, a *archive.Archive, id string, in Input, items io.Reader) (*Batch, error) {
	if id == "" {
		id = "batch-" + uuid.NewString()
	}
	if err := session.ValidateID("batch id", id); err != nil {
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
	_, err = t.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: session.TaskQueue, StaticSummary: fmt.Sprintf("%d items, %s", in.Items, in.Job.Options.Agent),
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		Priority:                 temporal.Priority{FairnessKey: fairnessKey(id)},
	}, Type, in)
	if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil, fmt.Errorf("start batch %s: %w", id, err)
	}
	return Find(t, a, id), nil
}

// Find returns the batch with an id, without asking whether there is one. a may be nil for
// what needs no results.
func Find(t client.Client, a *archive.Archive, id string) *Batch { return &Batch{t, a, id} }

// ID returns the id of the batch, which is that of its workflow.
func (b *Batch) ID() string { return b.id }

// Progress returns how far the batch is. Error: session.ErrNotFound.
func (b *Batch) Progress(ctx context.Context) (p Progress, err error) {
	v, err := b.t.QueryWorkflow(ctx, b.id, "", QueryProgress)
	if err != nil {
		return p, b.failed("progress", err)
	}
	return p, v.Get(&p)
}

// ErrCancelled is the error of a batch that was cancelled.
var ErrCancelled = errors.New("the batch was cancelled")

// Wait returns the report when the batch has ended. A batch that was cancelled has one, too,
// and the error ErrCancelled.
func (b *Batch) Wait(ctx context.Context) (out Report, err error) {
	err = b.t.GetWorkflow(ctx, b.id, "").Get(ctx, &out)
	if temporal.IsCanceledError(err) {
		if out, err = b.report(ctx); err == nil {
			err = fmt.Errorf("batch %s: %w", b.id, ErrCancelled)
		}
		return out, err
	}
	if err != nil {
		return out, b.failed("wait", err)
	}
	return out, nil
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
		return b.failed(name, err)
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
		return p, b.failed("configure", err)
	}
	return p, nil
}

// Cancel ends the batch: its items at work are cancelled, those that have ended are in the
// results. It returns when Temporal has the request.
func (b *Batch) Cancel(ctx context.Context) error {
	if err := b.t.CancelWorkflow(ctx, b.id, ""); err != nil {
		return b.failed("cancel", err)
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
		var single [][]byte
		if single, err = singles(ctx, o, p); err != nil {
			return nil, err
		}
		if text = bytes.Join(single, nil); len(text) == 0 {
			// They may have been joined meanwhile.
			text, _, err = o.Get(ctx, resultsName(p.First))
			if errors.Is(err, archive.ErrNotFound) {
				return nil, nil
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return parseLines(text)
}

func (b *Batch) objects() (*archive.Objects, error) {
	if b.a == nil {
		return nil, errors.New("batch: results need an archive")
	}
	return b.a.Batch(b.id)
}

// failed returns the error of a request to the batch.
func (b *Batch) failed(op string, err error) error {
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return fmt.Errorf("batch %s: %w", b.id, session.ErrNotFound)
	}
	return fmt.Errorf("batch %s: %s: %w", b.id, op, session.FromTemporal(err))
}
