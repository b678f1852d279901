package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// attempt is what a worker that comes next must know of one that is under way:
// it can be failed in its predecessor's name, so that the turn is offered again
// at once and not only when its heartbeats are missed.
type attempt struct {
	SessionID string `json:"sessionId"`
	TaskToken []byte `json:"taskToken"`
}

func (h *Host) attemptPath(sandboxID string) string {
	return filepath.Join(h.o.DataDir, "attempts", sandboxID+".json")
}

// noteAttempt keeps an attempt's token in the data folder until forget.
func (h *Host) noteAttempt(sandboxID string, info activity.Info) (forget func(), err error) {
	path := h.attemptPath(sandboxID)
	data, err := json.Marshal(attempt{SessionID: info.WorkflowExecution.ID, TaskToken: info.TaskToken})
	if err == nil {
		err = replaceFile(path, data)
	}
	if err != nil {
		return nil, fmt.Errorf("note the attempt in sandbox %s: %w", sandboxID, err)
	}
	return func() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.o.Log.Warn("the note of an attempt stays", "path", path, "error", err)
		}
	}, nil
}

// errPredecessor is what a dead worker's attempts fail with. They are tried
// again.
var errPredecessor = temporal.NewApplicationError("the worker that ran this attempt has ended", "WorkerEnded")

// FailPredecessor fails the attempts that an earlier worker of this data folder
// left open. It must be called before this worker takes turns of its own, by
// whoever holds the folder's lock: then nobody else works on them.
func (h *Host) FailPredecessor(ctx context.Context) error {
	notes, err := filepath.Glob(h.attemptPath("*"))
	if err != nil {
		return fmt.Errorf("fail the attempts of the worker before: %w", err)
	}
	var errs []error
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
	var a attempt
	if err := json.Unmarshal(data, &a); err != nil || len(a.TaskToken) == 0 {
		// Its heartbeat timeout does the same, later.
		h.o.Log.Warn("the note of an attempt can't be read", "path", path, "error", err)
		return os.Remove(path)
	}
	err = h.o.Temporal.CompleteActivity(ctx, a.TaskToken, nil, errPredecessor)
	var notFound *serviceerror.NotFound
	if err != nil && !errors.As(err, &notFound) {
		return fmt.Errorf("session %s: %w", a.SessionID, err)
	}
	return os.Remove(path)
}
