package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/host"
	"github.com/sojourn-run/sojourn/sandbox"
)

// box is one sandbox.
type box struct {
	provider *Provider
	record   record
}

var _ sandbox.Sandbox = (*box)(nil)

// ID is the sandbox's id.
func (b *box) ID() string { return b.record.ID }

func (b *box) folder() string { return b.provider.folder(b.record.ID) }

func (b *box) marked() string { return runner.MarkEnv + "=" + b.folder() }

// paths says where things lie and what the agent must not see.
func (b *box) paths() sandbox.Paths {
	p, dir := b.provider, b.folder()
	socket, _ := runner.SocketPath(p.dataDir, b.record.ID) // New has checked the length
	out := sandbox.Paths{
		Home:      filepath.Join(dir, "home"),
		Workspace: filepath.Join(dir, "workspace"),
		Tmp:       filepath.Join(dir, "tmp"),
		Control:   filepath.Join(dir, "control"),
		Socket:    socket,
		Runner:    p.runner,
		Hide:      append([]string{p.dataDir}, p.options.Hide...),
		Confine:   !p.options.UnsafeLocal,
	}
	if b.record.Workspace != "" {
		out.Workspace = b.record.Workspace
	}
	if home := p.hiddenHome(); home != "" {
		out.Hide = append(out.Hide, home)
		out.KeepReadOnly = toolFolders(home, envValue(p.env, "PATH"))
	}
	out.Keep = []string{out.Home, out.Workspace, out.Tmp}
	out.KeepReadOnly = append(out.KeepReadOnly, p.options.Keep...)
	return out
}

// env is the environment of every command.
func (b *box) env(paths sandbox.Paths) []string {
	return sandbox.MergeEnv(
		[]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=dumb"},
		b.provider.env,
		[]string{"HOME=" + paths.Home, "TMPDIR=" + paths.Tmp, b.marked()},
	)
}

// Info looks at the sandbox; see [sandbox.Sandbox].
func (b *box) Info(_ context.Context) (sandbox.Info, error) {
	paths := b.paths()
	info := sandbox.Info{
		State:     sandbox.State{SandboxID: b.record.ID, Status: sandbox.StatusReady, LastHealthCheck: time.Now().UTC()},
		SessionID: b.record.SessionID,
		Epoch:     b.record.Epoch,
		Labels:    b.record.Labels,
		Provider:  "local",
		Created:   b.record.Created,
		Paths:     paths,
		Env:       b.env(paths),
	}
	if !b.stands() {
		exit := 0
		info.Status, info.Exit = sandbox.StatusTerminated, &exit
		return info, nil
	}
	state, err := host.Look(paths.Control)
	if err != nil {
		return info, fmt.Errorf("sandbox %s: info: %w", b.record.ID, err)
	}
	info.RestartCount = state.Status.RestartCount
	switch {
	case state.Died():
		info.Status, info.Message = sandbox.StatusUnhealthy, "the runner was killed"
	case state.Status.Fault != "":
		info.Status, info.Message = sandbox.StatusUnhealthy, state.Status.Fault
	}
	return info, nil
}

func (b *box) stands() bool {
	_, err := os.Stat(filepath.Join(b.folder(), "sandbox.json"))
	return err == nil
}

// Terminate ends the sandbox; see [sandbox.Sandbox].
func (b *box) Terminate(ctx context.Context) error {
	paths := b.paths()
	if err := errors.Join(host.End(ctx, paths.Control), host.EndMarked(b.marked())); err != nil {
		return fmt.Errorf("sandbox %s: terminate: %w", b.record.ID, err)
	}
	if err := b.remove(paths); err != nil {
		return fmt.Errorf("sandbox %s: terminate: %w", b.record.ID, err)
	}
	return nil
}

// remove takes the folder out of sight first, so that the sandbox is gone at
// once however much there is to delete.
func (b *box) remove(paths sandbox.Paths) error {
	gone, err := os.MkdirTemp(b.provider.root(), gonePrefix)
	if err != nil {
		return err
	}
	err = os.Rename(b.folder(), filepath.Join(gone, "sandbox"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if rmErr := os.Remove(paths.Socket); !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return errors.Join(err, removeAll(gone))
}

// removeAll removes also what an agent has made unwritable.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
