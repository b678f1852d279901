// Command sojourn-chaos kills parts of a running system and verifies what became of the
// sessions. Exit codes: 0 no findings, 1 findings, 2 wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/sojourn-run/sojourn/test/chaos"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := chaos.Options{Progress: stderr}
	fs := flag.NewFlagSet("sojourn-chaos", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.Root, "root", ".", "the repository, with bin/ and .agents/")
	fs.Uint64Var(&o.Seed, "seed", 1, "what the plan of kills and the messages come from")
	fs.IntVar(&o.Kills, "kills", 25, "how many kills")
	fs.IntVar(&o.Sessions, "sessions", 40, "how many sessions")
	fs.IntVar(&o.AtOnce, "at-once", 8, "how many sessions at the same time")
	fs.IntVar(&o.Hosts, "hosts", 2, "how many hosts")
	fs.DurationVar(&o.For, "for", 0, "end the killing after this time")
	fs.BoolVar(&o.Verbose, "verbose", false, "tell every kill")
	fs.BoolVar(&o.Keep, "keep", false, "leave the temporary folder")
	fs.StringVar(&o.Evidence, "evidence", "", "`folder` that gets what is known of sessions with findings")
	agents := fs.String("agents", strings.Join(chaos.Agents, ","), "the sessions' agents")
	fs.StringVar(&o.Before, "before", "", "the worker's `program` of the build before; none: no such kills")
	fs.BoolVar(&o.Full, "full", false, "sessions with permission requests, parking, steering and limits, and short histories")
	only := fs.String("only", "", "these kinds of kills only, such as worker-kill,host-kill")
	asJSON := fs.Bool("json", false, "print one JSON value in place of the table")
	sweep := fs.Bool("sweep", false, "in place of random kills: one turn per agent, killed at every event")
	part := fs.String("part", "worker,agent,host", "what a sweep kills")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	o.Agents = words(*agents)
	for _, k := range words(*only) {
		o.Only = append(o.Only, chaos.Kind(k))
	}
	r, err := play(ctx, o, *sweep, words(*part))
	if err != nil {
		fmt.Fprintf(stderr, "sojourn-chaos: %v\n", err)
		return 1
	}
	write := r.Write
	if *asJSON {
		write = r.WriteJSON
	}
	if err := write(stdout); err != nil {
		fmt.Fprintf(stderr, "sojourn-chaos: %v\n", err)
		return 1
	}
	if !r.Good() {
		return 1
	}
	return 0
}

func play(ctx context.Context, o chaos.Options, sweep bool, parts []string) (chaos.Report, error) {
	if !sweep {
		return chaos.Run(ctx, o)
	}
	so := chaos.SweepOptions{Options: o}
	for _, p := range parts {
		so.Parts = append(so.Parts, chaos.Kind(p+"-kill"))
	}
	return chaos.Sweep(ctx, so)
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
