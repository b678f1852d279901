package activities

import (
	"context"
	"errors"
	"fmt"
)

// StopAgents ends the agent processes of this host and leaves their sandboxes:
// the next turn of each session starts its agent anew and resumes. It is for a
// host that is put to rest; a worker that only restarts leaves its agents
// running.
func (h *Host) StopAgents(ctx context.Context) error {
	infos, err := h.o.Provider.List(ctx)
	if err != nil {
		return fmt.Errorf("stop agents: %w", err)
	}
	var errs []error
	for _, info := range infos {
		sb, err := h.o.Provider.Open(ctx, info.SandboxID)
		if err == nil {
			err = h.stopAgent(ctx, &agent{sb: sb, paths: info.Paths, env: info.Env, epoch: info.Epoch})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("stop the agent in sandbox %s: %w", info.SandboxID, err))
		}
	}
	return errors.Join(errs...)
}
