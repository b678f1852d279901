package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

// ErrAgent is wrapped for an agent that can't be started.
var ErrAgent = errors.New("agent")

// ErrProfile is wrapped for a profile that does not exist or can't be read.
var ErrProfile = errors.New("profile")

// Agent is an agent in its sandbox, with the connection to its runner, which is kept
// between turns. Only one goroutine at a time may use it for a turn.
type Agent struct {
	Adapter adapters.Adapter
	Launch  adapters.Launch
	Sandbox sandbox.Sandbox
	Paths   sandbox.Paths
	// Env is the sandbox's environment, NAME=value each.
	Env []string
	// Epoch is the sandbox's epoch.
	Epoch uint64
	// Conn is nil before the agent is connected to.
	Conn *runner.Conn
	// Fresh reports whether this process of the agent was started for this turn.
	Fresh bool
	// Opened is where the first input of this process is in the spool; the zero value
	// before it was written.
	Opened runner.Ack
	// Note describes what was repaired before this process was started.
	Note string

	// tools reports whether the agent may call Sojourn's tools.
	tools bool
	// drop closes the transport of the connection.
	drop context.CancelFunc
	// reached is how far the spool is known to have come.
	reached int64
}

// Agent returns the running agent of a sandbox: it reuses the connection, attaches to a
// live agent, or starts one. reached is how far its spool came before, and unfinished is that
// of [adapters.Launch].
func (h *Host) Agent(ctx context.Context, in contract.Agent, sandboxID string, epoch uint64, reached int64, unfinished []adapters.Unfinished) (*Agent, error) {
	if a := h.running(ctx, sandboxID, epoch); a != nil {
		return a, nil
	}
	a, err := h.Prepare(ctx, in, sandboxID, epoch)
	if err != nil {
		return nil, err
	}
	a.reached, a.Launch.Unfinished = reached, unfinished
	if err := h.attachOrStart(ctx, a); err != nil {
		return nil, errors.Join(err, a.detach())
	}
	h.mu.Lock()
	h.agents[sandboxID] = a
	h.mu.Unlock()
	return a, nil
}

// running returns the connected agent if its process lives and serves the epoch.
func (h *Host) running(ctx context.Context, sandboxID string, epoch uint64) *Agent {
	a := h.Connected(sandboxID)
	if a == nil {
		return nil
	}
	if status, err := a.Conn.Status(ctx); err == nil && status.State == runner.AgentRunning && a.Epoch == epoch {
		a.Fresh = false
		return a
	}
	h.Disconnect(sandboxID)
	return nil
}

// Connected returns the agent of the kept connection, which may have exited; nil for none.
func (h *Host) Connected(sandboxID string) *Agent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.agents[sandboxID]
}

// Disconnect closes the kept connection to a sandbox's agent, if there is one. The agent
// continues.
func (h *Host) Disconnect(sandboxID string) {
	h.mu.Lock()
	a := h.agents[sandboxID]
	delete(h.agents, sandboxID)
	h.mu.Unlock()
	if a != nil {
		h.detach(sandboxID, a)
	}
}

func (h *Host) detach(sandboxID string, a *Agent) {
	if err := a.detach(); err != nil {
		h.o.Log.Debug("close connection to runner", "sandbox", sandboxID, "error", err)
	}
}

// detach closes the connection, if there is one.
func (a *Agent) detach() error {
	if a.Conn == nil {
		return nil
	}
	defer a.drop()
	return a.Conn.Close()
}

// Prepare returns a sandbox's agent with all that its start needs, not connected.
func (h *Host) Prepare(ctx context.Context, in contract.Agent, sandboxID string, epoch uint64) (*Agent, error) {
	a, err := h.Find(ctx, in, sandboxID, epoch)
	if err != nil {
		return nil, err
	}
	profile, err := h.Profile(ctx, in.Profile)
	if err != nil {
		return nil, err
	}
	a.Launch, err = h.Launch(in, a.Adapter, profile, a.Paths, a.Env)
	a.tools = h.mayUseTools(in)
	return a, err
}

// Find returns a sandbox's agent, not connected, and without what needs the agent's program
// or the profile: a sandbox can be ended when they are missing.
func (h *Host) Find(ctx context.Context, in contract.Agent, sandboxID string, epoch uint64) (*Agent, error) {
	sb, err := h.o.Provider.Open(ctx, sandboxID)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", sandboxID, err)
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", sandboxID, err)
	}
	a := &Agent{Sandbox: sb, Paths: info.Paths, Env: info.Env, Epoch: epoch}
	if a.Adapter, err = h.o.Agents.Get(in.Name); err != nil {
		return nil, err
	}
	a.Launch = launchIn(info.Paths, in, a.Adapter)
	return a, nil
}

// open returns the agent of a sandbox, not connected, for callers that need no adapter.
func (h *Host) open(ctx context.Context, info sandbox.Info) (*Agent, error) {
	sb, err := h.o.Provider.Open(ctx, info.SandboxID)
	if err != nil {
		return nil, err
	}
	return &Agent{Sandbox: sb, Paths: info.Paths, Env: info.Env, Epoch: info.Epoch}, nil
}

// Profile returns the profile with an id; the zero value for "".
func (h *Host) Profile(ctx context.Context, id string) (adapters.Profile, error) {
	if id == "" {
		return adapters.Profile{}, nil
	}
	if h.o.Profile == nil {
		return adapters.Profile{}, fmt.Errorf("%w %q: this host has no profiles", ErrProfile, id)
	}
	p, err := h.o.Profile(ctx, id)
	if err != nil {
		return p, fmt.Errorf("%w %q: %w", ErrProfile, id, err)
	}
	return p, nil
}

// Launch returns how an agent is launched in a sandbox with these paths and this
// environment.
func (h *Host) Launch(in contract.Agent, a adapters.Adapter, p adapters.Profile, paths sandbox.Paths, env []string) (adapters.Launch, error) {
	program, err := a.Locate(h.o.Getenv)
	if err != nil {
		return adapters.Launch{}, err
	}
	l := launchIn(paths, in, a)
	l.Program, l.MCPServers = program, p.Servers(l.Home)
	if h.mayUseTools(in) {
		if l.MCPServers, err = withTools(in, p, l.Home, toolsIn(paths)); err != nil {
			return adapters.Launch{}, err
		}
	}
	l.Env = environmentOf(env)
	l.Model, l.SystemPrompt = cmp.Or(in.Model, p.Model), in.SystemPrompt
	l.Policy = p.Policy()
	l.Policy.Standing = cmp.Or(l.Policy.Standing, adapters.PermissionAllow)
	l.Permission = in.Policy().Over(l.Policy).Mode()
	return l, nil
}

// launchIn returns the part of a launch that has the agent's paths.
func launchIn(paths sandbox.Paths, in contract.Agent, a adapters.Adapter) adapters.Launch {
	return adapters.Launch{
		Runner: paths.Runner, Home: paths.Home, Workspace: paths.Workspace, SessionID: in.SessionID,
		NativeID: a.NativeID(in.SessionID, in.Native),
	}
}

// environmentOf returns NAME=value as a map.
func environmentOf(env []string) map[string]string {
	out := make(map[string]string, len(env))
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		out[name] = value
	}
	return out
}

// environment returns the sandbox's environment, with the additions of the agent's command.
func (a *Agent) environment(cmd adapters.Command) []string {
	var own []string
	for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
		own = append(own, name+"="+cmd.Env[name])
	}
	return sandbox.MergeEnv(a.Env, own)
}

// Isolation returns the isolation of everything that runs for an agent.
func Isolation(paths sandbox.Paths) runner.IsolationSpec {
	mode := runner.IsolationAuto
	if paths.Confine {
		mode = runner.IsolationRequire
	}
	return runner.IsolationSpec{Mode: mode, Hide: paths.Hide, Keep: paths.Keep, KeepReadOnly: paths.KeepReadOnly, Network: paths.Network}
}
