// Package cli is the command line of sojourn-runner.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/sojourn-run/sojourn/runner/internal/jail"
	"github.com/sojourn-run/sojourn/runner/internal/supervisor"
)

const usage = `usage: sojourn-runner COMMAND

  start                      start an agent from the JSON spec on stdin; prints its status
  attach  --socket S         bridge the control socket to stdio
          [--from N]         and ask for every record from offset N on
  input   --socket S --id I  hand the rest of stdin to the agent, once per id
  control --socket S OP      signal NAME | close-input | processes | sweep | lease TIME | trim N
  status  --socket S         print how runner and agent stand
  stop    --socket S         end the agent and all below it
  records --control D        print the spool from disk, without a supervisor [--from N]
  record  --file F -- PROGRAM ARGS…
                             run a program and keep each line of its stdin and
                             stdout in F before it is passed on
  run                        run the command of the JSON spec on the first line of
                             stdin to its end, shut in as an agent is; what
                             follows is its input
  query   --database F       answer the SQL queries on stdin, a line each, from one
                             consistent view of a SQLite database
  watch   --dir D            print what changes in a folder, until stdin ends
          [--ignore A,B] [--since NS]
                             not below these names; first what changed since
  mcp     --socket T         offer an agent Sojourn's tools by MCP, on stdin and stdout;
          [--no-agents]      T is the runner's socket for tools; without those to spawn,
          [--tools B]        with those of programs, JSON in base64
  probe                      print how agents can be shut in on this system

Commands with --socket take the token as the first line of stdin, and --epoch E.
`

// errUsage exits with code 2.
var errUsage = errors.New("wrong usage")

// io3 are a command's standard streams.
type io3 struct {
	in       io.Reader
	out, err io.Writer
}

type command func(ctx context.Context, args []string, std io3) error

var commands = map[string]command{
	"start":   start,
	"attach":  attach,
	"input":   input,
	"control": control,
	"status":  status,
	"stop":    stop,
	"records": records,
	"record":  record,
	"run":     runShutIn,
	"query":   queryDatabase,
	"watch":   watchFolder,
	"mcp":     offerTools,
	"probe":   probe,
}

// Run runs the program and returns its exit code.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 1 && args[0] == "init":
		return jail.Main()
	case len(args) == 1 && args[0] == "supervise":
		return supervise(unwatched)
	case len(args) == 2 && args[0] == "supervise" && args[1] == "watched":
		return supervise(watched)
	case len(args) == 1 && args[0] == "watchdog":
		return watchdog()
	case len(args) == 1 && slices.Contains([]string{"help", "-h", "--help"}, args[0]):
		fmt.Fprint(stdout, usage)
		return 0
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := dispatch(ctx, args, io3{stdin, stdout, stderr})
	code, ran := errors.AsType[exitCode](err)
	switch {
	case err == nil:
		return 0
	case ran:
		return int(code)
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "sojourn-runner: %v\nhint: sojourn-runner help\n", err)
		return 2
	}
	fmt.Fprintf(stderr, "sojourn-runner: %s\n", strings.TrimPrefix(err.Error(), "runner: "))
	return 1
}

func dispatch(ctx context.Context, args []string, std io3) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: no command", errUsage)
	}
	run, known := commands[args[0]]
	if !known {
		return fmt.Errorf("%w: unknown command %q", errUsage, args[0])
	}
	return run(ctx, args[1:], std)
}

// parse reads flags; required ones by name.
func parse(fs *flag.FlagSet, args []string, required ...string) error {
	fs.SetOutput(io.Discard)
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("%w: %s: %v", errUsage, fs.Name(), err)
	}
	for _, name := range required {
		if fs.Lookup(name).Value.String() == "" {
			return fmt.Errorf("%w: %s: --%s is missing", errUsage, fs.Name(), name)
		}
	}
	return nil
}

func printJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

func probe(ctx context.Context, args []string, std io3) error {
	if err := parse(flag.NewFlagSet("probe", flag.ContinueOnError), args); err != nil {
		return err
	}
	isolation, err := supervisor.Probe(ctx)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return printJSON(std.out, isolation)
}
