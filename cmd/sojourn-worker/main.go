// Command sojourn-worker serves sessions: it runs their workflows, and holds
// the sandboxes of the host that it runs on.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sojourn-run/sojourn/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(worker.Run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
