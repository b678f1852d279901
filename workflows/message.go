package workflows

import (
	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/details"
)

// withID returns a message with an id: a new one if the sender chose none.
func withID(ctx workflow.Context, m session.Message) (session.Message, error) {
	if m.ID != "" {
		return m, nil
	}
	err := workflow.SideEffect(ctx, func(workflow.Context) any { return uuid.NewString() }).Get(&m.ID)
	return m, err
}

// titleOf returns a title from a message: its first line, truncated to 60 runes.
func titleOf(text string) string { return details.Line(text, 60) }
