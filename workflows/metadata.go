package workflows

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/details"
)

// mergeMetadata sets the given keys; a null value removes its key.
func mergeMetadata(bag, set map[string]json.RawMessage) map[string]json.RawMessage {
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

func sameMetadata(a, b map[string]json.RawMessage) bool {
	return maps.EqualFunc(a, b, func(v, w json.RawMessage) bool { return bytes.Equal(v, w) })
}

// withID returns a message with an id: a new one if the sender chose none.
func withID(ctx workflow.Context, m session.Message) (session.Message, error) {
	if m.ID != "" {
		return m, nil
	}
	err := workflow.SideEffect(ctx, func(workflow.Context) any { return uuid.NewString() }).Get(&m.ID)
	return m, err
}

// titleOf is a title made of a message: its first line, cut at 60 runes.
func titleOf(text string) string { return details.Line(text, 60) }
