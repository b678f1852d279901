package acp

import (
	"encoding/json"

	"github.com/sojourn-run/sojourn/adapters/internal/acp"
	"github.com/sojourn-run/sojourn/event"
)

// newDialect returns the protocol as it is specified, without any agent's
// deviations.
func newDialect() *acp.Dialect {
	return &acp.Dialect{
		Agent: Name, Settle: true, Kept: true, AskModel: true, BareThoughts: true,
		Tool: liveTool, Spent: spent,
	}
}

// otherKind is the kind of a call whose kind the protocol does not give.
const otherKind = "other"

// liveTool names a call by its kind, since titles describe what a call does and
// change while it runs. A call without input has its title as input.
func liveTool(c acp.ToolCall) acp.Tool {
	t := acp.Tool{Name: c.Kind, Input: c.RawInput}
	if t.Name == "" || t.Name == otherKind {
		t.Name = c.Title
	}
	if t.Name == "" {
		t.Name = otherKind
	}
	if isEmpty(t.Input) && c.Title != "" {
		t.Input, _ = json.Marshal(map[string]string{"title": c.Title}) // a string can always be encoded
	}
	return t
}

func isEmpty(input json.RawMessage) bool {
	switch string(input) {
	case "", "null", "{}":
		return true
	}
	return false
}

// spent reads what a turn has used, from the protocol's field or from where
// agents put it before that existed.
func spent(result json.RawMessage) *event.MetadataUpdate {
	var r struct {
		Usage *struct {
			Input      int64 `json:"inputTokens"`
			Output     int64 `json:"outputTokens"`
			CacheRead  int64 `json:"cachedReadTokens"`
			CacheWrite int64 `json:"cachedWriteTokens"`
		} `json:"usage"`
		Meta struct {
			Quota *struct {
				Tokens struct {
					Input  int64 `json:"input_tokens"`
					Output int64 `json:"output_tokens"`
				} `json:"token_count"`
			} `json:"quota"`
		} `json:"_meta"`
	}
	if json.Unmarshal(result, &r) != nil {
		return nil
	}
	switch u, q := r.Usage, r.Meta.Quota; {
	case u != nil:
		return &event.MetadataUpdate{Usage: &event.Usage{
			InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite}}
	case q != nil:
		return &event.MetadataUpdate{Usage: &event.Usage{InputTokens: q.Tokens.Input, OutputTokens: q.Tokens.Output}}
	}
	return nil
}
