// Package worker is the program that serves sessions, as package
// cmd/sojourn-worker installs it: it reads the settings, connects to Temporal,
// NATS and the archive, and runs workflows and activities until it is asked to
// stop.
package worker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
)

const usage = `usage: sojourn-worker [flags]
       sojourn-worker supervise [flags]
       sojourn-worker health [flags]

It serves sessions of one Temporal namespace until it is told to stop; agents
go on without it, and the next worker on the same data folder takes over.
supervise runs it as a child and starts it again whenever it ends. health exits
with 0 if a worker on the same data folder is ready, else with 1.

Settings come from the environment: TEMPORAL_*, NATS_*, AWS_*,
AWS_ENDPOINT_URL_S3, SOJOURN_BUCKET, SOJOURN_ARCHIVE_DIR, SOJOURN_PREFIX, SOJOURN_DATA_DIR,
SOJOURN_PROFILES, SOJOURN_PASS_ENV, SOJOURN_UNSAFE_LOCAL, SOJOURN_IDLE_LEASE,
SOJOURN_HEALTH_INTERVAL, SOJOURN_SANDBOX_MAX_AGE, SOJOURN_SESSION_MEMORY, SOJOURN_PRICES,
SOJOURN_NETWORK, SOJOURN_NETWORK_ALLOW, SOJOURN_NETWORK_DENY, SOJOURN_VERSIONING.

`

// hinted is an error with a second line with what to do.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// wrongUsage is an error of the command line.
type wrongUsage struct{ error }

func (w wrongUsage) Unwrap() error { return w.error }

// Run runs the program with a command line, without the program's name, until ctx
// ends, and returns the exit code: 0 done, 1 failed, 2 wrong usage. getenv
// returns a variable of the environment, "" for none. It starts itself again for
// the command supervise, so the calling program must hand its arguments to Run.
func Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, getenv, stdout, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(stderr, "sojourn-worker: %v\n", err)
	if h, ok := errors.AsType[hinted](err); ok {
		fmt.Fprintf(stderr, "sojourn-worker: hint: %s\n", h.hint)
	}
	if _, ok := errors.AsType[wrongUsage](err); ok {
		return 2
	}
	return 1
}

// gcPercent is a worker's GOGC unless that is set: what a session may take beyond what is live in it
// is bounded, and on a machine whose processors are all busy the collector comes late.
const gcPercent = 50

func dispatch(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "supervise" {
		// The flags are the child's; they are checked here so that a wrong one is
		// reported once.
		if _, err := parseFlags(args[1:], getenv, stderr); err != nil {
			return err
		}
		return supervise(ctx, args[1:], stdout, stderr)
	}
	asked := len(args) > 0 && args[0] == "health"
	if asked {
		args = args[1:]
	}
	s, err := parseFlags(args, getenv, stderr)
	if err != nil {
		return err
	}
	if asked {
		return health(s.dataDir, stdout)
	}
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return serve(ctx, s, stdout, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: s.level})))
}
