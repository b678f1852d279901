package supervisor

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/jail"
	"github.com/sojourn-run/sojourn/sandbox"
)

// Probe finds out how agents can be isolated on this machine, by doing it once.
func Probe(ctx context.Context) (runner.Isolation, error) {
	dir, err := os.MkdirTemp("", "sojourn-probe-")
	if err != nil {
		return runner.Isolation{}, err
	}
	defer os.RemoveAll(dir)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return runner.Isolation{}, err
	}
	defer null.Close()
	self, err := os.Executable()
	if err != nil {
		return runner.Isolation{}, err
	}
	s := start{
		config:  jail.Config{Path: self, Argv: []string{"sojourn-runner", "help"}, Dir: "/", View: jail.View{Hide: []string{dir}}},
		network: sandbox.Network{Mode: sandbox.NetworkGuarded},
		stdio:   [3]*os.File{null, null, null}, log: slog.New(slog.DiscardHandler),
	}
	found, err := s.try(ctx)
	if err == nil || ctx.Err() != nil {
		return found, ctx.Err()
	}
	s.network = sandbox.Network{}
	found, again := s.try(ctx)
	if again != nil {
		return runner.Isolation{Reason: reason(again)}, ctx.Err()
	}
	found.NetworkReason = reason(err)
	return found, nil
}

func reason(err error) string { return strings.TrimPrefix(err.Error(), errSetup.Error()+": ") }

// try starts a program that ends at once.
func (s start) try(ctx context.Context) (runner.Isolation, error) {
	f, err := s.inside()
	if err != nil {
		return runner.Isolation{}, err
	}
	if !f.wait(ctx) {
		return runner.Isolation{}, ctx.Err()
	}
	return f.isolation, nil
}
