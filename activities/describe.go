package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/session"
)

// versionTimeout bounds the query of a program's version: some take many seconds when all
// run at once on a busy machine. The activity has 30 s.
const versionTimeout = 25 * time.Second

// DescribeHost returns this host's agents, its warnings, and what it could not remove.
func (h *Host) DescribeHost(ctx context.Context) (session.HostReport, error) {
	names := h.o.Agents.Names()
	report := h.report()
	report.Warnings, report.Leftovers, report.Agents = h.o.Warnings, h.leftovers(), make([]session.HostsAgent, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { report.Agents[i] = h.describeAgent(ctx, name) })
	}
	asking.Wait()
	return report, toApplicationError(ctx.Err())
}

// report returns what this host holds.
func (h *Host) report() session.HostReport {
	return session.HostReport{Host: h.o.ID, Sandboxes: h.Slots.Held(), Draining: h.Draining()}
}

// DrainHost begins or ends the draining of this host.
func (h *Host) DrainHost(_ context.Context, on bool) (session.HostReport, error) {
	if err := h.SetDraining(on); err != nil {
		return session.HostReport{}, toApplicationError(err)
	}
	return h.report(), nil
}

func (h *Host) describeAgent(ctx context.Context, name string) session.HostsAgent {
	out := session.HostsAgent{Agent: name}
	a, err := h.o.Agents.Get(name)
	if err == nil {
		out.Program, err = a.Locate(h.o.Getenv)
	}
	if err != nil {
		out.Missing = strings.TrimPrefix(err.Error(), adapters.ErrNotInstalled.Error()+": ")
		return out
	}
	if w, ok := a.(adapters.Wrapped); ok {
		out.Program = w.ProgramFile(out.Program)
	}
	if out.Version, err = h.programVersion(ctx, out.Program); err != nil {
		out.Missing = err.Error()
	}
	return out
}

// programFile identifies what a program's file contains.
type programFile struct {
	path     string
	size     int64
	modified time.Time
}

// programVersion returns the first line of a program's version output. A file that has
// answered is not asked again: some programs take seconds of processor time for it.
func (h *Host) programVersion(ctx context.Context, program string) (string, error) {
	info, err := os.Stat(program)
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	file := programFile{program, info.Size(), info.ModTime()}
	if known, ok := h.versions.Load(file); ok {
		return known.(string), nil
	}
	version, err := h.askVersion(ctx, program)
	if err == nil {
		h.versions.Store(file, version)
	}
	return version, err
}

// askVersion runs a program outside of a sandbox, so it gets nothing of the worker's
// environment, and a temporary home.
func (h *Host) askVersion(ctx context.Context, program string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	home, err := os.MkdirTemp("", "version-")
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.WaitDelay = 100 * time.Millisecond
	cmd.Dir, cmd.Env = home, []string{"PATH=" + h.o.Getenv("PATH"), "HOME=" + home}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, io.Discard
	switch err := cmd.Run(); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("%s --version: no answer within %s", program, versionTimeout)
	case err != nil:
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	return brief.Truncate(first, 100), nil
}
