// Package hosts has the workflows that ask hosts for their descriptions, and drain them.
package hosts

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/timeouts"
)

// Reports asks hosts concurrently for their agents, and returns their reports in order.
func Reports(ctx workflow.Context, hosts []string) ([]session.HostReport, error) {
	asked := make([]workflow.Future, len(hosts))
	for i, host := range hosts {
		asked[i] = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, describeOptions(host)), contract.ActivityDescribeHost)
	}
	reports := make([]session.HostReport, len(hosts))
	for i, host := range hosts {
		if err := asked[i].Get(ctx, &reports[i]); err != nil {
			reports[i] = session.HostReport{Host: host, Error: whyNoReport(err)}
		}
	}
	return reports, nil
}

// describeOptions: a host with a live worker takes a control at once; programs that print
// their version may take seconds on a busy host.
func describeOptions(host string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              session.ControlQueue(host),
		ScheduleToStartTimeout: 10 * time.Second,
		StartToCloseTimeout:    30 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}

func whyNoReport(err error) string {
	var app *temporal.ApplicationError
	switch {
	case timeouts.HostLost(err):
		return session.NoWorker
	case errors.As(err, &app):
		return app.Message()
	}
	return err.Error()
}

// Drain begins or ends the draining of a host, and returns its report.
func Drain(ctx workflow.Context, req session.DrainRequest) (session.HostReport, error) {
	report := session.HostReport{Host: req.Host}
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, describeOptions(req.Host)), contract.ActivityDrainHost, req.On).Get(ctx, &report)
	if err != nil {
		report.Error = whyNoReport(err)
	}
	return report, nil
}
