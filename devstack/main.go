package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sojourn-run/sojourn/devstack/internal/launch"
)

func main() {
	stdout := os.Stdout
	// The embedded servers print to os.Stdout; this program's is for the report only.
	os.Stdout = os.Stderr
	os.Exit(run(os.Args[1:], stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	opts, err := launch.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		launch.PrintUsage(stdout)
		return launch.ExitOK
	}
	if err == nil {
		err = serve(opts, stdout, stderr)
	}
	if err != nil {
		return launch.PrintError(stderr, err)
	}
	return launch.ExitOK
}

// serve runs the stack until a signal or the failure of a server ends it. A
// second signal kills the process, which loses nothing: every store recovers from
// that.
func serve(opts launch.Options, stdout, stderr io.Writer) (err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(ctx, cancel)

	dir, err := launch.OpenDataDir(opts.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := launch.PrepareEnvFile(opts.EnvFile); err != nil {
		return err
	}
	s, err := newStack(opts, dir, stderr)
	if err != nil {
		return err
	}
	s.noticePorts(stderr)
	defer s.stop()
	if err := s.start(ctx, stderr); err != nil {
		if ctx.Err() != nil {
			return nil // The user changed their mind during the start.
		}
		return err
	}
	defer func() { err = errors.Join(err, launch.RemoveEnvFile(opts.EnvFile)) }()
	if err := announce(opts, s, stdout); err != nil {
		return err
	}
	return s.wait(ctx)
}

func announce(opts launch.Options, s *stack, stdout io.Writer) error {
	if err := launch.WriteEnvFile(opts.EnvFile, s.report.Env(s.keys)); err != nil {
		return err
	}
	if opts.JSON {
		return s.report.WriteJSON(stdout)
	}
	return s.report.WriteTable(stdout)
}
