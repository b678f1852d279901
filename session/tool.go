package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sojourn-run/sojourn/agenttools"
)

// Tool is a tool of a program of yours that the agent of a session may call: the call becomes an
// activity on the program's task queue. Package tools makes such tools, and runs their handlers.
type Tool struct {
	// Name is the tool's: letters, digits, "_" and "-", at most 48. The agent sees it as one of
	// the MCP server sojourn. Required.
	Name string `json:"name"`
	// Description is what the model reads of it. Required.
	Description string `json:"description"`
	// Input is the JSON schema of its arguments, of type object. Default: any object.
	Input json.RawMessage `json:"input,omitempty"`
	// TaskQueue is where the program waits for calls. Required.
	TaskQueue string `json:"taskQueue"`
	// TimeoutMS bounds a call in milliseconds, with its wait for a program that is away. Default:
	// DefaultToolTimeout.
	TimeoutMS int64 `json:"timeoutMs,omitempty"`
	// Heartbeats: the handler's activity reports every half minute that it is at work, so that a
	// program that was lost is noticed within a minute, and not at the end of the call's time.
	// Package tools sets it, whose handlers do.
	Heartbeats bool `json:"heartbeats,omitempty"`
	// Idempotent: a call may be made again if the program was lost while it ran. Default: the
	// agent is told that the call's effect is unknown.
	Idempotent bool `json:"idempotent,omitempty"`
}

// Bounds of the tools of a session.
const (
	// MaxTools is how many tools a session may have.
	MaxTools = 64
	// MaxToolBytes bounds them all, as JSON, in bytes: they are part of each turn's input.
	MaxToolBytes = 32 << 10
	// DefaultToolTimeout is Tool.TimeoutMS of a tool that has none.
	DefaultToolTimeout = 10 * 60 * 1000
)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,48}$`)

// validateTools returns an error for the first invalid field.
func validateTools(all []Tool) error {
	if len(all) > MaxTools {
		return Invalid("tools", fmt.Sprintf("are %d", len(all)), fmt.Sprintf("at most %d", MaxTools))
	}
	seen := map[string]bool{}
	for i, t := range all {
		field := fmt.Sprintf("tools[%d].", i)
		if err := t.validate(field); err != nil {
			return err
		}
		if seen[t.Name] {
			return Invalid(field+"name", fmt.Sprintf("%q is there twice", t.Name), "each tool once")
		}
		seen[t.Name] = true
	}
	if data, err := json.Marshal(all); err != nil || len(data) > MaxToolBytes {
		return Invalid("tools", fmt.Sprintf("are %d bytes as JSON", len(data)), fmt.Sprintf("at most %d bytes of JSON", MaxToolBytes))
	}
	return nil
}

// withShared returns a session's tools with those that all sessions have.
func withShared(own, shared []Tool) []Tool {
	own = slices.Clip(own)
	for _, t := range shared {
		if !slices.ContainsFunc(own, func(o Tool) bool { return o.Name == t.Name }) {
			own = append(own, t)
		}
	}
	return own
}

// badSchema returns why a schema is none of a tool's arguments; "" if it is. What models' servers
// refuse would fail each request of the session.
func badSchema(data json.RawMessage) string {
	var top map[string]json.RawMessage
	var schema jsonschema.Schema
	if err := errors.Join(json.Unmarshal(data, &top), json.Unmarshal(data, &schema)); err != nil || !utf8.Valid(data) {
		return "is no JSON schema"
	}
	if string(bytes.TrimSpace(top["type"])) != `"object"` {
		return "is not of type object"
	}
	for _, combined := range []string{"anyOf", "oneOf", "allOf", "not"} {
		if _, has := top[combined]; has {
			return fmt.Sprintf("has %q at its top", combined)
		}
	}
	if _, err := schema.Resolve(nil); err != nil {
		return err.Error()
	}
	return ""
}

func (t Tool) validate(field string) error {
	switch {
	case !toolName.MatchString(t.Name):
		return Invalid(field+"name", fmt.Sprintf("is %q", shorten(t.Name, maxKeyword)), `1 to 48 letters, digits, "_" and "-"`)
	case agenttools.Own(t.Name):
		return Invalid(field+"name", fmt.Sprintf("%q is one of Sojourn's own tools", t.Name), "another name")
	case strings.TrimSpace(t.Description) == "":
		return Invalid(field+"description", "is empty", "what the model is to know of it")
	case t.TaskQueue == "" || len(t.TaskQueue) > maxKeyword:
		return Invalid(field+"taskQueue", fmt.Sprintf("is %d bytes", len(t.TaskQueue)), fmt.Sprintf("the task queue of the program, of at most %d bytes", maxKeyword))
	case t.TaskQueue == TaskQueue || strings.HasPrefix(t.TaskQueue, TaskQueue+"-"):
		return Invalid(field+"taskQueue", fmt.Sprintf("%q is Sojourn's own", t.TaskQueue), "a queue of the program's own")
	}
	if len(t.Input) > 0 {
		if reason := badSchema(t.Input); reason != "" {
			return Invalid(field+"input", reason, `a JSON schema with "type": "object", as models' servers take it`)
		}
	}
	return firstOf(validateMS(field+"timeoutMs", t.TimeoutMS), firstUTF8(field+"description", t.Description, field+"taskQueue", t.TaskQueue))
}
