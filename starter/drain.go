package starter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/session"
)

func (c *cli) drainCommand() *cobra.Command {
	var timeout time.Duration
	var undo, noWait bool
	cmd := &cobra.Command{
		Use:   "drain HOST",
		Short: "Empty a host: its sessions give up their sandboxes there and continue elsewhere",
		Long: `Empty a host, to take it out of service: it makes no new sandboxes, an idle session gives its sandbox up at once, and one at
work before its next turn. They are archived first and continue on another host; with none they wait for one. Commands in the
background keep their sandbox until they end; sojourn evict ID ends them.
The host stays so, also when its worker is restarted, until --undo. HOST is a name as in sojourn ls --json and sojourn doctor.`,
		Example: "  sojourn drain $HOST --timeout 1h\n  sojourn drain $HOST --undo",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return within(cmd.Context(), timeout, func(ctx context.Context) error {
				return c.drain(ctx, args[0], !undo, noWait)
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "let the host make sandboxes again; sessions that were asked leave all the same")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "don't wait until the host has no sandbox")
	timeoutFlag(cmd, &timeout)
	return cmd
}

// drainAsks is how often a host that is drained is asked what it still holds, at first
// and at most.
const (
	drainAsks     = 2 * time.Second
	drainAsksMost = 15 * time.Second
)

func (c *cli) drain(ctx context.Context, host string, on, noWait bool) error {
	sc, err := c.client(ctx, needTemporal)
	if err != nil {
		return err
	}
	t, err := c.temporal(ctx)
	if err != nil {
		return err
	}
	told := ""
	for pause := drainAsks; ; pause = min(2*pause, drainAsksMost) {
		report, err := c.askToDrain(ctx, t, host, on)
		if err != nil {
			return leftDraining(ctx, host, err)
		}
		if !on || noWait || report.Sandboxes == 0 {
			return c.drained(report)
		}
		if holds := c.holds(ctx, sc, report); holds != told {
			fmt.Fprintf(c.stderr, "sojourn: %s\n", holds)
			told = holds
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return leftDraining(ctx, host, ctx.Err())
		}
	}
}

// askToDrain begins to drain a host, or ends that; the first request decides, later ones
// return what the host holds.
func (c *cli) askToDrain(ctx context.Context, t client.Client, host string, on bool) (session.HostReport, error) {
	ctx, cancel := context.WithTimeout(ctx, hostsTimeout)
	defer cancel()
	slow := c.patience("waiting for host %s", host)
	defer slow()
	report, err := session.Drain(ctx, t, host, on)
	if report.Error != "" {
		err = failed("sojourn doctor lists the hosts; sessions of one whose worker is gone continue elsewhere by themselves", "host %s: %s", host, report.Error)
	}
	return report, err
}

// leftDraining returns the error of an ended wait for a host.
func leftDraining(ctx context.Context, host string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return leftAt(ctx, "sojourn drain "+host+" waits again, --undo ends it", "; host %s is still being drained", host)
}

// holds describes what is left on a host. The sessions are for people and may be a moment
// old.
func (c *cli) holds(ctx context.Context, sc *session.Client, r session.HostReport) string {
	line := fmt.Sprintf("host %s holds %d sandboxes", r.Host, r.Sandboxes)
	query := fmt.Sprintf("%s = '%s'", session.AttrHost.GetName(), strings.ReplaceAll(r.Host, "'", "''"))
	page, err := listPage(ctx, sc, session.ListOptions{Query: query, Children: true, PageSize: maxHeld})
	if err != nil {
		return line
	}
	var held []string
	for _, s := range page.Sessions {
		held = append(held, s.SessionID+" "+status(s))
	}
	if len(held) > 0 {
		line += ": " + strings.Join(held, ", ")
	}
	return line
}

// maxHeld is how many sessions of a host are named.
const maxHeld = 10

func (c *cli) drained(r session.HostReport) error {
	if c.json {
		return c.printJSON(r)
	}
	what := "makes sandboxes again"
	if r.Draining {
		what = "is drained and holds no sandbox"
		if r.Sandboxes > 0 {
			what = fmt.Sprintf("is being drained and holds %d sandboxes", r.Sandboxes)
		}
	}
	return writeLine(c.stdout, "host "+r.Host+" "+what)
}
