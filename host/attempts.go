package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
)

// openAttempt is what the next worker needs of a running attempt: it can fail it on behalf
// of its predecessor, so that the activity is retried at once and not only after a timeout.
type openAttempt struct {
	SessionID string `json:"sessionId"`
	Activity  string `json:"activity"`
	TaskToken []byte `json:"taskToken"`
}

func (h *Host) attemptPath(name string) string {
	return filepath.Join(h.o.DataDir, "attempts", name+".json")
}

// saveAttempt stores an attempt's token in the data folder until remove. It doesn't sync to
// disk: after a crash of the machine the timeouts do the same.
func (h *Host) saveAttempt(info activity.Info) (remove func(), err error) {
	sum := sha256.Sum256(info.TaskToken)
	path := h.attemptPath(hex.EncodeToString(sum[:12]))
	data, err := json.Marshal(openAttempt{SessionID: info.WorkflowExecution.ID, Activity: info.ActivityType.Name, TaskToken: info.TaskToken})
	if err == nil {
		err = replaceFile(path, data)
	}
	if err != nil {
		return nil, fmt.Errorf("save an attempt of %s: %w", info.ActivityType.Name, err)
	}
	return func() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.o.Log.Warn("the file of an attempt can't be removed", "path", path, "error", err)
		}
	}, nil
}

// Interceptor saves every running activity of its worker, for FailPredecessor of the next
// worker.
func (h *Host) Interceptor() interceptor.WorkerInterceptor { return &saving{host: h} }

type saving struct {
	interceptor.WorkerInterceptorBase
	host *Host
}

func (s *saving) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &saved{interceptor.ActivityInboundInterceptorBase{Next: next}, s.host}
}

type saved struct {
	interceptor.ActivityInboundInterceptorBase
	host *Host
}

// ExecuteActivity runs the activity even if its attempt can't be saved, as on a full disk:
// then only the attempt's own timeouts apply.
func (s *saved) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	remove, err := s.host.saveAttempt(activity.GetInfo(ctx))
	if err != nil {
		s.host.o.Log.Warn("a worker after this one would wait for an attempt", "error", err)
		return s.Next.ExecuteActivity(ctx, in)
	}
	defer remove()
	return s.Next.ExecuteActivity(ctx, in)
}

// errPredecessor is the failure of a dead worker's attempts. They are retried at once,
// however often workers died before: the wait between attempts is for failures of the
// attempts themselves.
var errPredecessor = temporal.NewApplicationErrorWithOptions("the worker that ran this attempt has ended", "WorkerEnded",
	temporal.ApplicationErrorOptions{NextRetryDelay: time.Millisecond})

// FailPredecessor fails the attempts that an earlier worker of this data folder left open,
// and removes its half-written files. It must be called before this worker takes turns,
// with the folder's lock held: then no other worker uses them.
func (h *Host) FailPredecessor(ctx context.Context) error {
	errs := []error{h.Checkpoints.RemoveHalfWritten(), removeHalfWritten(filepath.Dir(h.attemptPath("x")))}
	notes, err := filepath.Glob(h.attemptPath("*"))
	errs = append(errs, err)
	for _, path := range notes {
		errs = append(errs, h.failAttempt(ctx, path))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("fail the attempts of the worker before: %w", err)
	}
	return nil
}

func (h *Host) failAttempt(ctx context.Context, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var a openAttempt
	if err := json.Unmarshal(data, &a); err != nil || len(a.TaskToken) == 0 {
		// Its heartbeat timeout has the same effect, later.
		h.o.Log.Warn("the file of an attempt can't be read", "path", path, "error", err)
		return os.Remove(path)
	}
	err = h.o.Temporal.CompleteActivity(ctx, a.TaskToken, nil, errPredecessor)
	var notFound *serviceerror.NotFound
	if err != nil && !errors.As(err, &notFound) {
		return fmt.Errorf("session %s: %w", a.SessionID, err)
	}
	return os.Remove(path)
}
