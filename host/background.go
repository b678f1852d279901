package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

// Background returns the commands that the tools of a sandbox's agent have left running,
// sorted, without duplicates. Agents run the commands of their tools in separate kernel
// sessions; other processes below an agent (servers of its tools, helpers) are part of it.
// An agent that has ended has none; a runner that does not answer in time is named instead,
// for its agent may have some. Sessions that work in the sandbox are among them, and checks.
func (h *Host) Background(ctx context.Context, info sandbox.Info) []string {
	ctx, cancel := context.WithTimeout(ctx, AckPatience)
	defer cancel()
	var commands []string
	err := h.ask(ctx, info, func(c *runner.Conn) error {
		below, err := c.Processes(ctx)
		for _, p := range below {
			if p.Detached {
				commands = append(commands, p.Comm)
			}
		}
		return err
	})
	if err != nil {
		h.o.Log.Debug("look for commands in the background", "sandbox", info.SandboxID, "error", err)
		if ctx.Err() != nil {
			commands = []string{"a runner that does not answer"}
		}
	}
	sharing, err := h.Sharing(ctx, info.SandboxID)
	if err != nil {
		h.o.Log.Debug("look for sessions in a sandbox", "sandbox", info.SandboxID, "error", err)
	}
	for _, s := range sharing {
		commands = append(commands, "session "+s.SessionID)
	}
	if h.isChecked(info.SandboxID) {
		commands = append(commands, "a check")
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// Sharing returns the sandboxes that are in another one: those of child sessions.
func (h *Host) Sharing(ctx context.Context, sandboxID string) ([]sandbox.Info, error) {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("sessions in sandbox %s: %w", sandboxID, err)
	}
	return slices.DeleteFunc(infos, func(info sandbox.Info) bool { return info.Shares != sandboxID }), nil
}
