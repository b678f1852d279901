package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/jail"
	"github.com/sojourn-run/sojourn/runner/internal/supervisor"
)

// runShutIn runs one command and ends with its exit code. The command writes to
// this process's own stdout and stderr.
func runShutIn(ctx context.Context, args []string, std io3) error {
	if len(args) > 0 {
		return fmt.Errorf("%w: run takes no arguments", errUsage)
	}
	var spec runner.RunSpec
	if err := json.NewDecoder(std.in).Decode(&spec); err != nil {
		return fmt.Errorf("run: spec on stdin: %w", err)
	}
	if err := jail.CloseOnExec(); err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	code, err := supervisor.Run(ctx, spec, [3]*os.File{null, os.Stdout, os.Stderr})
	if err = errors.Join(err, null.Close()); err != nil {
		return err
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}
