// Command mutants runs the table of mutants: each must turn the test of its row red.
// Exit codes: 0 all are red, 1 one is not, 2 wrong usage.
package main

import (
	"context"
	"encoding/json"
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

	"github.com/sojourn-run/sojourn/test/mutants"
	"github.com/sojourn-run/sojourn/test/requirements"
)

type options struct {
	only                                     string
	ci, rows, check, json, markdown, trusted bool
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "the mutants of these rows only, such as R41,R42")
	flag.BoolVar(&o.ci, "ci", false, "the fast ones only")
	flag.BoolVar(&o.rows, "rows", false, "list the rows that are done with their mutants, and run none")
	flag.BoolVar(&o.check, "check", false, "see that every mutant applies and has a test of its row, and run none")
	flag.BoolVar(&o.json, "json", false, "print a line of JSON for each mutant")
	flag.BoolVar(&o.markdown, "markdown", false, "print the table of docs/mutants.md")
	flag.BoolVar(&o.trusted, "trusted", false, "don't see first that the tests pass without mutants")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return fmt.Errorf("run it at the repository's root: %w", err)
	}
	table, err := mutants.Table()
	if err != nil {
		return err
	}
	switch {
	case o.check:
		return check(table, root)
	case o.rows:
		return list(os.Stdout, table)
	}
	if table, err = chosen(table, o); err != nil {
		return err
	}
	show := text
	switch {
	case o.json:
		show = line
	case o.markdown:
		fmt.Println(mutants.MarkdownHead)
		show = markdown
	}
	return runAll(ctx, os.Stdout, mutants.Runner{Root: root, Trust: o.trusted}, table, show)
}

func check(table []mutants.Mutant, root string) error {
	tree := os.DirFS(root)
	tests, err := requirements.Tests(tree)
	if err != nil {
		return err
	}
	var faults []error
	for _, fault := range mutants.Check(table, tests, tree) {
		faults = append(faults, errors.New(fault))
	}
	return errors.Join(faults...)
}

// list prints the number of mutants of each row, and the rows with the status done that
// have none.
func list(w io.Writer, table []mutants.Mutant) error {
	rows, err := requirements.Rows()
	if err != nil {
		return err
	}
	with := 0
	for _, r := range rows {
		n := 0
		for _, m := range table {
			if m.Row == r.Number {
				n++
			}
		}
		if n > 0 {
			with++
		}
		if n > 0 || r.Status == requirements.Done {
			fmt.Fprintf(w, "R%-4d %-8s %d  %s\n", r.Number, r.Status, n, r.Name)
		}
	}
	_, err = fmt.Fprintf(w, "%d mutants of %d rows\n", len(table), with)
	return err
}

func chosen(table []mutants.Mutant, o options) ([]mutants.Mutant, error) {
	if o.ci {
		table = slices.DeleteFunc(table, func(m mutants.Mutant) bool { return !m.CI })
	}
	if o.only == "" {
		return table, nil
	}
	var all []mutants.Mutant
	for _, name := range strings.Split(o.only, ",") {
		row, err := strconv.Atoi(strings.TrimPrefix(name, "R"))
		if err != nil {
			return nil, fmt.Errorf("--only: %q is no row such as R41", name)
		}
		of := slices.DeleteFunc(slices.Clone(table), func(m mutants.Mutant) bool { return m.Row != row })
		if len(of) == 0 {
			return nil, fmt.Errorf("--only: row %d has no mutant; --rows lists them", row)
		}
		all = append(all, of...)
	}
	return all, nil
}

func runAll(ctx context.Context, w io.Writer, r mutants.Runner, table []mutants.Mutant, show func(io.Writer, mutants.Outcome) error) error {
	counts := map[mutants.Verdict]int{}
	var total float64
	var failed error
	err := r.Run(ctx, table, func(out mutants.Outcome) {
		counts[out.Verdict]++
		total += out.Seconds
		failed = errors.Join(failed, show(w, out))
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	sum := fmt.Sprintf("%d mutants, %d red, %d green, %d broken in %.0f s", len(table), counts[mutants.Red], counts[mutants.Green], counts[mutants.Broken], total)
	if counts[mutants.Red] != len(table) {
		return errors.New(sum)
	}
	_, err = fmt.Fprintln(os.Stderr, "mutants:", sum)
	return err
}

func text(w io.Writer, out mutants.Outcome) error {
	_, err := fmt.Fprintf(w, "R%-4d %-6s %6.1f s  %s %s  ·  %s\n", out.Row, out.Verdict, out.Seconds, out.Package, out.Test, out.Mutant)
	for _, l := range tail(out.Why) {
		fmt.Fprintln(w, "    "+l)
	}
	return err
}

// tail returns the last lines of a test's output.
func tail(said string) []string {
	lines := strings.Split(strings.TrimRight(said, "\n"), "\n")
	if said == "" {
		return nil
	}
	return lines[max(0, len(lines)-25):]
}

func line(w io.Writer, out mutants.Outcome) error { return json.NewEncoder(w).Encode(out) }

func markdown(w io.Writer, out mutants.Outcome) error {
	_, err := fmt.Fprintln(w, out.Markdown())
	return err
}
