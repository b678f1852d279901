package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sojourn-run/sojourn/runner"
)

// StopAgents ends the agent processes of this host and keeps their sandboxes: the next turn
// of each session restarts its agent and resumes. It is for a host that is taken out of
// service; a worker that only restarts leaves its agents running.
func (h *Host) StopAgents(ctx context.Context) error {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		return fmt.Errorf("stop agents: %w", err)
	}
	errs := make([]error, len(infos))
	var all sync.WaitGroup
	for i, info := range infos {
		all.Go(func() {
			a, err := h.open(ctx, info)
			if err == nil {
				err = h.StopAgent(ctx, a, runner.Grace{})
			}
			if err != nil {
				errs[i] = fmt.Errorf("stop the agent in sandbox %s: %w", info.SandboxID, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// StopAgent ends the agent's process, if there is one.
func (h *Host) StopAgent(ctx context.Context, a *Agent, grace runner.Grace) error {
	h.Disconnect(a.Sandbox.ID())
	if err := h.attach(ctx, a); err != nil {
		if errors.Is(err, runner.ErrEpoch) || ctx.Err() != nil {
			return err
		}
		// No supervisor answers: no agent was started, or it ended long ago.
		h.o.Log.Debug("no runner to stop", "sandbox", a.Sandbox.ID(), "error", err)
		return nil
	}
	_, err := a.Conn.Stop(ctx, grace)
	return errors.Join(err, a.detach())
}
