package activities

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// health checks the sandbox before a query. One that was unhealthy is ready again: its
// agent is restarted.
func (a *attempt) health(ctx context.Context) ([]event.Event, error) {
	status, err := a.agent.Conn.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", a.in.Sandbox.ID, err)
	}
	env := a.environment("ready")
	env.RestartCount, env.LastHealthCheck = status.RestartCount, time.Now().UTC()
	events := []event.Event{fromServer(event.EEHealthCheck{Environment: env})}
	if a.checkpoint.Unhealthy {
		a.checkpoint.Unhealthy = false
		events = append(events, fromServer(unified(env)))
	}
	return events, nil
}

// unhealthy returns the events about a dead agent in the sandbox; the next query restarts
// it.
func (a *attempt) unhealthy(why string) []event.Event {
	env := a.environment("unhealthy")
	env.Message = why
	a.checkpoint.Unhealthy = true
	return []event.Event{fromServer(event.EEError{Environment: env}), fromServer(unified(env))}
}

func (a *attempt) environment(status string) event.Environment {
	return event.Environment{SandboxID: a.in.Sandbox.ID, Host: a.host.o.ID, Provider: "local", Status: status}
}
