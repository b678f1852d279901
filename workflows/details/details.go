// Package details describes a session as text, for operators who view its workflow in
// Temporal's Web UI.
package details

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/session"
)

// Markdown returns the workflow's current details. now is the title of the running message;
// "" while no turn runs.
func Markdown(i session.Inspection, now string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", cmp.Or(i.Title, "—"))
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "- **%s:** %s\n", name, value)
		}
	}
	row("Agent", i.Agent)
	row("Status", string(i.Status)+queued(len(i.Queued)))
	if len(i.Pending) > 0 {
		row("Waits for", "a person's answer to the permission request "+strings.Join(i.Pending, ", "))
	}
	if p := i.Parked; p != nil {
		row("Parked", fmt.Sprintf("since %s; %s", p.Since.Format(time.RFC3339), inCode(p.Notice())))
	}
	if i.Status == session.StatusPaused {
		row("Paused", i.WaitsFor)
	} else if i.WaitsFor != "" {
		row("Waits for", i.WaitsFor+" (Pending Activities says since when, and why it is tried again)")
	}
	row("Turns", fmt.Sprint(i.Turns))
	if i.TickCount != nil {
		row("Model calls", fmt.Sprint(*i.TickCount))
	}
	row("Cost", fmt.Sprintf("%s (%d tokens in, %d out)", dollars(i.CostUSD), i.Usage.InputTokens, i.Usage.OutputTokens))
	if i.CurrentExecution != "" {
		row("Now", "“"+now+"”")
	}
	if i.Sandbox != nil {
		row("Sandbox", fmt.Sprintf("%s on host %s", i.Sandbox.ID, i.Sandbox.Host))
	}
	row("In the background", strings.Join(i.Background, ", "))
	row("Last block", lastBlock(i))
	row("Last turn", string(i.LastOutcome))
	if i.Failure != nil {
		row("Last failure", i.Failure.Message)
	}
	row("Archive", i.ArchiveBehind)
	for _, c := range i.Children {
		row("Child", c.SessionID+" ("+c.Agent+")")
	}
	return b.String()
}

// Turn returns the summary of a turn that is about to run, which the Web UI shows beside
// its heartbeat: whose turn it is. It is metadata of an event that exists anyway. Temporal
// documents 400 bytes for it; a rune of the title takes at most 6.
func Turn(i session.Inspection) string {
	return fmt.Sprintf("%s · %s · turn %d · %s before it", cmp.Or(Line(i.Title, 40), "—"), i.Agent, i.Turns+1, dollars(i.CostUSD))
}

// Line returns the first line of a text, truncated to n runes.
func Line(text string, n int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	runes := []rune(line)
	if len(runes) > n {
		return strings.TrimSpace(string(runes[:n-1])) + "…"
	}
	return line
}

func queued(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d message(s) waiting", n)
}

// dollars formats a cost for a list.
func dollars(cost *float64) string {
	if cost == nil {
		return "cost unknown"
	}
	return fmt.Sprintf("$%.4f", *cost)
}

// lastBlock returns the last block of the last ended turn: what a running turn streams
// never enters history, so its heartbeat shows it.
func lastBlock(i session.Inspection) string {
	switch {
	case i.LastBlock == "":
		return ""
	case i.CurrentExecution == "":
		return inCode(i.LastBlock)
	}
	return inCode(i.LastBlock) + " (before this turn; its own is in RunTurn's heartbeat, under Pending Activities)"
}

// inCode prevents an agent's text from being rendered as Markdown.
func inCode(s string) string {
	return "`" + strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "`", "'") + "`"
}
