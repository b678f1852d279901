package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/jail"
	"github.com/sojourn-run/sojourn/runner/internal/supervisor"
)

// runShutIn runs one command and exits with its exit code. The command gets this
// process's stdin, after the line of the spec, stdout and stderr.
func runShutIn(ctx context.Context, args []string, std io3) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: run takes no arguments", errUsage)
	}
	var spec runner.RunSpec
	if err := json.Unmarshal(firstLine(std.in), &spec); err != nil {
		return fmt.Errorf("run: spec on stdin: %w", err)
	}
	if err := jail.CloseOnExec(); err != nil {
		return err
	}
	code, err := supervisor.Run(ctx, spec, [3]*os.File{os.Stdin, os.Stdout, os.Stderr})
	if err != nil {
		return err
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// firstLine reads the first line, and no further.
func firstLine(in io.Reader) []byte {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := in.Read(one)
		if n > 0 && one[0] != '\n' {
			line = append(line, one[0])
		}
		if err != nil || n > 0 && one[0] == '\n' {
			return line
		}
	}
}
