package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn"
)

// bookmark says how far the turns in a sandbox have come. It lies in the
// host's data folder, out of the agent's reach, and lives as long as the
// sandbox.
type bookmark struct {
	// Offset is where the next turn's records begin in the spool.
	Offset int64 `json:"offset"`
	// Translator is the translator's state at Offset.
	Translator json.RawMessage `json:"translator,omitempty"`
	// Parsed is how far the agent's transcripts were parsed when a completed turn
	// ended. Default: nothing is parsed yet.
	Parsed json.RawMessage `json:"parsed,omitempty"`
	// Ended is the last execution that ended, and Output what it came to: an
	// attempt that finds its own execution here has only to say so again.
	Ended  string                  `json:"ended,omitempty"`
	Output *contract.RunTurnOutput `json:"output,omitempty"`
	// Unarchived says that Ended may not be in the archive.
	Unarchived bool `json:"unarchived,omitempty"`
	// Model and Permission are what the live agent was last told.
	Model      string `json:"model,omitempty"`
	Permission string `json:"permission,omitempty"`
	// Unhealthy says that what ran in the sandbox died and was not started since.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Open is the execution that has begun and not ended.
	Open *begun `json:"open,omitempty"`
	// Own could not be archived yet.
	Own []archive.OwnEntry `json:"own,omitempty"`
}

// begun is what an attempt at an execution must know of those before it and
// can't read from spool and stream.
type begun struct {
	ExecutionID string `json:"executionId"`
	MessageID   string `json:"messageId,omitempty"`
	// Running are the processes below the agent before the turn.
	Running runner.Mark `json:"running"`
	// Options were changed while the turn ran.
	Options contract.Options `json:"options,omitzero"`
	// Interrupt was handed to the agent.
	Interrupt *contract.Interrupt `json:"interrupt,omitempty"`
	// InterruptedAt is when that was.
	InterruptedAt time.Time `json:"interruptedAt,omitzero"`
	// Cut is what the turn fails with when Sojourn itself had it interrupted.
	Cut *event.ErrorInfo `json:"cut,omitempty"`
	// Resume says that the agent was lost since, and how the turn goes on.
	Resume *turn.Resume `json:"resume,omitempty"`
}

// begun says whether an attempt before began the execution. After a reset
// another message may have its id.
func (b bookmark) begun(in contract.RunTurnInput) bool {
	return b.Open != nil && b.Open.ExecutionID == in.ExecutionID && (b.Open.MessageID == "" || b.Open.MessageID == in.Message.ID)
}

// ended is how the execution ended by an attempt before or by this one; nil if it
// has not.
func (b bookmark) ended(in contract.RunTurnInput) *session.Result {
	if b.Ended != in.ExecutionID || b.Output == nil || b.Output.Result.MessageID != in.Message.ID {
		return nil
	}
	return &b.Output.Result
}

// facts are what a plan depends on.
func (b bookmark) facts() turn.Checkpoint {
	c := turn.Checkpoint{Ended: b.Ended, Unarchived: b.Unarchived}
	if b.Output == nil {
		c.Ended = ""
	} else {
		c.EndedMessage = b.Output.Result.MessageID
	}
	if o := b.Open; o != nil {
		c.Open, c.OpenMessage, c.RunnerLost, c.Interrupted = o.ExecutionID, o.MessageID, o.Resume != nil, o.Interrupt != nil
	}
	return c
}

func (h *Host) bookmarkPath(sandboxID string) string {
	return filepath.Join(h.o.DataDir, "bookmarks", sandboxID+".json")
}

// bookmark reads a sandbox's bookmark; a sandbox without one is at its
// beginning.
func (h *Host) bookmark(sandboxID string) (bookmark, error) {
	var b bookmark
	data, err := os.ReadFile(h.bookmarkPath(sandboxID))
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, fmt.Errorf("bookmark of sandbox %s: %w", sandboxID, err)
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return bookmark{}, fmt.Errorf("bookmark of sandbox %s: %w: %w", sandboxID, errBookmark, err)
	}
	return b, nil
}

// saveBookmark replaces the bookmark in one step, so that a death leaves the
// old one or the new one.
func (h *Host) saveBookmark(sandboxID string, b bookmark) error {
	h.marks.Lock()
	defer h.marks.Unlock()
	return h.replaceBookmark(sandboxID, b)
}

func (h *Host) replaceBookmark(sandboxID string, b bookmark) error {
	data, err := json.Marshal(b)
	if err == nil {
		err = replaceFile(h.bookmarkPath(sandboxID), data)
	}
	if err != nil {
		return fmt.Errorf("bookmark of sandbox %s: %w", sandboxID, err)
	}
	return nil
}

// halfWritten is how files are named until they are whole.
const halfWritten = "new-*"

// removeHalfWritten removes what a worker before was writing when it was killed.
func (h *Host) removeHalfWritten() error {
	var errs []error
	for _, path := range []string{h.bookmarkPath("x"), h.attemptPath("x")} {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), halfWritten))
		errs = append(errs, err)
		for _, f := range files {
			errs = append(errs, os.Remove(f))
		}
	}
	return errors.Join(errs...)
}

// replaceFile has the new content or the old one at the path, whenever it dies.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), halfWritten)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (h *Host) dropBookmark(sandboxID string) error {
	if err := os.Remove(h.bookmarkPath(sandboxID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bookmark of sandbox %s: %w", sandboxID, err)
	}
	return nil
}

// A turn of the run before that has told its end notes it within this time.
const (
	notePatience = 2 * time.Second
	noteEvery    = 20 * time.Millisecond
)

// settledBookmark is the bookmark for a turn. The attempt of a run that was
// reset may be about to note the end that the run after it has read in the
// stream already; it is waited for.
func (h *Host) settledBookmark(ctx context.Context, in contract.RunTurnInput) (bookmark, error) {
	for until := time.Now().Add(notePatience); ; {
		b, err := h.bookmark(in.Sandbox.ID)
		if err != nil || !in.Reset || b.Open == nil || b.begun(in) || time.Now().After(until) {
			return b, err
		}
		select {
		case <-time.After(noteEvery):
		case <-ctx.Done():
			return b, ctx.Err()
		}
	}
}
