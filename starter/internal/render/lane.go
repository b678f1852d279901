package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// lane distinguishes a conversation from the others: main has no mark, a
// subagent's lines have its name.
type lane struct {
	id    string
	label string
	depth int
	style style
	// resultShown means that the subagent's tool result was shown, and the subagent
	// had no output since.
	resultShown bool
}

const maxLabel = 18

// plainGutter returns what precedes every line.
func (l *lane) plainGutter() string {
	if l.depth == 0 {
		return ""
	}
	return strings.Repeat("  ", l.depth) + l.label + " │ "
}

func (p *Printer) gutter(l *lane) string {
	if l.depth == 0 {
		return ""
	}
	return strings.Repeat("  ", l.depth) + p.paint(l.style, l.label+" │") + " "
}

// lane returns the lane of a conversation, a new one for a subagent that was not
// announced.
func (p *Printer) lane(conversation string) *lane {
	if l := p.lanes[conversation]; l != nil {
		return l
	}
	l := &lane{id: conversation, depth: 1, style: laneStyles[(len(p.lanes)-1)%len(laneStyles)]}
	l.label = p.label("agent")
	p.lanes[conversation] = l
	return l
}

// label makes a name unique: two subagents of one kind must not be mixed up.
func (p *Printer) label(name string) string {
	name = cut(cmp.Or(oneLine(name), "agent"), maxLabel)
	p.labels[name]++
	if n := p.labels[name]; n > 1 {
		return fmt.Sprintf("%s#%d", name, n)
	}
	return name
}

// spawn returns the lane of a subagent that is announced now.
func (p *Printer) spawn(parent *lane, e event.SubagentSpawned) *lane {
	if l := p.lanes[e.ToolUseID]; l != nil {
		return l
	}
	l := &lane{
		id: e.ToolUseID, depth: parent.depth + 1, style: laneStyles[(len(p.lanes)-1)%len(laneStyles)],
		label: p.label(cmp.Or(e.SubagentType, e.Description)),
	}
	p.lanes[e.ToolUseID] = l
	return l
}
