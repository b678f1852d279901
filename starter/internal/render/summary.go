package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// summaryFields are the input fields that best describe a tool call, in order.
var summaryFields = [...]string{
	"description", "command", "file_path", "path", "filePath", "notebook_path", "pattern", "query", "url", "skill", "prompt",
}

// inputSummary returns a tool's input in one line.
func inputSummary(input json.RawMessage) string {
	fields := jsonFields(input)
	if fields == nil {
		return oneLine(string(input))
	}
	if command, ok := textField(fields, "command"); ok {
		// A shell's description is the model's intention; the command is what runs.
		return oneLine(command)
	}
	for _, name := range summaryFields {
		if text, ok := textField(fields, name); ok {
			return oneLine(text)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return oneLine(string(input))
}

// jsonFields returns the fields of a JSON object; nil if it is not one.
func jsonFields(object json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return nil
	}
	return fields
}

func textField(fields map[string]json.RawMessage, name string) (string, bool) {
	var text string
	if json.Unmarshal(fields[name], &text) != nil || text == "" {
		return "", false
	}
	return text, true
}

// outputText returns a tool's output as text: a string, the texts of an array of
// parts, or other JSON.
func outputText(output json.RawMessage) string {
	if len(output) == 0 || string(output) == "null" {
		return ""
	}
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(output, &parts) != nil {
		return string(output)
	}
	var texts []string
	for _, part := range parts {
		if part.Type == "text" || part.Text != "" {
			texts = append(texts, part.Text)
			continue
		}
		texts = append(texts, "["+part.Type+"]")
	}
	return strings.Join(texts, "\n")
}

// userText returns a user's message, with the parts that are not text named.
func userText(b event.Block) string {
	text := ""
	if b.Content != nil {
		text = *b.Content
	}
	for _, part := range b.Parts {
		if part.Type != "text" {
			text = strings.TrimLeft(text+" ["+strings.TrimSpace(part.Type+" "+part.MediaType)+"]", " ")
		}
	}
	return text
}

// Duration returns a duration for people.
func Duration(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d m %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %02d m", int(d.Hours()), int(d.Minutes())%60)
}

// Count returns a number for people.
func Count(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// Cost returns an amount of US dollars: cents for large ones, more digits for
// small ones, and a dash for an unknown one.
func Cost(usd *float64) string {
	switch {
	case usd == nil:
		return "–"
	case *usd >= 1 || *usd == 0:
		return fmt.Sprintf("$%.2f", *usd)
	}
	return fmt.Sprintf("$%.4f", *usd)
}

// Usage returns what a turn used.
func Usage(d time.Duration, u event.Usage, usd *float64) string {
	var parts []string
	if d > 0 {
		parts = append(parts, Duration(d))
	}
	if cached := u.CacheReadTokens + u.CacheWriteTokens; cached > 0 {
		parts = append(parts, Count(u.InputTokens)+" in", Count(cached)+" cached", Count(u.OutputTokens)+" out")
	} else {
		parts = append(parts, Count(u.InputTokens)+" in", Count(u.OutputTokens)+" out")
	}
	return strings.Join(append(parts, Cost(usd)), " · ")
}
