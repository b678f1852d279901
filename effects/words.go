package effects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
)

// maxInput bounds a call's input in Words, in bytes.
const maxInput = 300

// Words describes a call in a line. Its id distinguishes it from a call that does the same.
func (c Call) Words() string {
	return fmt.Sprintf("%s %s: %s", c.ToolName, c.mark(), c.input())
}

func (c Call) mark() string { return "(call " + c.ToolUseID + ")" }

func (c Call) input() string {
	var b bytes.Buffer
	if json.Compact(&b, c.Input) != nil {
		return ""
	}
	if b.Len() <= maxInput {
		return b.String()
	}
	at := maxInput
	for at > 0 && !utf8.RuneStart(b.Bytes()[at]) {
		at--
	}
	return b.String()[:at] + "…"
}

// names reports whether a message names a call.
func names(message event.Block, c Call) bool {
	if message.Content != nil && strings.Contains(*message.Content, c.mark()) {
		return true
	}
	return slices.ContainsFunc(message.Parts, func(p event.Part) bool { return strings.Contains(p.Text, c.mark()) })
}

// List describes calls, joined by a separator.
func List(calls []Call, separator string) string {
	var lines []string
	for _, c := range calls {
		lines = append(lines, c.Words())
	}
	return strings.Join(lines, separator)
}

// Tell returns the text about its calls for an agent; "" for none.
func Tell(calls []Call) string {
	if len(calls) == 0 {
		return ""
	}
	return "On the machine that was lost these tool calls had begun, and they have no result. Their effect is unknown: each may have been done " +
		"whole, in part or not at all. Check what there is before you do any of them again.\n- " + List(calls, "\n- ")
}

// question is the title of the question whether the turn is to continue.
const question = "continue, though these calls had begun when their agent was lost and their effect is unknown"

// IsQuestion reports whether a request of a parked turn is that question, before which its
// agent was not prompted.
func IsQuestion(r permission.Request) bool { return r.Title == question && r.ToolName == "" }

// OfAgent returns the decisions on the agent's own requests.
func OfAgent(decisions []permission.Decision) []permission.Decision {
	return slices.DeleteFunc(slices.Clone(decisions), func(d permission.Decision) bool { return IsQuestion(d.Request) })
}

// WhyFails returns why a turn ends by its calls: a rule does it, or the answer to the
// question about them.
func WhyFails(decisions []permission.Decision) string {
	for _, d := range decisions {
		if IsQuestion(d.Request) && !d.Allow {
			return Denied(d.Message)
		}
	}
	return "a rule ends the turn"
}

// Denied returns why a turn ends that a person does not want to continue.
func Denied(message string) string { return "it was not to continue: " + message }

// Request returns the question to a person whether the turn is to continue. It is about no
// single tool.
func Request(id string, calls []Call) event.PermissionRequested {
	lines := make([]string, len(calls))
	for i, c := range calls {
		lines[i] = c.Words()
	}
	input, _ := json.Marshal(map[string]any{"calls": lines}) // texts can be encoded
	return event.PermissionRequested{
		RequestID: id, Title: question, Input: input,
	}
}
