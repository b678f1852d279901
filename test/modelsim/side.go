package modelsim

import (
	"encoding/json"
	"slices"
	"strings"
)

// aside answers a request of the agent's own, such as one for a title or a
// judgement: by an instance of the schema if it wants one, else by what the
// conversation was about. The script in it is not run.
func aside(c Conversation) []part {
	if c.Schema != nil {
		return []part{textPart{string(quoted(instance(c.Schema, "scripted", maxSchema)))}}
	}
	return []part{textPart{topic(c)}}
}

// maxTopic is what agents allow for a title or a one-line summary.
const maxTopic = 80

// topic is the first script that the request quotes, else the end of it.
func topic(c Conversation) string {
	for _, t := range c.Turns {
		for line := range strings.Lines(t.Prompt) {
			line = strings.TrimSpace(line)
			if _, said, found := strings.Cut(line, ": "); found && isScript(said) && !isScript(line) {
				line = said // "User: SAY x"
			}
			if isScript(line) {
				return head(line, maxTopic)
			}
		}
	}
	text := strings.TrimSpace(c.last().Prompt)
	if text == "" {
		return "nothing yet"
	}
	first, _, _ := strings.Cut(text, "\n")
	return head(first, maxTopic)
}

// schema is the part of a JSON schema that describes a value.
type schema struct {
	Type       any             `json:"type"`
	Enum       []any           `json:"enum"`
	Const      any             `json:"const"`
	Properties map[string]any  `json:"properties"`
	Required   []string        `json:"required"`
	Items      json.RawMessage `json:"items"`
	MinItems   any             `json:"minItems"`
	AnyOf      []any           `json:"anyOf"`
}

// maxSchema bounds how deep a value of a schema that holds itself may get.
const maxSchema = 8

// instance makes the simplest value that fits a schema: the first of its
// choices, required fields only. Where any text will do it is text.
func instance(raw json.RawMessage, text string, depth int) any {
	var s schema
	if depth == 0 || json.Unmarshal(raw, &s) != nil {
		return nil
	}
	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AnyOf) > 0:
		return instance(quoted(s.AnyOf[0]), text, depth-1)
	}
	switch s.kind() {
	case "object":
		return s.object(text, depth)
	case "array":
		return s.array(text, depth)
	case "string":
		return text
	case "number", "integer":
		return 0
	case "boolean":
		return false
	}
	return nil
}

// kind is the schema's type in lower case: Gemini's own schemas shout.
func (s schema) kind() string {
	if list, ok := s.Type.([]any); ok && len(list) > 0 {
		s.Type = list[0]
	}
	name, _ := s.Type.(string)
	if name == "" && s.Properties != nil {
		return "object"
	}
	return strings.ToLower(name)
}

func (s schema) object(text string, depth int) any {
	out := map[string]any{}
	for name, inner := range s.Properties {
		if slices.Contains(s.Required, name) {
			out[name] = instance(quoted(inner), text, depth-1)
		}
	}
	return out
}

func (s schema) array(text string, depth int) any {
	if n, ok := s.MinItems.(float64); ok && n > 0 {
		return []any{instance(s.Items, text, depth-1)}
	}
	return []any{}
}
