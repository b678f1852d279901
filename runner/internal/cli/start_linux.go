package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/jail"
	"github.com/sojourn-run/sojourn/runner/internal/supervisor"
)

// start starts a supervisor in a new session, which inherits only the
// environment, and prints the line that it reports.
func start(_ context.Context, args []string, std io3) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: start takes no arguments", errUsage)
	}
	spec, raw, err := readSpec(std.in)
	if err == nil {
		var line []byte
		if line, err = daemonise(spec, raw); err == nil {
			_, err = std.out.Write(line)
			return err
		}
	}
	line, encErr := runner.EncodeStarted(runner.Status{}, err)
	if encErr == nil {
		_, encErr = std.out.Write(line)
	}
	return errors.Join(err, encErr)
}

func readSpec(in io.Reader) (spec runner.StartSpec, raw []byte, err error) {
	if raw, err = io.ReadAll(in); err != nil {
		return spec, nil, err
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		return spec, nil, fmt.Errorf("start: spec on stdin: %w", err)
	}
	return spec, raw, spec.WithDefaults().Validate()
}

func daemonise(spec runner.StartSpec, raw []byte) ([]byte, error) {
	// The supervisor must not inherit descriptors that this process was started with.
	if err := jail.CloseOnExec(); err != nil {
		return nil, err
	}
	log, err := openLog(spec.Control)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	defer log.Close()
	specR, specW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	readyR, readyW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p, err := os.StartProcess("/proc/self/exe", []string{"sojourn-runner", "supervise"}, &os.ProcAttr{
		Dir:   "/",
		Files: []*os.File{specR, log, log, readyW},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	specR.Close()
	readyW.Close()
	if err != nil {
		return nil, fmt.Errorf("start: supervisor: %w", err)
	}
	defer p.Release()
	_, werr := specW.Write(raw)
	specW.Close()
	line, err := bufio.NewReader(readyR).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("start: %w, see %s: %w", runner.ErrSilent, log.Name(), errors.Join(werr, err))
	}
	return line, startedError(line)
}

// startedError returns the error of a refused start, for the exit code.
func startedError(line []byte) error {
	_, err := runner.DecodeStarted(line)
	return err
}

func openLog(control string) (*os.File, error) {
	if err := os.MkdirAll(control, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(control, "runner.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// supervise is the daemon: its spec on stdin, its one line to descriptor 3,
// its log on stderr.
func supervise(read func() (runner.StartSpec, *supervisor.Watched, error)) int {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := serve(read, log); err != nil {
		log.Error("supervisor ended", "error", err)
		return 1
	}
	return 0
}

// watchdog is the daemon above a supervisor whose agent has no namespace.
func watchdog() int {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := supervisor.Watchdog(os.Stdin, os.NewFile(3, "ready"), log); err != nil {
		log.Error("watchdog ended", "error", err)
		return 1
	}
	return 0
}

// unwatched reads the spec as a starter writes it.
func unwatched() (runner.StartSpec, *supervisor.Watched, error) {
	spec, _, err := readSpec(os.Stdin)
	return spec, nil, err
}

// watched reads the spec as a watchdog passes it on.
func watched() (runner.StartSpec, *supervisor.Watched, error) {
	g, err := supervisor.ReadWatched(os.Stdin)
	return g.Spec, &g, err
}

func serve(read func() (runner.StartSpec, *supervisor.Watched, error), log *slog.Logger) error {
	ready := os.NewFile(3, "ready")
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	// Caught and dropped, not ignored: the agent would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	s, err := open(read, ready, log)
	var status runner.Status
	if err == nil {
		status = s.Status()
	}
	line, encErr := runner.EncodeStarted(status, err)
	if encErr == nil {
		// A starter that died in the meantime can attach.
		_, _ = ready.Write(line)
	}
	ready.Close()
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// open starts the agent. If that needs a watchdog this process becomes it, and
// another one continues as the supervisor.
func open(read func() (runner.StartSpec, *supervisor.Watched, error), ready *os.File, log *slog.Logger) (*supervisor.Supervisor, error) {
	if err := jail.CloseOnExec(); err != nil {
		return nil, err
	}
	spec, g, err := read()
	if err != nil {
		return nil, err
	}
	s, err := supervisor.Open(spec, g, log)
	if without, ok := errors.AsType[*supervisor.NoWatchdogError](err); ok {
		return nil, supervisor.BecomeWatchdog(supervisor.Watched{Spec: spec, Reason: without.Reason, Env: os.Environ()}, ready)
	}
	if err != nil {
		return nil, err
	}
	// The token is in this process's memory: no process of the same user may read it.
	// Not earlier, as the user namespace's maps are written through /proc.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		log.Warn("memory is readable by the same user", "error", err)
	}
	return s, nil
}
