package starter

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

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

	// wholeStdin returns a message on standard input; an error if it is too long, which is
	// not read to its end. It is read once: see takesBeginnings.
	wholeStdin func() ([]byte, error)

	signals *signals

	json    bool
	envFile string
	// maxEntries is ClientOptions.MaxTimelineEntries.
	maxEntries int

	// given reports whether a flag of the running command is on the command line;
	// nil before one runs.
	given func(flag string) bool

	env   settings.Settings
	conns connections
}

// Run runs the program with a command line, without the program's name, and
// returns the exit code: 0 done, 1 failed, 2 wrong usage, 3 refused by the session,
// 4 interrupted, 5 timed out. getenv returns a variable of the environment, "" for none. SIGINT and SIGTERM end it, as does
// ctx; a second signal ends the process.
func Run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := newSignals()
	defer s.notify()()
	ctx, end := s.context(ctx)
	defer end()
	c := &cli{getenv: getenv, stdin: stdin, stdout: stdout, stderr: stderr, agents: builtin.Registry(), signals: s}
	c.wholeStdin = sync.OnceValues(func() ([]byte, error) {
		data, err := readAll(ctx, io.LimitReader(stdin, session.MaxMessageBytes+1))
		if len(data) > session.MaxMessageBytes {
			// It is refused here: what was read of it may end within a character.
			return nil, session.Invalid("message", fmt.Sprintf("is more than %d bytes", session.MaxMessageBytes), fmt.Sprintf("at most %d bytes", session.MaxMessageBytes))
		}
		return data, err
	})
	defer c.conns.close()
	root := c.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return c.report(err, ctx.Err() != nil)
}

// readAll reads to the end of r, or until ctx ends.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(readUntil(ctx, r))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return data, err
}

// readUntil returns a reader of r that fails when ctx ends.
func readUntil(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	// A read of standard input can't be canceled: this goroutine ends with the input
	// or the program.
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	return out
}

// printJSON writes one value on one line.
func (c *cli) printJSON(v any) error { return c.encoder().Encode(v) }

// encoder writes each value on one line, without escaping < and >.
func (c *cli) encoder() *json.Encoder {
	enc := json.NewEncoder(c.stdout)
	enc.SetEscapeHTML(false)
	return enc
}
