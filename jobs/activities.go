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
	epoch, err := a.Archive.TakeEpoch(ctx, in.SessionID)
	if err != nil {
		return fmt.Errorf("session %s: write its files: %w", in.SessionID, err)
	}
	if err := write(ctx, a.Archive, in.SessionID, epoch, files); err != nil {
		return fmt.Errorf("session %s: write its files: %w", in.SessionID, err)
	}
	return nil
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

// lookEvery is how often a session is asked for a message that it does not know yet.
const lookEvery = 200 * time.Millisecond

// AwaitAnswer waits until a message has ended, and checks the answer against the schema.
func (a *Activities) AwaitAnswer(ctx context.Context, in AwaitAnswerInput) (Answer, error) {
	defer heartbeat.Keep(ctx)()
	h, err := a.Sessions.Get(ctx, in.SessionID)
	if err != nil {
		return Answer{}, session.ToTemporal(err)
	}
	res, err := h.AwaitEnd(ctx, in.MessageID)
	for errors.Is(err, session.ErrNotFound) {
		// The session has not taken it yet.
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
		res, err = h.AwaitEnd(ctx, in.MessageID)
	}
	if err != nil {
		return Answer{}, session.ToTemporal(err)
	}
	return answer(in.Schema, res), nil
}

// answer checks an execution's result against a schema, if there is one, and bounds what goes
// into the job's history.
func answer(schema []byte, res session.Result) Answer {
	out := Answer{Result: res.Fitting(MaxResultBytes)}
	if len(schema) > 0 && res.Outcome == session.Completed && res.Result != nil {
		value, err := find(schema, res.Result.Response)
		switch n := session.JSONSize(value); {
		case err != nil:
			out.Mismatch = err.Error()
		case n > MaxResultBytes:
			out.TooLarge = fmt.Sprintf("the value is %d bytes; at most %d go into a result", n, MaxResultBytes)
		default:
			out.Value = value
		}
	}
	return out
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
