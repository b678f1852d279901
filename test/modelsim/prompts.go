package modelsim

import (
	"regexp"
	"slices"
	"strings"
)

// Agents write texts of their own into the user's messages. They are no
// prompts: taking one for the prompt would restart the script.
var (
	reminder = regexp.MustCompile(`(?s)<system-reminder>.*?</system-reminder>`)
	notice   = "<task-notification>"
	// Sojourn adds this to a message that is asked again.
	lostCalls  = regexp.MustCompile(`(?s)\n\nOn the machine that was lost .*$`)
	injections = []string{
		// Claude Code
		"<local-command-",
		"<command-",
		"<bash-",
		"[Request interrupted by user",
		"Base directory for this skill:",
		"Continue from where you left off.",
		// OpenCode
		"Summarize the task tool output above and continue",
		"Continue if you have next steps",
		// Gemini CLI, to a subagent that ended without handing in a result
		"You have stopped calling tools without finishing.",
		"You have exceeded the maximum number of turns.",
		"You have exceeded the time limit.",
		// Codex
		"# AGENTS.md instructions for ",
	}
)

// element finds the name of the element that a text begins with. Agents name
// theirs in two words or more; a user who quotes markup is not meant.
var element = regexp.MustCompile(`^<([A-Za-z]+[_-][A-Za-z_-]+|[a-z_]+ instructions)>`)

// wrote takes what the agent added off a text and leaves what the user wrote,
// or "".
func wrote(text string) string {
	text = strings.TrimSpace(lostCalls.ReplaceAllString(reminder.ReplaceAllString(text, ""), ""))
	if hasAnyPrefix(text, injections) || isElement(text) {
		return ""
	}
	return text
}

func isElement(text string) bool {
	m := element.FindStringSubmatch(text)
	return m != nil && strings.HasSuffix(text, "</"+m[1]+">")
}

func hasAnyPrefix(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}

// subagentsEnded is in what Sojourn tells an agent whose machine was lost.
const subagentsEnded = "subagents too, has ended and is not to be waited for"

// addMessage takes the first text of a user's message that the user wrote for
// the prompt; agents put its attachments, such as files, after it.
func (c *Conversation) addMessage(texts []string) {
	for _, text := range texts {
		if strings.Contains(text, subagentsEnded) {
			c.endSubagents()
		}
		if prompt := wrote(text); prompt != "" {
			c.Turns = append(c.Turns, Turn{Prompt: prompt})
			return
		}
	}
}

// endSubagents marks all subagents as ended, so that none is waited for.
func (c *Conversation) endSubagents() {
	for _, t := range c.Turns {
		for i := range t.Results {
			t.Results[i].Reported = t.Results[i].Reported || t.Results[i].Agent != ""
		}
	}
}

// turn is the one under way, or nil.
func (c *Conversation) turn() *Turn {
	if len(c.Turns) == 0 {
		return nil
	}
	return &c.Turns[len(c.Turns)-1]
}

func (c *Conversation) addResult(r Result) {
	if t := c.turn(); t != nil {
		t.Results = append(t.Results, r)
	}
}
