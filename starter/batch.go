package starter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/batch"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

func (c *cli) batchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "batch COMMAND",
		Short: "Run many jobs: a window of them at a time, with retries, a budget, results and a report",
		Long: `Run many jobs. Each line of the input is an item, a JSON object: {"id": "a1", "prompt": "…"}, or any other field that a job takes
(docs/contract.md), or {"vars": {"file": "a.go"}} for {{file}} in --prompt. A batch goes on without this command.`,
		Example: "  sojourn batch run items.jsonl --agent claude --prompt \"Summarize {{file}}\" --window 20 --budget 50\n" +
			"  sojourn batch wait $BATCH\n  sojourn batch results $BATCH > results.jsonl",
		Args: unknownCommand,
		RunE: noCommand,
	}
	cmd.AddCommand(c.batchRunCommand(), c.batchWaitCommand(), c.batchShowCommand(), c.batchResultsCommand(), c.batchConfigureCommand())
	for _, one := range []struct {
		use, short, done string
		do               func(*batch.Batch, context.Context) error
	}{
		{"pause BATCH", "Start no more items; those at work go on", "is paused", (*batch.Batch).Pause},
		{"resume BATCH", "Start items again", "goes on", (*batch.Batch).Resume},
		{"cancel BATCH", "End the batch, and the items at work", "is being cancelled", (*batch.Batch).Cancel},
	} {
		cmd.AddCommand(&cobra.Command{
			Use: one.use, Short: one.short, Args: wants,
			RunE: func(cmd *cobra.Command, args []string) error {
				return c.onBatch(cmd.Context(), args[0], func(ctx context.Context, b *batch.Batch) error {
					if err := one.do(b, ctx); err != nil {
						return err
					}
					if c.json {
						return c.printJSON(map[string]string{"batchId": b.ID()})
					}
					return writeLine(c.stdout, "batch "+b.ID()+" "+one.done)
				})
			},
		})
	}
	return cmd
}

// batchFlags are the flags of a batch beside those of its sessions.
type batchFlags struct {
	optionFlags
	jobFlags

	id, prompt         string
	variants, attempts []string
	window, priority   int
	budget             float64
	timeout            time.Duration
	noWait             bool
}

func (c *cli) batchRunCommand() *cobra.Command {
	var f batchFlags
	cmd := &cobra.Command{
		Use: "run FILE|-", Short: "Run a batch of the items in FILE, or in standard input", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return within(cmd.Context(), f.timeout, func(ctx context.Context) error { return c.runBatch(ctx, args[0], &f) })
		},
	}
	f.optionFlags.register(c, cmd)
	fl := cmd.Flags()
	f.jobFlags.register(cmd)
	fl.StringVar(&f.id, "id", "", "the batch's `ID`, the id of its workflow; the same one again, with the same items, waits for that batch (default: a new one)")
	fl.StringVar(&f.prompt, "prompt", "", "ask `TEXT` of items that have no prompt; {{NAME}} is the item's variable")
	fl.StringArrayVar(&f.variants, "variant", nil, "run each item with `AGENT[=MODEL]`, for a table of what each passed and cost (repeatable)")
	fl.IntVar(&f.window, "window", batch.DefaultWindow, "have at most `N` items at work at a time")
	fl.IntVar(&f.priority, "priority", batch.DefaultPriority, fmt.Sprintf("of what waits for the same workers, take batches with a lower `N` first, 1 to %d", batch.MaxPriority))
	fl.StringArrayVar(&f.attempts, "attempts", nil, fmt.Sprintf("try an item `[TYPE=]N` times in all, by the type of its failure (repeatable; default %d)", batch.DefaultAttempts))
	fl.Float64Var(&f.budget, "budget", 0, "start no more items when the batch has cost `USD` (default: no limit)")
	fl.BoolVar(&f.noWait, "no-wait", false, "print the batch's id and don't wait")
	timeoutFlag(cmd, &f.timeout)
	return cmd
}

func (c *cli) runBatch(ctx context.Context, file string, f *batchFlags) error {
	variants, err := c.variants(f.variants)
	if err != nil {
		return err
	}
	if len(variants) > 0 && f.agent == "" {
		f.agent = variants[0].Agent // each variant has its own
	}
	job, err := c.jobInput(ctx, f.prompt, f.id, &f.optionFlags, &f.jobFlags)
	if err != nil {
		return err
	}
	in := batch.Input{Job: job, Variants: variants, Window: f.window, MaxCostUSD: f.budget, Priority: f.priority}
	if in.Attempts, err = attempts(f.attempts); err != nil {
		return err
	}
	items, err := c.items(ctx, file)
	if err != nil {
		return err
	}
	defer items.Close()
	store, err := c.archiveAnswers(ctx)
	if err != nil {
		return err
	}
	t, err := c.temporal(ctx)
	if err != nil {
		return err
	}
	stop := c.patience("writing the items into the archive")
	b, err := batch.Start(ctx, t, store, f.id, in, items)
	stop()
	switch {
	case errors.Is(err, session.ErrConflict):
		return &failure{line: fmt.Sprintf("batch %s exists, with other items or another input", f.id), hint: "give another --id, or the items and flags that it was started with", code: exitRefused}
	case err != nil:
		return err
	case f.noWait && c.json:
		return c.printJSON(map[string]string{"batchId": b.ID()})
	case f.noWait:
		return writeLine(c.stdout, b.ID())
	}
	return c.awaitBatch(ctx, b)
}

// items opens the items of a batch. Those of standard input end with ctx.
func (c *cli) items(ctx context.Context, file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(readUntil(ctx, c.stdin)), nil
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, usage("FILE wants a file with a JSON object on each line, or - for standard input", "%s", plainPathError(err))
	}
	return opened, nil
}

// variants reads AGENT[=MODEL].
func (c *cli) variants(given []string) ([]batch.Variant, error) {
	all := make([]batch.Variant, len(given))
	for i, g := range given {
		agent, model, _ := strings.Cut(g, "=")
		if _, err := c.agent(agent); err != nil {
			return nil, usage("--variant wants AGENT or AGENT=MODEL, such as claude=opus, with one of "+c.agentNames(), "--variant: %q names no agent", g)
		}
		all[i] = batch.Variant{Name: g, Agent: agent, Model: model}
	}
	return all, nil
}

// attempts reads [TYPE=]N.
func attempts(given []string) (map[string]int, error) {
	all := map[string]int{}
	for _, g := range given {
		typ, n, typed := strings.Cut(g, "=")
		if !typed {
			typ, n = batch.Any, g
		}
		count, err := strconv.Atoi(n)
		if err != nil || typ == "" {
			return nil, usage("--attempts wants N or TYPE=N, such as 3 or AgentFailed=3", "--attempts: %q is none", g)
		}
		all[typ] = count
	}
	return all, nil
}

// onBatch does something with a batch.
func (c *cli) onBatch(ctx context.Context, id string, do func(context.Context, *batch.Batch) error) error {
	if err := session.ValidateID("BATCH", id); err != nil {
		return err
	}
	t, err := c.temporal(ctx)
	if err != nil {
		return err
	}
	store, err := c.archive(ctx)
	if err != nil {
		return err
	}
	return inWordsOf("batch", id, "give the id that sojourn batch run had or printed", do(ctx, batch.Find(t, store, id)))
}

func (c *cli) batchWaitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "wait BATCH", Short: "Show a batch's progress until it ends, then its report", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return within(cmd.Context(), timeout, func(ctx context.Context) error {
				return c.onBatch(ctx, args[0], c.awaitBatch)
			})
		},
	}
	timeoutFlag(cmd, &timeout)
	return cmd
}

func (c *cli) batchShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show BATCH", Short: "Print how far a batch is", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onBatch(cmd.Context(), args[0], func(ctx context.Context, b *batch.Batch) error {
				stop := c.patience("waiting for a worker to answer for batch %s", b.ID())
				p, err := b.Progress(ctx)
				stop()
				if err != nil {
					return err
				}
				return c.printProgress(p)
			})
		},
	}
}

func (c *cli) printProgress(p batch.Progress) error {
	if c.json {
		return c.printJSON(p)
	}
	return writeLine(c.stdout, progressLine(p, 0, 0))
}

func (c *cli) batchConfigureCommand() *cobra.Command {
	var change batch.Change
	cmd := &cobra.Command{
		Use: "configure BATCH", Short: "Change a batch's window or budget; one that its budget holds up goes on when that is raised", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if change == (batch.Change{}) {
				return usage("give --window or --budget", "nothing to change")
			}
			return c.onBatch(cmd.Context(), args[0], func(ctx context.Context, b *batch.Batch) error {
				p, err := b.Configure(ctx, change)
				if err != nil {
					return err
				}
				return c.printProgress(p)
			})
		},
	}
	cmd.Flags().IntVar(&change.Window, "window", 0, "have at most `N` items at work at a time")
	cmd.Flags().Float64Var(&change.MaxCostUSD, "budget", 0, "start no more items when the batch has cost `USD`")
	return cmd
}

func (c *cli) batchResultsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "results BATCH", Short: "Print a line of JSON for each item that has ended", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onBatch(cmd.Context(), args[0], c.printResults)
		},
	}
}

func (c *cli) printResults(ctx context.Context, b *batch.Batch) error {
	w := bufio.NewWriter(c.stdout)
	for line, err := range b.Results(ctx) {
		if err != nil {
			return errors.Join(err, w.Flush())
		}
		text, err := json.Marshal(line)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return w.Flush()
}

// awaitBatch shows the progress of a batch until it has ended, and prints its report.
func (c *cli) awaitBatch(ctx context.Context, b *batch.Batch) error {
	stop := c.showBatch(ctx, b)
	out, err := b.Wait(ctx)
	stop()
	switch {
	case err != nil && ctx.Err() != nil:
		return leftAt(ctx, "sojourn batch wait "+b.ID()+" waits again", "; batch %s goes on", b.ID())
	case err != nil && !errors.Is(err, batch.ErrCancelled):
		return err
	}
	print := c.printReport
	if c.json {
		print = func(r batch.Report) error { return c.printJSON(r) }
	}
	if err := print(out); err != nil {
		return err
	}
	each := "sojourn batch results " + b.ID() + " has each item, and why it failed"
	switch {
	case err != nil:
		return &failure{line: "batch " + b.ID() + " was cancelled", hint: each, code: exitInterrupted}
	case out.Failed > 0:
		return &failure{line: fmt.Sprintf("%d of %d items failed", out.Failed, out.Items), hint: each, code: exitFailed}
	}
	return nil
}

func (c *cli) printReport(r batch.Report) error {
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintf(w, "batch\t%s\nitems\t%d: %d completed, %d failed\ntook\t%s\nan item\t%s in the median, 90 %% within %s, 99 %% within %s, %s at most\ncost\t%s\n",
		r.BatchID, r.Items, r.Completed, r.Failed, ms(r.MS), ms(r.P50), ms(r.P90), ms(r.P99), ms(r.Max), batchCost(r.Totals))
	for _, typ := range slices.Sorted(maps.Keys(r.ByType)) {
		_, bad := fmt.Fprintf(w, "%s\t%d\n", typ, r.ByType[typ])
		err = errors.Join(err, bad)
	}
	return errors.Join(err, w.Flush(), printVariants(c.stdout, r.Variants))
}

// printVariants prints the table of an evaluation.
func printVariants(to io.Writer, all []batch.VariantReport) error {
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(w, "\nvariant\tpassed\tcheck failed\tfailed otherwise\tmedian\tcost")
	for _, v := range all {
		n := v.Passed + v.CheckFailed + v.Failed
		_, bad := fmt.Fprintf(w, "%s\t%d of %d, %.0f %%\t%d\t%d\t%s\t%s\n",
			v.Name, v.Passed, n, 100*v.PassRate, v.CheckFailed, v.Failed, ms(v.P50), batchCost(batch.Totals{CostUSD: v.CostUSD, Unpriced: v.Unpriced}))
		err = errors.Join(err, bad)
	}
	return errors.Join(err, w.Flush())
}

func ms(n int64) time.Duration {
	return (time.Duration(n) * time.Millisecond).Round(100 * time.Millisecond)
}

func batchCost(t batch.Totals) string {
	switch {
	case t.Unpriced == 0:
		return render.Cost(&t.CostUSD)
	case t.CostUSD == 0:
		return "unknown"
	}
	return fmt.Sprintf("%s, and %d attempts of unknown cost", render.Cost(&t.CostUSD), t.Unpriced)
}

// showEvery is how often the progress is shown on a terminal, and sayEvery elsewhere.
const (
	showEvery = time.Second
	sayEvery  = 30 * time.Second
)

// showBatch shows a batch's progress on standard error until stop is called.
func (c *cli) showBatch(ctx context.Context, b *batch.Batch) (stop func()) {
	o, every := c.renderOptions(c.stderr), sayEvery
	if o.Rewrite {
		every = showEvery
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		at, before := time.Now(), -1
		for {
			if p, err := b.Progress(ctx); err == nil {
				if before < 0 {
					before = p.Ended()
				}
				line := progressLine(p, p.Ended()-before, time.Since(at))
				if o.Rewrite {
					fmt.Fprintf(c.stderr, "\r\x1b[K%s", render.Short(line, o.Width-1))
				} else {
					fmt.Fprintf(c.stderr, "sojourn: %s\n", line)
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				if o.Rewrite {
					fmt.Fprint(c.stderr, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// progressLine returns a batch's progress in one line; ended items in a time give its rate.
func progressLine(p batch.Progress, ended int, in time.Duration) string {
	const width = 20
	full := width * p.Ended() / max(p.Items, 1)
	parts := []string{
		fmt.Sprintf("%s%s %d of %d", strings.Repeat("█", full), strings.Repeat("░", width-full), p.Ended(), p.Items),
		fmt.Sprintf("%d failed", p.Failed), fmt.Sprintf("%d at work", p.Running),
	}
	if ended > 0 && in > 0 {
		each := in / time.Duration(ended)
		parts = append(parts, fmt.Sprintf("%.1f/min", float64(time.Minute)/float64(each)), (each*time.Duration(p.Items-p.Ended())).Round(time.Second).String()+" left")
	}
	if p.PausedBy != "" {
		parts = append(parts, p.PausedBy)
	}
	// The longest part is the last, since a terminal may be too narrow.
	return strings.Join(append(parts, "cost "+batchCost(p.Totals)), " · ")
}
