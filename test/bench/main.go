package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sojourn-run/sojourn/test/harness"
)

func main() {
	if filepath.Base(os.Args[0]) == pacedProgram {
		os.Exit(pacedMain(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0 measured, whatever the figures; 1 something did not
// work; 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("sojourn-bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	asJSON := fs.Bool("json", false, "print one JSON value in place of the table")
	only := fs.String("only", "", "measure these parts only: "+strings.Join(names(parts()), ","))
	late := fs.String("late", lateTurns, "the turns, in order, that the part turns compares with turn "+strconv.Itoa(earlyTurn))
	root := fs.String("root", ".", "the repository, with bin/ and .agents/")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	chosen, err := choose(*only)
	if err != nil {
		fmt.Fprintf(stderr, "sojourn-bench: %v\n", err)
		return 2
	}
	b := &bench{root: *root, progress: stderr, began: time.Now()}
	if b.late, err = parseLate(*late); err != nil {
		fmt.Fprintf(stderr, "sojourn-bench: %v\n", err)
		return 2
	}
	figures, err := b.measure(ctx, chosen)
	if err == nil {
		err = write(stdout, Report{Machine: thisMachine(), At: b.began, Seconds: time.Since(b.began).Seconds(), Figures: figures}, *asJSON)
	}
	if err != nil {
		fmt.Fprintf(stderr, "sojourn-bench: %v\n", err)
		return 1
	}
	return 0
}

// part is a group of figures that are measured together.
type part struct {
	name string
	does string
	// servers reports whether the part needs the stack.
	servers bool
	measure func(*bench, context.Context) ([]Figure, error)
}

// parts returns the parts in the order in which they are measured: those that a busy
// machine disturbs are before those that make it busy.
func parts() []part {
	return []part{
		{"reducer", "folding deltas", false, (*bench).reducer},
		{"parse", "reading transcripts of 1 to 256 MB, and translating lines", false, (*bench).parse},
		{"line", "the agent's line to a subscriber", true, (*bench).line},
		{"send", "a message to the agent's stdin", true, (*bench).send},
		{"receipt", "a message to a busy session, with 50 of them", true, (*bench).receipt},
		{"history", "what turns add to workflow history", true, (*bench).turnEvents},
		{"spawn", "a child session's first prompt", true, (*bench).spawn},
		{"memory", "20 idle sessions on one worker", true, (*bench).memory},
		{"parallel", "16 sessions at once on two workers", true, (*bench).parallel},
		{"tree", "111 sessions in three levels, interrupted and closed", true, (*bench).tree},
		{"batch", "1 000 jobs through 32 places", true, (*bench).batch},
		{"queue", "10 000 items that wait, against 100", true, (*bench).queue},
		{"turns", "whole turns, late ones against turn 20", true, (*bench).turns},
	}
}

func names(all []part) []string {
	var out []string
	for _, p := range all {
		out = append(out, p.name)
	}
	return out
}

func choose(only string) ([]part, error) {
	if only == "" {
		return parts(), nil
	}
	wanted := strings.Split(only, ",")
	var chosen []part
	for _, p := range parts() {
		if slices.Contains(wanted, p.name) {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) != len(wanted) {
		return nil, fmt.Errorf("--only %s: the parts are %s", only, strings.Join(names(parts()), ","))
	}
	return chosen, nil
}

// parseLate reads the turns that are compared with turn earlyTurn. One session has them all,
// with what is measured of each before the next.
func parseLate(list string) (late []int, err error) {
	above := earlyTurn
	for one := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(one)
		if err != nil || n <= above {
			return nil, fmt.Errorf("--late %s: %q must be a number above %d", list, one, above)
		}
		late, above = append(late, n), n+turnRounds
	}
	return late, nil
}

// bench is one run.
type bench struct {
	root     string
	late     []int
	progress io.Writer
	began    time.Time
	stack    *harness.Stack
	// fresh is the servers' memory when they had become ready.
	fresh float64
	floor *noopWorkflow
}

func (b *bench) measure(ctx context.Context, chosen []part) (all []Figure, err error) {
	defer func() { err = errors.Join(err, b.stop()) }()
	for _, p := range chosen {
		if p.servers {
			if err := b.start(ctx); err != nil {
				return nil, err
			}
		}
		b.say("%s: %s", p.name, p.does)
		figures, err := p.measure(b, ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		all = append(all, figures...)
	}
	return all, nil
}

// start starts the servers, unless they are running.
func (b *bench) start(ctx context.Context) (err error) {
	if b.stack != nil {
		return nil
	}
	b.say("the stack: Temporal, NATS and S3")
	if b.stack, err = harness.Start(ctx, harness.Options{Root: b.root, Name: "sojourn-bench"}); err != nil {
		return err
	}
	if b.fresh, err = rss(b.stack.Servers.PID()); err != nil {
		return err
	}
	b.floor, err = startNoop(ctx, b.stack.Temporal)
	return err
}

// stop ends what was started.
func (b *bench) stop() error {
	if b.floor != nil {
		b.floor.stop()
	}
	if b.stack != nil {
		return b.stack.Close()
	}
	return nil
}

// say prints a line of progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "bench %4.0fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}
