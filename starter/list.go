package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

type listFlags struct {
	query string
	all   bool
	limit int
}

func (c *cli) lsCommand() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List sessions, the newest first",
		Example: "  sojourn ls --query \"SojournStatus = 'running' AND SojournCostUSD > 1\"",
		Args:    wants,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.list(cmd.Context(), f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.query, "query", "", "only what a Temporal visibility `QUERY` finds")
	fl.BoolVar(&f.all, "all", false, "spawned sessions too, and old ones that only the archive knows")
	fl.IntVar(&f.limit, "limit", 50, "at most `N` sessions")
	return cmd
}

func (c *cli) list(ctx context.Context, f listFlags) error {
	if f.limit < 1 {
		return usage("--limit wants 1 or more", "--limit: is %d", f.limit)
	}
	n := needTemporal | needArchive
	if f.all {
		n |= needArchiveNow
	}
	sc, err := c.client(ctx, n)
	if err != nil {
		return err
	}
	stop := c.patience("still listing")
	page, err := collect(ctx, sc, f)
	stop()
	if err != nil {
		return err
	}
	for _, fault := range page.Faults {
		c.warn("%s", fault)
	}
	found := page.Sessions
	for _, s := range found {
		if s.Damage != "" {
			c.warn("session %s is damaged: %s", s.SessionID, s.Damage)
		}
	}
	if c.json {
		return c.printJSON(found)
	}
	return c.printTable(found, time.Now())
}

// collect reads pages until there are enough, and returns them as one.
func collect(ctx context.Context, sc *session.Client, f listFlags) (found session.Page, err error) {
	found.Sessions = []session.Summary{}
	seen := map[string]bool{}
	o := session.ListOptions{Query: f.query, Children: f.all, Retained: !f.all}
	for len(found.Sessions) < f.limit {
		o.PageSize = min(f.limit-len(found.Sessions), 1000)
		page, err := listPage(ctx, sc, o)
		if bad, ok := errors.AsType[*serviceerror.InvalidArgument](err); ok && f.query != "" {
			return found, usage("--query wants terms such as SojournStatus = 'running' AND SojournTurns > 3", "--query: %s", bad.Message)
		}
		if err != nil {
			return found, err
		}
		for _, fault := range page.Faults {
			if !slices.Contains(found.Faults, fault) {
				found.Faults = append(found.Faults, fault)
			}
		}
		for _, s := range page.Sessions {
			// Each incarnation of a reopened session is a separate run; the newest comes
			// first and represents it.
			if !seen[s.SessionID] {
				seen[s.SessionID] = true
				found.Sessions = append(found.Sessions, s)
			}
		}
		if o.PageToken = page.Next; page.Next == "" {
			break
		}
	}
	return found, nil
}

func listPage(ctx context.Context, sc *session.Client, o session.ListOptions) (session.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return sc.List(ctx, o)
}

const maxTitle = 44

func (c *cli) printTable(sessions []session.Summary, now time.Time) error {
	if len(sessions) == 0 {
		_, err := fmt.Fprintln(c.stderr, "sojourn: no sessions; sojourn new --agent NAME makes one")
		return err
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTITLE\tAGENT\tSTATUS\tTURNS\tCOST\tLAST ACTIVITY")
	for _, s := range sessions {
		last := s.LastActivity
		if last.IsZero() {
			last = s.CreatedAt
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", s.SessionID, cmp.Or(render.Short(s.Title, maxTitle), "-"), cmp.Or(s.Agent, "-"),
			status(s), s.Turns, render.Cost(s.CostUSD), ago(now.Sub(last)))
	}
	return w.Flush()
}

func status(s session.Summary) string {
	var more []string
	if s.Outcome != "" && s.Outcome != session.Completed && s.Status != session.StatusRunning && s.Status != session.StatusWaiting {
		more = append(more, string(s.Outcome))
	}
	if s.Parked {
		more = append(more, "parked")
	}
	if s.WaitsFor != "" {
		more = append(more, render.Short(s.WaitsFor, maxTitle))
	}
	if s.Parent != "" {
		more = append(more, "child")
	}
	if s.Archived {
		more = append(more, "archived")
	}
	if s.Damage != "" {
		more = append(more, "damaged")
	}
	if len(more) == 0 {
		return cmp.Or(string(s.Status), "-")
	}
	return fmt.Sprintf("%s (%s)", s.Status, strings.Join(more, ", "))
}

// ago returns a duration for people, in one unit.
func ago(d time.Duration) string {
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if d >= u.size {
			return fmt.Sprintf("%d%s ago", d/u.size, u.name)
		}
	}
	return "now"
}
