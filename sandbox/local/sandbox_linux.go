package local

import (
	"context"
	"errors"
	"fmt"
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
	// damage is why the record can't be read; nil if it can.
	damage error
}

var _ sandbox.Sandbox = (*box)(nil)

// ID returns the sandbox's id.
func (b *box) ID() string { return b.record.ID }

func (b *box) folder() string { return b.provider.folder(b.record.ID) }

func (b *box) marked() string { return runner.MarkEnv + "=" + b.folder() }

// paths returns the sandbox's files and folders, and what the agent must not see.
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
		Network:   p.network,
	}
	if b.record.Workspace != "" {
		out.Workspace = b.record.Workspace
	}
	if home := p.hiddenHome(); home != "" {
		out.Hide = append(out.Hide, home)
		out.KeepReadOnly = toolFolders(home, sandbox.EnvValue(p.env, "PATH"))
	}
	out.Keep = []string{out.Home, out.Workspace, out.Tmp}
	out.KeepReadOnly = append(out.KeepReadOnly, p.options.Keep...)
	return out
}

// env returns the environment of every command.
func (b *box) env(paths sandbox.Paths) []string {
	return sandbox.MergeEnv(
		[]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=dumb"},
		b.provider.env,
		[]string{"HOME=" + paths.Home, "TMPDIR=" + paths.Tmp, b.marked()},
	)
}

// Info returns the sandbox's state; see [sandbox.Sandbox].
func (b *box) Info(_ context.Context) (sandbox.Info, error) {
	paths := b.paths()
	info := sandbox.Info{
		State:     sandbox.State{SandboxID: b.record.ID, Status: sandbox.StatusReady, LastHealthCheck: time.Now().UTC()},
		SessionID: b.record.SessionID,
		Epoch:     b.record.Epoch,
		Shares:    b.record.Shares,
		Labels:    b.record.Labels,
		Provider:  "local",
		Created:   b.record.Created,
		Paths:     paths,
		Env:       b.env(paths),
	}
	if !b.exists() {
		exit := 0
		info.Status, info.Exit = sandbox.StatusTerminated, &exit
		return info, nil
	}
	state, err := host.Look(paths.Control)
	info.RestartCount = state.Status.RestartCount
	switch {
	case b.damage != nil:
		info.Status, info.Message = sandbox.StatusUnhealthy, b.damage.Error()
	case err != nil:
		// A sandbox of which nothing more is known can still be ended.
		info.Status, info.Message = sandbox.StatusUnhealthy, err.Error()
	case state.Died():
		info.Status, info.Message = sandbox.StatusUnhealthy, "the runner was killed"
	case state.Status.Fault != "":
		info.Status, info.Message = sandbox.StatusUnhealthy, state.Status.Fault
	}
	return info, nil
}

func (b *box) exists() bool {
	_, err := os.Stat(filepath.Join(b.folder(), "sandbox.json"))
	return err == nil
}

// Terminate ends the sandbox; see [sandbox.Sandbox].
func (b *box) Terminate(ctx context.Context) error {
	paths := b.paths()
	if err := errors.Join(host.End(ctx, paths.Control), host.EndMarked(b.marked())); err != nil {
		return fmt.Errorf("sandbox %s: terminate: %w", b.record.ID, err)
	}
	if err := b.remove(ctx, paths); err != nil {
		return fmt.Errorf("sandbox %s: terminate: %w", b.record.ID, err)
	}
	return nil
}
