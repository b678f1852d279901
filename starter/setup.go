package starter

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// step is one thing that setup ensures.
type step struct {
	Name string `json:"name"`
	// Made is what was made now; empty if everything existed.
	Made []string `json:"made"`
	// Where is its location.
	Where string `json:"where"`
}

func (c *cli) setupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "setup",
		Short: "Make search attributes, the schedule sojourn-reconciler, stream and the archive's bucket or folder; what exists stays",
		Args:  wants,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.setup(cmd.Context()) },
	}
}

func (c *cli) setup(ctx context.Context) error {
	steps := []step{}
	for _, do := range []func(context.Context) (step, error){c.setupAttributes, c.setupReconciler, c.setupStream, c.setupStore} {
		s, err := do(ctx)
		if err != nil {
			return err
		}
		steps = append(steps, s)
		if c.json {
			continue
		}
		what := "is there already"
		if len(s.Made) > 0 {
			what = "made " + strings.Join(s.Made, ", ")
		}
		if _, err := fmt.Fprintf(c.stdout, "%-18s %s  (%s)\n", s.Name, what, s.Where); err != nil {
			return err
		}
	}
	if c.json {
		return c.printJSON(struct {
			Steps []step `json:"steps"`
		}{steps})
	}
	return nil
}

func (c *cli) setupAttributes(ctx context.Context) (step, error) {
	t, err := c.temporal(ctx)
	if err != nil {
		return step{}, err
	}
	o := c.conns.options
	s := step{Name: "search attributes", Made: []string{}, Where: "namespace " + o.Namespace + " at " + o.HostPort}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stop := c.patience("Temporal takes a moment to know new search attributes")
	defer stop()
	if err := namespaceKnown(ctx, t, o.Namespace); err != nil {
		return s, err
	}
	made, err := session.EnsureSearchAttributes(ctx, t, o.Namespace)
	s.Made = append(s.Made, made...)
	return s, attributeFault(err)
}

func (c *cli) setupReconciler(ctx context.Context) (step, error) {
	s := step{Name: "reconciler", Made: []string{}, Where: "schedule " + session.ReconcilerSchedule}
	t, err := c.temporal(ctx)
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	made, err := session.EnsureReconciler(ctx, t)
	if made {
		s.Made = append(s.Made, session.ReconcilerSchedule)
	}
	return s, err
}

func (c *cli) setupStream(ctx context.Context) (step, error) {
	s := step{Name: "stream", Made: []string{}, Where: stream.Redacted(c.env.NATS())}
	asking, done := c.connecting(ctx, "NATS")
	defer done()
	before, err := probeNATS(asking, c.env.NATS(), c.env.NATSAccess())
	if err != nil {
		return s, err
	}
	if _, err := c.log(ctx); err != nil {
		return s, err
	}
	if !before.stream {
		s.Made = append(s.Made, streamName)
	}
	return s, nil
}

func (c *cli) setupStore(ctx context.Context) (step, error) {
	s := step{Name: "archive", Made: []string{}, Where: c.storeAddress()}
	asking, done := c.connecting(ctx, "the archive's store")
	defer done()
	found, err := c.probeStore(asking)
	if err != nil || found {
		return s, err
	}
	a, err := c.archive(ctx)
	if err != nil {
		return s, err
	}
	s.Made = append(s.Made, s.Where)
	return s, a.Setup(asking)
}

// storeAddress describes where the archive is.
func (c *cli) storeAddress() string {
	if folder := c.env.Get("SOJOURN_ARCHIVE_DIR"); folder != "" {
		return "folder " + folder
	}
	bucket := cmp.Or(c.env.Get("SOJOURN_BUCKET"), "sojourn")
	endpoint := cmp.Or(c.env.Get("AWS_ENDPOINT_URL_S3"), c.env.Get("AWS_ENDPOINT_URL"), "AWS")
	return "bucket " + bucket + " at " + stream.Redacted(endpoint)
}
