package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

// startTries is how often a runner is started that dies before its agent runs.
const startTries = 3

// attachOrStart connects to the runner, starting the agent if none lives.
func (h *Host) attachOrStart(ctx context.Context, a *Agent) error {
	err := h.attach(ctx, a)
	if err == nil && a.Conn.Attached().State == runner.AgentRunning {
		_, err := findNative(ctx, a)
		return err
	}
	if errors.Is(err, runner.ErrEpoch) || errors.Is(err, runner.ErrVersion) {
		return err
	}
	h.detach(a.Sandbox.ID(), a)
	err = h.StartAgent(ctx, a)
	for again := 1; again < startTries && errors.Is(err, runner.ErrSilent); again++ {
		err = h.StartAgent(ctx, a)
	}
	if err != nil && !errors.Is(err, runner.ErrRunning) {
		return fmt.Errorf("start %w %s: %w", ErrAgent, a.Adapter.Info().Name, err)
	}
	return h.attach(ctx, a)
}

// attach connects to the runner. The connection outlives the activity: it is kept for the
// next turn. Connecting does not: a runner that does not answer must not block the turn.
func (h *Host) attach(ctx context.Context, a *Agent) error {
	life, drop := context.WithCancel(h.ctx)
	made := context.AfterFunc(ctx, drop)
	conn, err := runner.Attach(life, a.Sandbox, a.Paths.Runner, a.Paths.Socket, h.token(a.Sandbox.ID()), a.Epoch)
	if err != nil {
		made()
		drop()
		return fmt.Errorf("attach to sandbox %s: %w", a.Sandbox.ID(), err)
	}
	a.Conn, a.drop = conn, drop
	made()
	if a.tools {
		h.background.Go(func() { h.answerTools(life, a) })
	}
	return ctx.Err()
}

func (h *Host) token(sandboxID string) string { return runner.Token(h.o.Secret, sandboxID) }

// findNative finds the native session in the home, which decides whether the agent is
// started new or resumed.
func findNative(ctx context.Context, a *Agent) (adapters.Preparation, error) {
	found, err := a.Adapter.Prepare(a.Home(ctx), a.Launch)
	if err != nil {
		return found, err
	}
	if found.NativeID != "" {
		a.Launch.NativeID, a.Launch.Resume, a.Launch.Prompts = found.NativeID, true, found.Prompts
	}
	return found, nil
}

// StartAgent repairs the home and starts the agent's process in it, without connecting to
// it.
func (h *Host) StartAgent(ctx context.Context, a *Agent) error {
	if err := h.Mend(ctx, a); err != nil {
		return err
	}
	found, err := findNative(ctx, a)
	if err != nil {
		return err
	}
	if err := repair(ctx, a, found); err != nil {
		return err
	}
	cmd, err := a.Adapter.Command(a.Launch)
	if err != nil {
		return err
	}
	_, err = runner.Start(ctx, a.Sandbox, a.Paths.Runner, h.startSpec(a, cmd))
	a.Fresh, a.Note = err == nil, found.Note
	return err
}

func (h *Host) startSpec(a *Agent, cmd adapters.Command) runner.StartSpec {
	spec := runner.StartSpec{
		Epoch: a.Epoch, Token: h.token(a.Sandbox.ID()), Argv: cmd.Argv, Env: a.environment(cmd), Dir: cmd.Dir, Helpers: cmd.Helpers,
		Control: a.Paths.Control, Socket: a.Paths.Socket,
		Isolation: Isolation(a.Paths),
		SpoolFrom: a.reached, IdleLease: h.o.IdleLease,
		Tag: map[string]string{"session": a.Launch.SessionID, "agent": a.Adapter.Info().Name, restartTag: fmt.Sprint(adapters.MustRestartToAsk(a.Adapter, a.Launch))},
	}
	if a.tools {
		spec.Tools = toolsIn(a.Paths)
	}
	if w, ok := a.Adapter.(adapters.Wrapped); ok {
		spec.Isolation.Programs = []string{w.ProgramFile(a.Launch.Program)}
	}
	if c := cmd.HTTP; c != nil {
		spec.Transport = runner.TransportHTTP
		spec.HTTP = runner.HTTPSpec{Ready: c.Ready, Events: c.Events, User: c.User, PasswordEnv: c.PasswordEnv}
	}
	return spec
}

// restartTag is the tag of an agent's process that has [adapters.MustRestartToAsk].
const restartTag = "restartToAsk"

// MustRestartToAsk reports whether the connected process must be started anew before it asks. It is
// not known of one that an older build started.
func (a *Agent) MustRestartToAsk() bool { return a.Conn.Attached().Tag[restartTag] == "true" }

// repair moves and writes what the adapter wants before a start.
func repair(ctx context.Context, a *Agent, p adapters.Preparation) error {
	for _, m := range p.Move {
		if err := move(ctx, a, m); err != nil {
			return fmt.Errorf("move %s in the agent's home: %w", m.From, err)
		}
	}
	if len(p.Write) == 0 {
		return nil
	}
	if err := a.Sandbox.CopyIn(ctx, sandbox.AreaHome, repaired(a.Home(ctx), p.Write)); err != nil {
		return fmt.Errorf("repair the agent's home: %w", err)
	}
	return nil
}

// Mend makes whole what an agent that has exited was killed at: its transcripts end with
// whole lines, see [adapters.WholeLines], and name the prompt that it had last, see
// [adapters.Completer].
func (h *Host) Mend(ctx context.Context, a *Agent) error {
	home := a.Home(ctx)
	found, err := a.Adapter.Transcripts(home, a.Launch)
	if err != nil {
		return err
	}
	torn, err := adapters.WholeLines(home, found)
	if err != nil {
		return err
	}
	for _, f := range torn {
		if f.Path != f.From {
			h.o.Log.Info("a line that a killed agent has half written is set aside", "sandbox", a.Sandbox.ID(), "file", f.Path)
		}
	}
	if err := repair(ctx, a, adapters.Preparation{Write: torn}); err != nil {
		return err
	}
	c, ok := a.Adapter.(adapters.Completer)
	if !ok {
		return nil
	}
	files, err := c.Complete(home, a.Launch)
	if err != nil {
		return err
	}
	return repair(ctx, a, adapters.Preparation{Write: files})
}

// move moves a file of the home. Isolated, since the agent may have put links to anywhere
// on the path.
func move(ctx context.Context, a *Agent, m adapters.Move) error {
	for _, name := range []string{m.From, m.To} {
		if err := sandbox.Text(name, "").Check(); err != nil {
			return err
		}
	}
	for _, argv := range [][]string{{"mkdir", "-p", "--", path.Dir(m.To)}, {"mv", "-f", "--", m.From, m.To}} {
		spec := runner.RunSpec{Argv: argv, Env: a.Env, Dir: a.Paths.Home, Isolation: Isolation(a.Paths)}
		if err := runner.Run(ctx, a.Sandbox, a.Paths.Runner, spec); err != nil {
			return err
		}
	}
	return nil
}

// repaired returns files as an adapter wants them. Each is read while it is written.
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
