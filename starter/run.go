package starter

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/internal/settings"
	"github.com/sojourn-run/sojourn/session"
)

// cli is one run of the program: its environment, the flags that every command
// has, and the connections made so far.
type cli struct {
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
	agents         adapters.Registry

	// wholeStdin returns a message on standard input, truncated if it is too long. It
	// is read once: see takesBeginnings.
	wholeStdin func() ([]byte, error)

	json    bool
	envFile string

	// given reports whether a flag of the running command is on the command line;
	// nil before one runs.
	given func(flag string) bool

	env   settings.Settings
	conns connections
}

// Run runs the program with a command line, without the program's name, and
// returns the exit code: 0 done, 1 failed, 2 wrong usage, 3 refused by the session,
// 4 interrupted, 5 timed out. getenv returns a variable of the environment, "" for none. SIGINT and SIGTERM end it, as does
// ctx.
func Run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &cli{getenv: getenv, stdin: stdin, stdout: stdout, stderr: stderr, agents: builtin.Registry()}
	c.wholeStdin = sync.OnceValues(func() ([]byte, error) {
		return io.ReadAll(io.LimitReader(stdin, session.MaxMessageBytes+1))
	})
	defer c.conns.close()
	root := c.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return c.report(err, ctx.Err() != nil)
}

// printJSON writes one value on one line, without escaping < and >.
func (c *cli) printJSON(v any) error {
	enc := json.NewEncoder(c.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
