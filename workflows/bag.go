package workflows

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
)

// mergeBag sets the given keys; a null value removes its key.
func mergeBag(bag, set map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(bag)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	//workflowcheck:ignore the result is a map and does not depend on the order
	for k, v := range set {
		if string(v) == "null" {
			delete(out, k)
			continue
		}
		out[k] = v
	}
	return out
}

// identified gives a message its id when the sender chose none.
func identified(ctx workflow.Context, m session.Message) (session.Message, error) {
	if m.ID != "" {
		return m, nil
	}
	err := workflow.SideEffect(ctx, func(workflow.Context) any { return uuid.NewString() }).Get(&m.ID)
	return m, err
}

// headline is a title made of a message: its first line, cut at 60 runes.
func headline(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	runes := []rune(line)
	if len(runes) > 60 {
		return strings.TrimSpace(string(runes[:59])) + "…"
	}
	return line
}
