package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

// agent is an agent in its sandbox with the connection to its runner. It is
// kept warm between turns.
type agent struct {
	adapter adapters.Adapter
	launch  adapters.Launch
	sb      sandbox.Sandbox
	paths   sandbox.Paths
	env     []string
	epoch   uint64
	conn    *runner.Conn
	// drop ends what carries the connection.
	drop context.CancelFunc
	// reached is how far the spool came, as far as is known.
	reached int64
	// fresh says that this process of the agent was started for this turn.
	fresh bool
	// opened is where this process was first written to.
	opened runner.Ack
	// note says what was repaired before this process was started.
	note string
	// exported is how far databases are archived.
	exported exported
	// archiver is made by Host.archiverOf.
	archiver *archiver
}

// agentIn gives the agent of a sandbox, running: warm if it can be, attached
// to if it lives, else started. reached is how far its spool came before.
func (h *Host) agentIn(ctx context.Context, in contract.Agent, sandboxID string, epoch uint64, reached int64) (*agent, error) {
	if a := h.warm(ctx, sandboxID, epoch); a != nil {
		return a, nil
	}
	a, err := h.prepare(ctx, in, sandboxID, epoch)
	if err != nil {
		return nil, err
	}
	a.reached = reached
	if err := h.attachOrStart(ctx, a); err != nil {
		return nil, errors.Join(err, a.detach())
	}
	h.mu.Lock()
	h.agents[sandboxID] = a
	h.mu.Unlock()
	return a, nil
}

// warm gives the kept connection if the agent behind it lives.
func (h *Host) warm(ctx context.Context, sandboxID string, epoch uint64) *agent {
	h.mu.Lock()
	a := h.agents[sandboxID]
	h.mu.Unlock()
	if a == nil {
		return nil
	}
	if status, err := a.conn.Status(ctx); err == nil && status.State == runner.AgentRunning && a.epoch == epoch {
		a.fresh = false
		return a
	}
	h.forget(sandboxID)
	return nil
}

// forget drops the kept connection.
func (h *Host) forget(sandboxID string) {
	h.mu.Lock()
	a := h.agents[sandboxID]
	delete(h.agents, sandboxID)
	h.mu.Unlock()
	if a == nil {
		return
	}
	if err := a.detach(); err != nil {
		h.o.Log.Debug("close connection to runner", "sandbox", sandboxID, "error", err)
	}
}

// prepare finds the sandbox and says how the agent is launched in it.
func (h *Host) prepare(ctx context.Context, in contract.Agent, sandboxID string, epoch uint64) (*agent, error) {
	a, err := h.find(ctx, in, sandboxID, epoch)
	if err != nil {
		return nil, err
	}
	profile, err := h.profile(ctx, in.Profile)
	if err != nil {
		return nil, err
	}
	a.launch, err = h.launch(in, a.adapter, profile, a.paths, a.env)
	return a, err
}

// find finds the sandbox and what the agent keeps in it. It needs neither the
// agent's program nor the profile: a sandbox can be ended when they are gone.
func (h *Host) find(ctx context.Context, in contract.Agent, sandboxID string, epoch uint64) (*agent, error) {
	sb, err := h.o.Provider.Open(ctx, sandboxID)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", sandboxID, err)
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", sandboxID, err)
	}
	a := &agent{sb: sb, paths: info.Paths, env: info.Env, epoch: epoch}
	if a.adapter, err = h.o.Agents.Get(in.Name); err != nil {
		return nil, err
	}
	a.launch = placed(in, a.adapter, info.Paths)
	return a, nil
}

// placed says where an agent's things lie.
func placed(in contract.Agent, a adapters.Adapter, paths sandbox.Paths) adapters.Launch {
	return adapters.Launch{
		Runner: paths.Runner, Home: paths.Home, Workspace: paths.Workspace, SessionID: in.SessionID,
		NativeID: a.NativeID(in.SessionID, in.Native),
	}
}

func (h *Host) profile(ctx context.Context, id string) (adapters.Profile, error) {
	if id == "" {
		return adapters.Profile{}, nil
	}
	if h.o.Profile == nil {
		return adapters.Profile{}, fmt.Errorf("%w %q: this host has no profiles", errProfile, id)
	}
	p, err := h.o.Profile(ctx, id)
	if err != nil {
		return p, fmt.Errorf("%w %q: %w", errProfile, id, err)
	}
	return p, nil
}

func (h *Host) launch(in contract.Agent, a adapters.Adapter, p adapters.Profile, paths sandbox.Paths, env []string) (adapters.Launch, error) {
	program, err := a.Locate(h.o.Getenv)
	if err != nil {
		return adapters.Launch{}, err
	}
	l := placed(in, a, paths)
	l.Program, l.MCPServers = program, p.MCPServers
	l.Env = environmentOf(env)
	l.Model = cmp.Or(in.Model, p.Model)
	l.Permission = cmp.Or(in.Permission, p.Permission, adapters.PermissionAllow)
	return l, nil
}

// startTries is how often a runner is started that dies before its agent runs.
const startTries = 3

// attachOrStart connects to the runner, starting the agent if none lives.
func (h *Host) attachOrStart(ctx context.Context, a *agent) error {
	err := h.attach(ctx, a)
	if err == nil && a.conn.Attached().State == runner.AgentRunning {
		_, err := h.survey(ctx, a)
		return err
	}
	if errors.Is(err, runner.ErrEpoch) || errors.Is(err, runner.ErrVersion) {
		return err
	}
	if err := a.detach(); err != nil {
		h.o.Log.Debug("close connection to runner", "sandbox", a.sb.ID(), "error", err)
	}
	err = h.start(ctx, a)
	for again := 1; again < startTries && errors.Is(err, runner.ErrSilent); again++ {
		err = h.start(ctx, a)
	}
	if err != nil && !errors.Is(err, runner.ErrRunning) {
		return fmt.Errorf("start %w %s: %w", errAgent, a.adapter.Info().Name, err)
	}
	return h.attach(ctx, a)
}

func (h *Host) attach(ctx context.Context, a *agent) error {
	// The connection outlives the activity: it is kept warm for the next turn.
	// Making it does not: a runner that does not answer must not hold the turn.
	life, drop := context.WithCancel(h.ctx)
	made := context.AfterFunc(ctx, drop)
	conn, err := runner.Attach(life, a.sb, a.paths.Runner, a.paths.Socket, h.token(a.sb.ID()), a.epoch)
	if err != nil {
		made()
		drop()
		return fmt.Errorf("attach to sandbox %s: %w", a.sb.ID(), err)
	}
	a.conn, a.drop = conn, drop
	made()
	return ctx.Err()
}

// detach closes the connection, if there is one.
func (a *agent) detach() error {
	if a.conn == nil {
		return nil
	}
	defer a.drop()
	return a.conn.Close()
}

func (h *Host) token(sandboxID string) string { return runner.Token(h.o.Secret, sandboxID) }

// survey finds which native session lies in the home: new or resumed is decided
// by that.
func (h *Host) survey(ctx context.Context, a *agent) (adapters.Preparation, error) {
	found, err := a.adapter.Prepare(a.home(ctx), a.launch)
	if err != nil {
		return found, err
	}
	if found.NativeID != "" {
		a.launch.NativeID, a.launch.Resume = found.NativeID, true
	}
	return found, nil
}

// start mends the home and starts the agent's process in it.
func (h *Host) start(ctx context.Context, a *agent) error {
	found, err := h.survey(ctx, a)
	if err != nil {
		return err
	}
	if err := mend(ctx, a, found); err != nil {
		return err
	}
	cmd, err := a.adapter.Command(a.launch)
	if err != nil {
		return err
	}
	spec := runner.StartSpec{
		Epoch: a.epoch, Token: h.token(a.sb.ID()), Argv: cmd.Argv, Env: a.environment(cmd), Dir: cmd.Dir, Helpers: cmd.Helpers,
		Control: a.paths.Control, Socket: a.paths.Socket,
		Isolation: isolation(a.paths),
		SpoolFrom: a.reached, IdleLease: h.o.IdleLease,
		Tag: map[string]string{"session": a.launch.SessionID, "agent": a.adapter.Info().Name},
	}
	if w, ok := a.adapter.(adapters.Wrapped); ok {
		spec.Isolation.Programs = []string{w.ProgramFile(a.launch.Program)}
	}
	if c := cmd.HTTP; c != nil {
		spec.Transport = runner.TransportHTTP
		spec.HTTP = runner.HTTPSpec{Ready: c.Ready, Events: c.Events, User: c.User, PasswordEnv: c.PasswordEnv}
	}
	_, err = runner.Start(ctx, a.sb, a.paths.Runner, spec)
	a.fresh, a.note = err == nil, found.Note
	return err
}

// mend writes and removes what the adapter wants before a start.
func mend(ctx context.Context, a *agent, p adapters.Preparation) error {
	if err := a.sb.CopyIn(ctx, sandbox.AreaHome, repaired(a.home(ctx), p.Write)); err != nil {
		return fmt.Errorf("mend the agent's home: %w", err)
	}
	if len(p.Remove) == 0 {
		return nil
	}
	for _, name := range p.Remove {
		if err := sandbox.Text(name, "").Check(); err != nil {
			return fmt.Errorf("mend the agent's home: %w", err)
		}
	}
	// Shut in, since the agent may have put links to anywhere on the way.
	argv := append([]string{"rm", "-f", "--"}, p.Remove...)
	spec := runner.RunSpec{Argv: argv, Env: a.env, Dir: a.paths.Home, Isolation: isolation(a.paths)}
	if err := runner.Run(ctx, a.sb, a.paths.Runner, spec); err != nil {
		return fmt.Errorf("mend the agent's home: %w", err)
	}
	return nil
}

// repaired are files as an adapter wants them. Each is read while it is written.
func repaired(home adapters.Home, repairs []adapters.Repair) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		for _, r := range repairs {
			in, err := r.Open(home)
			if err != nil {
				yield(sandbox.File{}, err)
				return
			}
			more := yield(sandbox.File{Path: r.Path, Mode: 0o600, Size: r.Size(), Body: in}, nil)
			if in.Close(); !more { // nothing was written to it
				return
			}
		}
	}
}

// environmentOf is NAME=value as a map.
func environmentOf(env []string) map[string]string {
	out := make(map[string]string, len(env))
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		out[name] = value
	}
	return out
}

// environment is the sandbox's, with what the agent's command wants added.
func (a *agent) environment(cmd adapters.Command) []string {
	var own []string
	for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
		own = append(own, name+"="+cmd.Env[name])
	}
	return sandbox.MergeEnv(a.env, own)
}
