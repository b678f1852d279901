package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

// verdict is the result of a check.
type verdict string

const (
	verdictOK verdict = "ok"
	// verdictNote: sessions don't need it on this machine.
	verdictNote verdict = "note"
	verdictBad  verdict = "bad"
)

// finding is one line of the doctor.
type finding struct {
	Name    string  `json:"name"`
	Verdict verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Hint    string  `json:"hint,omitempty"`
	// Agent is the agent that was checked.
	Agent *adapters.Info `json:"agent,omitempty"`
}

// check checks one part. It has its own timeout.
type check struct {
	name     string
	patience time.Duration
	look     func(context.Context) (detail string, err error)
	// optional turns a failure into a note.
	optional bool
	agent    *adapters.Info
}

// checkTimeout is what a part has that is well, on a machine that is busy.
const checkTimeout = 10 * time.Second

func (c *cli) doctorCommand() *cobra.Command {
	var fairness bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check every part and say what is wrong",
		Long:  "Check every part and say what is wrong. The exit code is 1 when something that sessions need is broken.",
		Args:  wants,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := c.checks(cmd.Context())
			if fairness {
				checks = append(checks, check{name: "fairness", patience: fairnessTimeout, optional: true, look: c.inTemporal(c.checkFairness)})
			}
			return c.doctor(cmd.Context(), checks)
		},
	}
	cmd.Flags().BoolVar(&fairness, "fairness", false, "try too whether the server shares places among batches, with a short workflow that is deleted")
	return cmd
}

func (c *cli) doctor(ctx context.Context, checks []check) error {
	// The checks run concurrently and share these.
	if _, err := c.temporalUnasked(ctx); err != nil {
		return err
	}
	report := struct {
		OK     bool      `json:"ok"`
		Checks []finding `json:"checks"`
	}{OK: true}
	for f := range c.examine(ctx, checks) {
		report.OK = report.OK && f.Verdict != verdictBad
		report.Checks = append(report.Checks, f)
		if c.json {
			continue
		}
		if err := c.printFinding(f); err != nil {
			return err
		}
	}
	if c.json {
		if err := c.printJSON(report); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !report.OK {
		return errReported
	}
	return nil
}

// examine runs all checks concurrently and yields the findings in order.
func (c *cli) examine(ctx context.Context, checks []check) func(func(finding) bool) {
	results := make([]chan finding, len(checks))
	for i, ch := range checks {
		results[i] = make(chan finding, 1)
		go func() { results[i] <- ch.run(ctx) }()
	}
	return func(yield func(finding) bool) {
		more := true
		for _, r := range results {
			f := <-r
			more = more && yield(f)
		}
	}
}

func (ch check) run(ctx context.Context) finding {
	patience := cmp.Or(ch.patience, checkTimeout)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f := finding{Name: ch.name, Verdict: verdictOK, Agent: ch.agent}
	detail, err := ch.look(ctx)
	f.Detail = detail
	if err == nil {
		return f
	}
	why := explain(err)
	f.Verdict, f.Detail, f.Hint = verdictBad, oneLine(why.line), oneLine(why.hint)
	if errors.Is(err, context.DeadlineExceeded) {
		f.Detail = cmp.Or(f.Detail, "no answer") + " within " + patience.String()
	}
	if ch.optional {
		f.Verdict = verdictNote
	}
	return f
}

func (c *cli) printFinding(f finding) error {
	o := c.renderOptions(c.stdout)
	if err := writeLine(c.stdout, fmt.Sprintf("%s %-18s %s", mark(f.Verdict, o), f.Name, oneLine(f.Detail))); err != nil {
		return err
	}
	if f.Hint != "" {
		if err := writeLine(c.stdout, fmt.Sprintf("%*shint: %s", detailColumn, "", f.Hint)); err != nil {
			return err
		}
	}
	if f.Agent == nil {
		return nil
	}
	return writeAbilities(c.stdout, detailColumn, f.Agent.Capabilities)
}

// detailColumn is where the details begin, behind verdict and name.
const detailColumn = 24

// mark returns a verdict in four columns.
func mark(v verdict, o render.Options) string {
	word := fmt.Sprintf("%-4s", v)
	if !o.Color {
		return word
	}
	color := map[verdict]string{verdictOK: "32", verdictNote: "33", verdictBad: "31"}[v]
	return "\x1b[" + color + "m" + word + "\x1b[0m"
}

func (c *cli) checks(ctx context.Context) []check {
	all := []check{
		{name: "temporal", look: c.checkTemporal},
		{name: "namespace", look: c.inTemporal(c.checkNamespace)},
		{name: "search attributes", look: c.inTemporal(c.checkAttributes)},
		{name: "worker", look: c.inTemporal(checkWorker)},
		{name: "reconciler", look: c.inTemporal(checkReconciler)},
		{name: "stream", look: c.checkStream},
		{name: "archive", look: c.checkBucket},
	}
	return append(all, c.hostChecks(ctx)...)
}

func (c *cli) checkTemporal(ctx context.Context) (string, error) {
	if _, err := c.temporal(ctx); err != nil {
		return "", err
	}
	return "answers at " + c.conns.options.HostPort, nil
}

// inTemporal returns a check that queries Temporal.
func (c *cli) inTemporal(look func(context.Context, client.Client) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		t, err := c.temporal(ctx)
		if err != nil {
			return "", &failure{line: "not checked: Temporal is not reachable", code: exitFailed}
		}
		return look(ctx, t)
	}
}

func (c *cli) checkNamespace(ctx context.Context, t client.Client) (string, error) {
	return c.conns.options.Namespace, namespaceKnown(ctx, t, c.conns.options.Namespace)
}

func (c *cli) checkAttributes(ctx context.Context, t client.Client) (string, error) {
	missing, err := missingAttributes(ctx, t, c.conns.options.Namespace)
	if err == nil && len(missing) > 0 {
		err = failed("sojourn setup makes them", "%d of %d are missing", len(missing), len(session.SearchAttributes()))
	}
	return fmt.Sprintf("all %d are there", len(session.SearchAttributes())), err
}

func checkWorker(ctx context.Context, t client.Client) (string, error) {
	w, err := session.WorkersOf(ctx, t, session.TaskQueue)
	if err != nil {
		return "", err
	}
	if len(w.Identities) == 0 {
		return "", failed("start sojourn-worker with the same settings", "no worker asks for work on the task queue %s", session.TaskQueue)
	}
	if err := w.Err(); err != nil {
		return "", failed("start workers of that version, or make another one the current one: temporal worker deployment set-current-version (docs/operations.md, Upgrading)", "%s", err)
	}
	line := fmt.Sprintf("%d on the task queue %s: %s, heard of %s", len(w.Identities), session.TaskQueue, joinNames(w.Identities), ago(w.Ago))
	if w.Current != (session.WorkerVersion{}) {
		line += fmt.Sprintf("; %s is current", w.Current)
	}
	return line, nil
}

func checkReconciler(ctx context.Context, t client.Client) (string, error) {
	d, err := t.ScheduleClient().GetHandle(ctx, session.ReconcilerSchedule).Describe(ctx)
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return "", failed("sojourn setup makes it; a worker that starts does too", "there is no schedule %s: terminated sessions are not cleaned up", session.ReconcilerSchedule)
	case err != nil:
		return "", err
	case d.Schedule.State != nil && d.Schedule.State.Paused:
		return "", failed("unpause it in the Web UI", "the schedule %s is paused: terminated sessions are not cleaned up", session.ReconcilerSchedule)
	}
	return fmt.Sprintf("schedule %s, every %s", session.ReconcilerSchedule, session.ReconcileEvery), nil
}

func (c *cli) checkStream(ctx context.Context) (string, error) {
	state, err := probeNATS(ctx, c.env.NATS(), c.env.NATSAccess())
	if err == nil && !state.stream {
		err = failed("sojourn setup makes it", "JetStream at %s has no stream %s", state.address, streamName)
	}
	return fmt.Sprintf("%s at %s, %s bytes", streamName, state.address, render.Count(int64(state.bytes))), err
}

func (c *cli) checkBucket(ctx context.Context) (string, error) {
	found, err := c.probeStore(ctx)
	if err == nil && !found {
		err = failed("sojourn setup makes it", "there is no %s", c.storeAddress())
	}
	return c.storeAddress(), err
}

// hostChecks returns the checks that the hosts' workers answer; they are queried
// once for all.
func (c *cli) hostChecks(ctx context.Context) []check {
	ask := sync.OnceValues(func() ([]session.HostReport, error) { return c.hosts(ctx) })
	about := func(name string, agent *adapters.Info, judge func([]session.HostReport) (string, error)) check {
		return check{name: name, patience: hostsTimeout, optional: true, agent: agent, look: func(context.Context) (string, error) {
			reports, err := ask()
			if err != nil {
				return "", err
			}
			return judge(reports)
		}}
	}
	all := []check{about("hosts", nil, loads), about("sandboxes", nil, confinement), about("leftovers", nil, leftovers)}
	for _, name := range c.agents.Names() {
		a, err := c.agents.Get(name)
		if err != nil {
			continue
		}
		info := a.Info()
		all = append(all, about("agent "+info.Name, &info, func(reports []session.HostReport) (string, error) {
			return onHosts(info.Name, reports)
		}))
	}
	return all
}

// confinement describes how hosts isolate agents. It is an error if one of them
// warns.
func confinement(hosts []session.HostReport) (string, error) {
	var warnings []string
	confining := 0
	for _, h := range hosts {
		for _, w := range h.Warnings {
			warnings = append(warnings, fmt.Sprintf("host %s: %s", h.Host, w))
		}
		if h.Error == "" && len(h.Warnings) == 0 {
			confining++
		}
	}
	if len(warnings) > 0 {
		return "", failed("docs/operations.md, Security, tells what agents can reach", "%s", strings.Join(warnings, "; "))
	}
	return fmt.Sprintf("agents are shut in on %d of %d hosts that were asked", confining, len(hosts)), nil
}

// loads describes what the hosts hold.
func loads(hosts []session.HostReport) (string, error) {
	var all []string
	for _, h := range hosts {
		load := fmt.Sprintf("%s has %d sandboxes", h.Host, h.Sandboxes)
		if h.Error != "" {
			load = h.Host + ": " + h.Error
		}
		if h.Draining {
			load += " and is being drained"
		}
		all = append(all, load)
	}
	return strings.Join(all, "; "), nil
}

// leftovers returns an error that names what hosts could not remove.
func leftovers(hosts []session.HostReport) (string, error) {
	var left []string
	for _, h := range hosts {
		for _, l := range h.Leftovers {
			left = append(left, fmt.Sprintf("host %s: %s", h.Host, l))
		}
	}
	if len(left) > 0 {
		return "", failed("each sweep (60 s) tries again; docs/operations.md, Troubleshooting, tells what keeps files there", "%s", strings.Join(left, "; "))
	}
	return "nothing of ended sandboxes is left", nil
}
