package worker

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// A worker that ends within steady is restarted after a wait that doubles up to
// lastWait.
const (
	steady    = 30 * time.Second
	firstWait = 100 * time.Millisecond
	lastWait  = 10 * time.Second
)

// supervise runs the worker as a child and restarts it whenever it ends: in a
// container, where the end of the first process is the end of the host, a
// worker's restart is then not the loss of a host. It ends with ctx. The command line was
// checked before: a child that exits as for a wrong one has crashed.
func supervise(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("supervise: %w", err)
	}
	wait := firstWait
	for {
		began := time.Now()
		err := runChild(ctx, self, args, stdout, stderr)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > steady {
			wait = firstWait
		}
		fmt.Fprintf(stderr, "sojourn-worker: supervise: the worker ended (%v); again in %s\n", err, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		wait = min(2*wait, lastWait)
	}
}

func runChild(ctx context.Context, self string, args []string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endPatience + 10*time.Second // it may be ending its agents
	return cmd.Run()
}
