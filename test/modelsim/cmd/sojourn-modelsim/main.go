// Command sojourn-modelsim serves the scripted model of package modelsim to
// real agent command lines.
//
//	sojourn-modelsim [--addr HOST:PORT] [--env-file FILE] [--json]
//	                 [--pace DURATION] [--record DIR] [--keep N]
//
// When it listens it prints how agents find it as shell assignments, or with
// --json as one JSON object, and writes the assignments to --env-file:
// ANTHROPIC_BASE_URL, OPENAI_BASE_URL and GOOGLE_GEMINI_BASE_URL, which all
// name the one server, a key for each, and OPENCODE_CONFIG_CONTENT. It ends
// with exit status 0 on SIGTERM or SIGINT.
//
// GET /stats, GET /gates, POST /gates/NAME and GET /requests/last of the same
// address control it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch usage := (usageError{}); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "sojourn-modelsim: %v\nhint: sojourn-modelsim --help\n", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "sojourn-modelsim:", err)
		os.Exit(1)
	}
}
