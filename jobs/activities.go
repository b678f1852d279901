package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/internal/heartbeat"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workspace"
)

// Activities are those of jobs. Safe for concurrent use.
type Activities struct {
	Sessions *session.Client
	Archive  *archive.Archive
	// Profile loads an agent profile; nil if there are none.
	Profile func(ctx context.Context, id string) (adapters.Profile, error)
}

// PutFiles writes a session's first workspace into the archive, from where its first sandbox
// takes it: the profile's files, and those of the job over them.
func (a *Activities) PutFiles(ctx context.Context, in PutFilesInput) error {
	files, err := a.initial(ctx, in)
	if err != nil {
		return session.ToTemporal(err)
	}
	epoch, err := a.unused(ctx, in.SessionID)
	if err != nil {
		return session.Typed(fmt.Errorf("session %s: write its files: %w", in.SessionID, session.ToTemporal(err)))
	}
	switch err := write(ctx, a.Archive, in.SessionID, epoch, files); {
	case errors.Is(err, archive.ErrInvalid): // the profile has a file where the job's need a folder, or the other way round
		return session.ToTemporal(session.Invalid("files", err.Error(), "files that fit between those of the profile"))
	case err != nil:
		return fmt.Errorf("session %s: write its files: %w", in.SessionID, err)
	}
	return nil
}

// unused takes an epoch of a session that was never started. What a job has written that died
// before its session started is replaced.
func (a *Activities) unused(ctx context.Context, sessionID string) (epoch uint64, err error) {
	seen, err := a.Archive.Epoch(ctx, sessionID)
	if err != nil {
		return 0, err
	}
	switch _, err := a.Archive.Session(ctx, sessionID); {
	case err == nil:
		return 0, taken(sessionID)
	case !errors.Is(err, archive.ErrNotFound):
		return 0, err
	}
	// One that starts now takes an epoch, too: the next attempt sees it.
	return a.Archive.TakeEpochAfter(ctx, sessionID, seen)
}

// content is a file to write.
type content struct {
	mode fs.FileMode
	data []byte
}

func (a *Activities) initial(ctx context.Context, in PutFilesInput) (map[string]content, error) {
	all := map[string]content{}
	if in.Profile != "" {
		if a.Profile == nil {
			return nil, session.Invalid("options.profile", "the worker has no profiles", "a worker with SOJOURN_PROFILES")
		}
		p, err := a.Profile(ctx, in.Profile)
		if err != nil {
			return nil, session.Invalid("options.profile", err.Error(), "a profile that the worker has")
		}
		for name, text := range p.Workspace {
			all[name] = content{0o644, []byte(text)}
		}
	}
	for i, f := range in.Files {
		data, err := f.Data()
		if err != nil {
			return nil, session.Invalid(fmt.Sprintf("files[%d].base64", i), err.Error(), "standard base64")
		}
		all[f.Path] = content{0o644, data}
		if f.Executable {
			all[f.Path] = content{0o755, data}
		}
	}
	return all, nil
}

func write(ctx context.Context, to *archive.Archive, sessionID string, epoch uint64, files map[string]content) error {
	w, err := workspace.Open(ctx, to, sessionID, epoch)
	if err != nil {
		return err
	}
	var all []workspace.File
	folders := map[string]bool{}
	for name, c := range files {
		f, err := w.Put(ctx, bytes.NewReader(c.data))
		if err != nil {
			return err
		}
		f.Path, f.Mode, f.ModTime = name, c.mode, time.Now()
		all = append(all, f)
		for dir := path.Dir(name); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
			all = append(all, workspace.File{Path: dir, Mode: fs.ModeDir | 0o755})
		}
	}
	return w.Commit(ctx, all)
}

// lookEvery is how often a session is asked for a message that it has not begun, at first, and
// lookAtMost how seldom later.
const (
	lookEvery  = 200 * time.Millisecond
	lookAtMost = 5 * time.Second
)

// AwaitAnswer waits until a message has ended, and checks the answer against the schema.
func (a *Activities) AwaitAnswer(ctx context.Context, in AwaitAnswerInput) (Answer, error) {
	defer heartbeat.Keep(ctx)()
	h, err := a.Sessions.Get(ctx, in.SessionID)
	if err != nil {
		return Answer{}, session.ToTemporal(err)
	}
	switch limit, err := AwaitBegin(ctx, h, in.MessageID); {
	case err != nil:
		return Answer{}, session.ToTemporal(err)
	case limit != "":
		return Answer{Result: session.Result{
			MessageID: in.MessageID, Outcome: session.Interrupted, Error: &event.ErrorInfo{Code: session.TypeLimit, Message: limit},
		}}, nil
	}
	res, err := h.AwaitEnd(ctx, in.MessageID)
	if err != nil {
		return Answer{}, session.ToTemporal(err)
	}
	return answer(in.Schema, res), nil
}

// AwaitBegin returns when the session has taken a message and begun its turn, or has ended it, or
// with the limit that keeps it from running: a job fails with it, as it does when a limit ends its first turn.
func AwaitBegin(ctx context.Context, h *session.Handle, messageID string) (limit string, err error) {
	for wait := lookEvery; ; wait = min(2*wait, lookAtMost) {
		_, err := h.Result(ctx, messageID)
		switch {
		case errors.Is(err, session.ErrNotFound): // the session has not taken it yet
		case !errors.Is(err, session.ErrBusy):
			return "", err
		default:
			now, err := h.Inspect(ctx)
			waits := slices.ContainsFunc(now.Queued, func(m session.Message) bool { return m.ID == messageID })
			if err != nil || !waits {
				return "", err
			}
			if now.Status == session.StatusPaused {
				return now.WaitsFor, nil
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// answer checks an execution's result against a schema, if there is one, and bounds what goes
// into the job's history.
func answer(schema []byte, res session.Result) Answer {
	out := Answer{Result: res.Fitting(MaxResultBytes)}
	if len(schema) > 0 && res.Outcome == session.Completed && res.Result != nil {
		value, err := find(schema, res.Result.Response)
		switch n := session.JSONSize(value); {
		case err != nil:
			out.Mismatch = clip(err.Error())
		case n > MaxResultBytes:
			out.TooLarge = fmt.Sprintf("the value is %d bytes; at most %d go into a result", n, MaxResultBytes)
		default:
			out.Value = value
		}
	}
	return out
}

// maxMismatchBytes bounds why an answer does not match: the reason may quote all of it.
const maxMismatchBytes = 4 << 10

// clip returns the beginning and the end of a reason: where it is, and what was wanted there.
func clip(why string) string {
	const half = maxMismatchBytes / 2
	if len(why) <= maxMismatchBytes {
		return why
	}
	return strings.ToValidUTF8(why[:half], "") + " … " + strings.ToValidUTF8(why[len(why)-half:], "")
}

// Artifacts lists the files of a closed session that match the patterns.
func (a *Activities) Artifacts(ctx context.Context, in ArtifactsInput) ([]Artifact, error) {
	files, err := a.Sessions.Files(ctx, in.SessionID)
	if err != nil {
		return nil, session.ToTemporal(err)
	}
	out := []Artifact{}
	for _, f := range files {
		if !f.Regular() || !slices.ContainsFunc(in.Patterns, func(p string) bool {
			return match(strings.Split(p, "/"), strings.Split(f.Path, "/"))
		}) {
			continue
		}
		out = append(out, Artifact{Path: f.Path, Size: f.Size, SHA256: f.SHA256})
	}
	if n := session.JSONSize(out); n > MaxResultBytes {
		why := fmt.Sprintf("the list of the %d artifacts is %d bytes; at most %d go into a result", len(out), n, MaxResultBytes)
		return nil, temporal.NewNonRetryableApplicationError(why, TypeTooLarge, nil)
	}
	return out, nil
}

// ByName returns the activities by the names under which they are registered: those of
// session.TaskQueue, and those of session.WatchQueue.
func (a *Activities) ByName() (light, watching map[string]any) {
	return map[string]any{ActivityPutFiles: a.PutFiles, ActivityArtifacts: a.Artifacts, ActivitySandbox: a.Sandbox},
		map[string]any{ActivityAwaitAnswer: a.AwaitAnswer}
}
