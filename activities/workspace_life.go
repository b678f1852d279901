package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/stream"
)

// workspacePatience is how long a turn's end waits until the workspace is
// archived. What was uploaded by then is not uploaded again.
const workspacePatience = 30 * time.Second

// restore writes the archived workspace into the sandbox; had says whether
// there was one. What can't be written is left out, and said by every look; an
// archive that can't be read is an error.
func (k *keeper) restore(ctx context.Context) (had bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.open(ctx); err != nil {
		return false, fmt.Errorf("restore the workspace: %w", err)
	}
	if len(k.ws.Files()) == 0 {
		return k.ws.Known(), nil
	}
	r := restoring{keeper: k}
	err = k.sb.CopyIn(ctx, sandbox.AreaWorkspace, r.files(ctx))
	switch {
	case r.fault != nil:
		return false, fmt.Errorf("restore the workspace: %w", r.fault)
	case ctx.Err() != nil, errors.Is(err, sandbox.ErrLimit), errors.Is(err, sandbox.ErrTerminated):
		return false, fmt.Errorf("restore the workspace: %w", err)
	case err != nil:
		k.lost = append(k.lost, "what could not be restored: "+cut(err.Error(), 500))
	}
	return true, nil
}

// restoring is one restore under way.
type restoring struct {
	*keeper
	// fault is why the archive can't be read.
	fault error
}

func (r *restoring) files(ctx context.Context) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		for c, err := range r.ws.Contents(ctx) {
			if err != nil {
				r.fault = err
				yield(sandbox.File{}, err)
				return
			}
			if c.Mode.Type() == fs.ModeSymlink && !sandbox.LinkStays(c.Path, c.Link) {
				r.held[c.Path] = true
				continue
			}
			f := sandbox.File{Path: c.Path, Mode: c.Mode, Size: c.Size, ModTime: c.ModTime, Link: c.Link}
			if c.Body != nil {
				f.Body = checked{r, c.Body}
			}
			if !yield(f, nil) || r.fault != nil {
				return
			}
		}
	}
}

// checked tells a file that is broken in the archive, which is left out, from
// an archive that does not answer.
type checked struct {
	restoring *restoring
	body      io.Reader
}

func (c checked) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, archive.ErrCorrupt) {
		c.restoring.fault = err
	}
	return n, err
}

// furnishWorkspace gives a workspace of the sandbox's own the files that it had,
// or those that the profile begins with: these are in the archive before the
// agent can change them, and are nobody's news. A folder of the user's keeps its
// files as they are.
func (h *Host) furnishWorkspace(ctx context.Context, in Agent, sb sandbox.Sandbox, epoch uint64, profile []adapters.File) error {
	k := h.keeper(in, sb, epoch)
	if k == nil {
		return nil
	}
	had, err := k.restore(ctx)
	for _, lost := range k.lost {
		h.o.Log.Warn(lost, "session", in.SessionID)
	}
	if err != nil || had {
		return err
	}
	if err := copyProfile(ctx, sb, filesOf(profile, adapters.InWorkspace), sandbox.AreaWorkspace); err != nil {
		return err
	}
	news, left, err := k.sync(ctx)
	if left != "" {
		h.o.Log.Warn(left, "session", in.SessionID)
	}
	_ = k.teller.tell(news) // nobody's news
	return err
}

// keepWorkspace archives the workspace at the turn's end and tells what
// changed and was not told yet.
func (t *turn) keepWorkspace(ctx context.Context) (behind string) {
	k := t.host.keeper(t.in.Agent, t.agent.sb, t.in.Sandbox.Epoch)
	if k == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspacePatience)
	defer cancel()
	news, left, err := k.sync(ctx)
	if err := t.out.Add(context.WithoutCancel(ctx), k.teller.tell(news), stream.Position{}); err != nil {
		t.host.o.Log.Debug("changes of the workspace were not said", "session", t.in.Agent.SessionID, "error", err)
	}
	if err != nil {
		return err.Error()
	}
	if left != "" {
		t.host.o.Log.Warn(left, "session", t.in.Agent.SessionID)
	}
	return left
}

// keepLast archives the workspace before its sandbox ends. What can't be read
// of it is returned in words; empty for nothing.
func (h *Host) keepLast(ctx context.Context, in EndSandboxInput, sb sandbox.Sandbox) (left string, err error) {
	k := h.keeper(in.Agent, sb, in.Sandbox.Epoch)
	if k == nil {
		return "", nil
	}
	k.mu.Lock()
	k.last = true
	k.mu.Unlock()
	news, left, err := k.sync(ctx)
	unread, err := unreadableOf(err)
	left = strings.TrimPrefix(strings.Join(append([]string{left}, unread...), "; "), "; ")
	if left != "" {
		h.o.Log.Warn(left, "session", in.Agent.SessionID)
	}
	return cut(left, leftShown), errors.Join(err, h.tellFiles(ctx, in, k, news))
}

// tellFiles says what changed between the last turn and the sandbox's end.
func (h *Host) tellFiles(ctx context.Context, in EndSandboxInput, k *keeper, news []sighting) error {
	events := k.teller.tell(news)
	if len(events) == 0 {
		return nil
	}
	_, err := h.o.Stream.Emit(ctx, in.Agent.SessionID, stream.Emission{
		Fence: stream.Fence{Epoch: in.Sandbox.Epoch}, LastSeq: in.LastSeq,
		Key: fmt.Sprintf("files-%d-%d", in.Sandbox.Epoch, time.Now().UnixNano()), Events: events,
	})
	return err
}
