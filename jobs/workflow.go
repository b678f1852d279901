package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// Names under which the activities of jobs are registered.
const (
	// On any worker.
	ActivityPutFiles  = "PutJobFiles"
	ActivityArtifacts = "ListJobArtifacts"
	ActivitySandbox   = "FindJobSandbox"
	// On session.WatchQueue: it waits for as long as the agent works.
	ActivityAwaitAnswer = "AwaitJobAnswer"
)

// PutFilesInput has the files with which a job's workspace begins.
type PutFilesInput struct {
	SessionID string `json:"sessionId"`
	Profile   string `json:"profile,omitempty"`
	Agent     string `json:"agent"`
	Files     []File `json:"files"`
}

// AwaitAnswerInput names a message whose answer is awaited.
type AwaitAnswerInput struct {
	SessionID string `json:"sessionId"`
	MessageID string `json:"messageId"`
	// Schema as in Input.
	Schema []byte `json:"schema,omitempty"`
}

// Answer is how a message ended.
type Answer struct {
	Result session.Result `json:"result"`
	// Value and Mismatch as in Result.
	Value    []byte `json:"value,omitempty"`
	Mismatch string `json:"mismatch,omitempty"`
	// TooLarge is why there is no value, although the answer matches.
	TooLarge string `json:"tooLarge,omitempty"`
}

// ArtifactsInput names a closed session and the files that are wanted of it.
type ArtifactsInput struct {
	SessionID string   `json:"sessionId"`
	Patterns  []string `json:"patterns"`
}

// Workflow is the workflow of one job.
func Workflow(ctx workflow.Context, in Input) (Result, error) {
	if err := in.validate(); err != nil {
		return Result{}, session.ToTemporal(err)
	}
	j := &job{in: in, out: Result{SessionID: cmp.Or(in.SessionID, sessionID(workflow.GetInfo(ctx)))}}
	err := j.run(ctx)
	return j.out, err
}

// sessionID returns the id of a job's session, in which the workflow's can be read where it
// is short. A run that repeats the workflow has another session; a reset run has the same.
func sessionID(info *workflow.Info) string {
	run := cmp.Or(info.OriginalRunID, info.WorkflowExecution.RunID)
	// A run's id begins with the time; its end is random.
	id := notOfAnID.ReplaceAllString(info.WorkflowExecution.ID, "-") + "-" + run[max(len(run)-8, 0):]
	if session.ValidateID("", id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(info.WorkflowExecution.ID + "\x00" + run))
	return "job-" + hex.EncodeToString(sum[:16])
}

var notOfAnID = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// job is one run of the workflow.
type job struct {
	in  Input
	out Result
}

func (j *job) run(ctx workflow.Context) error {
	if len(j.in.Files) > 0 {
		put := PutFilesInput{SessionID: j.out.SessionID, Profile: j.in.Options.Profile, Agent: j.in.Options.Agent, Files: j.in.Files}
		wctx := workflow.WithActivityOptions(ctx, timeouts.Write)
		if err := workflow.ExecuteActivity(wctx, ActivityPutFiles, put).Get(wctx, nil); err != nil {
			return j.failure(fmt.Errorf("job %s: write the files: %w", j.out.SessionID, timeouts.Failure(err)))
		}
	}
	child := j.begin(ctx)
	failed := child.GetChildWorkflowExecution().Get(ctx, nil)
	if temporal.IsWorkflowExecutionAlreadyStartedError(failed) {
		return session.ToTemporal(taken(j.out.SessionID)) // another's session is left alone
	}
	if failed == nil {
		failed = j.converse(ctx, child)
	}
	if failed == nil && j.in.Check != "" {
		failed = j.check(ctx)
	}
	// The session ends whatever has happened: by this, or because the job was cancelled.
	free, _ := workflow.NewDisconnectedContext(ctx)
	if !child.IsReady() {
		if err := workflow.RequestCancelExternalWorkflow(free, j.out.SessionID, "").Get(free, nil); err != nil {
			workflow.GetLogger(ctx).Info("the session was gone before it could be closed", "session", j.out.SessionID, "error", err)
		}
	}
	var end session.Output
	if err := child.Get(free, &end); err != nil && failed == nil {
		failed = fmt.Errorf("job %s: close the session: %w", j.out.SessionID, err)
	}
	j.out.Usage, j.out.CostUSD = end.Usage, end.CostUSD
	if err := j.collect(free); err != nil && failed == nil {
		failed = err
	}
	return j.failure(failed)
}

// begin starts the session, whose end the job waits for. It closes with the job, also when
// that is cancelled, terminated or timed out.
func (j *job) begin(ctx workflow.Context) workflow.ChildWorkflowFuture {
	first := j.in.message()
	opts := j.in.Options
	opts.Title = cmp.Or(opts.Title, "job "+workflow.GetInfo(ctx).WorkflowExecution.ID)
	in := session.Input{SessionID: j.out.SessionID, Version: session.StateVersion, Options: opts, CreatedAt: workflow.Now(ctx), First: &first}
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: j.out.SessionID, TaskQueue: session.TaskQueue, WorkflowTaskTimeout: session.WorkflowTaskTimeout,
		WaitForCancellation: true, ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, StaticSummary: opts.Title, Memo: in.Memo(),
	})
	return workflow.ExecuteChildWorkflow(ctx, session.WorkflowType, in)
}

// converse waits for the answer, and asks for another one as long as it does not match.
func (j *job) converse(ctx workflow.Context, child workflow.ChildWorkflowFuture) error {
	message := contract.FirstJobMessage
	for {
		a, err := j.await(ctx, child, message)
		if err != nil {
			return err
		}
		if err := j.take(a); err != nil || a.Mismatch == "" {
			return err
		}
		if j.out.Repairs == j.in.repairs() {
			return fail(TypeMismatch, "the answer does not match the schema: "+a.Mismatch)
		}
		j.out.Repairs++
		again := repair(j.out.Repairs, a.Mismatch)
		message = again.ID
		if err := child.SignalChildWorkflow(ctx, session.SignalMessage, again).Get(ctx, nil); err != nil {
			return fail(TypeSessionEnded, "the session ended before it could be asked again")
		}
	}
}

// await waits for the answer to a message, or for the end of the session.
func (j *job) await(ctx workflow.Context, child workflow.ChildWorkflowFuture, message string) (a Answer, err error) {
	actx, stop := workflow.WithCancel(workflow.WithActivityOptions(ctx, timeouts.Watch))
	defer stop()
	answered := workflow.ExecuteActivity(actx, ActivityAwaitAnswer, AwaitAnswerInput{SessionID: j.out.SessionID, MessageID: message, Schema: j.in.schema()})
	if err := workflow.Await(ctx, func() bool { return answered.IsReady() || child.IsReady() }); err != nil {
		return a, err
	}
	if !answered.IsReady() {
		return a, fail(TypeSessionEnded, "the session ended before it answered")
	}
	return a, answered.Get(ctx, &a)
}

// take keeps an answer. The error is how its execution failed.
func (j *job) take(a Answer) error {
	if r := a.Result.Result; r != nil {
		j.out.Response, j.out.Truncated = r.Response, r.Truncated
	}
	j.out.Value, j.out.Mismatch = a.Value, a.Mismatch
	switch info := a.Result.Error; {
	case a.TooLarge != "":
		return fail(TypeTooLarge, a.TooLarge)
	case a.Result.Outcome == session.Completed:
		return nil
	case info != nil:
		return fail(cmp.Or(info.Code, session.TypeAgentFailed), info.Message)
	case a.Result.Outcome == session.Interrupted:
		return fail(TypeInterrupted, "the agent was interrupted: "+a.Result.Reason)
	}
	return fail(session.TypeAgentFailed, a.Result.Err().Error())
}

// collect lists the artifacts.
func (j *job) collect(ctx workflow.Context) error {
	if len(j.in.Artifacts) == 0 {
		return nil
	}
	ctx = workflow.WithActivityOptions(ctx, timeouts.Write)
	in := ArtifactsInput{SessionID: j.out.SessionID, Patterns: j.in.Artifacts}
	err := workflow.ExecuteActivity(ctx, ActivityArtifacts, in).Get(ctx, &j.out.Artifacts)
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == TypeTooLarge {
		return fail(TypeTooLarge, app.Message())
	}
	if err != nil {
		return fmt.Errorf("job %s: list the artifacts: %w", j.out.SessionID, timeouts.Failure(err))
	}
	return nil
}

// failed is why a job failed, by type.
type failed struct{ typ, why string }

func (f failed) Error() string { return f.why }

func fail(typ, why string) error { return failed{typ, why} }

// failure returns the error of a job, with its result as the detail. A parent decides
// whether the job is tried again: within a job, whatever may be repeated was.
func (j *job) failure(err error) error {
	var f failed
	switch {
	case temporal.IsCanceledError(err):
		return temporal.NewCanceledError(j.out)
	case !errors.As(err, &f):
		return session.Typed(err, j.out)
	}
	return temporal.NewApplicationErrorWithOptions(f.why, f.typ, temporal.ApplicationErrorOptions{Details: []any{j.out}})
}
