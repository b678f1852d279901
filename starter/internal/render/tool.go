package render

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// The marks of a tool's state.
const (
	markRunning = "● "
	markOK      = "✓ "
	markFailed  = "✗ "
	markAgent   = "◆ "
)

// toolUse shows a tool when its input is known: the name alone is not enough.
func (p *Printer) toolUse(known *block, b event.Block) {
	known.merge(b)
	id := cmp.Or(known.tool.ToolUseID, b.ID)
	p.tools[id] = known
	if !known.announced && (b.Status == event.StatusComplete || known.hasInput()) {
		p.announce(known)
	}
	failed := b.Execution == event.ExecutionError || b.Status == event.StatusError
	if failed && !known.resulted {
		known.resulted = true
		p.result(known, markFailed, 0, nil)
	}
}

// remember stores a tool's input, and shows nothing.
func (p *Printer) remember(l *lane, b event.Block) {
	id := cmp.Or(b.ToolUseID, b.ID)
	if p.tools[id] == nil {
		p.tools[id] = &block{lane: l, typ: b.Type}
	}
	p.tools[id].merge(b)
}

func (b *block) merge(given event.Block) {
	b.tool.ToolName = cmp.Or(given.ToolName, b.tool.ToolName)
	b.tool.ToolUseID = cmp.Or(given.ToolUseID, b.tool.ToolUseID)
	if len(given.Input) > 0 {
		b.tool.Input = given.Input
	}
}

func (b *block) hasInput() bool { return len(b.tool.Input) > len("{}") }

func (p *Printer) announce(b *block) {
	b.announced = true
	p.emit(unit{lane: b.lane, group: groupWork, tool: b, lines: []string{p.toolLine(b, markRunning, "")}})
}

// toolLine returns one line that fits: state, name, what it does, and how long.
func (p *Printer) toolLine(b *block, mark, tail string) string {
	colors := map[string]style{markRunning: yellow, markOK: green, markFailed: red, markAgent: cyan}
	name := oneLine(cmp.Or(b.tool.ToolName, "tool"))
	room := p.room(b.lane) - width(mark) - width(name) - width(tail) - 2
	line := p.paint(colors[mark], mark) + p.paint(bold, name)
	if summary := cut(inputSummary(b.tool.Input), max(8, room)); summary != "" {
		line += "  " + summary
	}
	return line + p.paint(dim, tail)
}

func (p *Printer) toolResult(known *block, b event.Block, at time.Time) {
	tool := p.tools[b.ToolUseID]
	if known.done {
		return
	}
	known.done = true
	if tool == nil {
		tool = &block{lane: known.lane, tool: event.Block{ToolName: "result of " + b.ToolUseID}}
	}
	mark := markOK
	if b.IsError != nil && *b.IsError {
		mark = markFailed
	}
	tool.resulted = true
	p.result(tool, mark, took(b, tool.begun, at), p.outputLines(tool, b))
	if l := p.lanes[b.ToolUseID]; l != nil {
		l.resultShown = true
	}
}

// took returns the agent's own figure, or else the time between the two blocks.
func took(result event.Block, begun, ended time.Time) time.Duration {
	switch {
	case result.DurationMS != nil:
		return time.Duration(*result.DurationMS) * time.Millisecond
	case begun.IsZero() || ended.Before(begun):
		return 0
	}
	return ended.Sub(begun)
}

// result replaces the tool's line when it is still the last one, else adds
// one.
func (p *Printer) result(tool *block, mark string, d time.Duration, output []string) {
	tail := ""
	if d > 0 {
		tail = " · " + Duration(d)
	}
	if p.o.Rewrite && p.last == tool && tool.announced && !p.open {
		p.write("\x1b[1A\r\x1b[2K")
	}
	lines := append([]string{p.toolLine(tool, mark, tail)}, output...)
	p.emit(unit{lane: tool.lane, group: groupWork, lines: lines})
}

// outputLines returns the beginning of a tool's output. That of a successful
// subagent is its last text, which its own lines have shown.
func (p *Printer) outputLines(tool *block, b event.Block) []string {
	if p.lanes[b.ToolUseID] != nil && (b.IsError == nil || !*b.IsError) {
		return nil
	}
	text := strings.Trim(clean(outputText(b.Output)), "\n")
	if text == "" {
		return nil
	}
	all := strings.Split(text, "\n")
	shown := all[:min(len(all), p.o.OutputLines)]
	var lines []string
	for _, line := range shown {
		line = strings.ReplaceAll(line, "\t", "    ")
		lines = append(lines, p.paint(dim, "  "+cut(line, p.room(tool.lane)-2)))
	}
	if more := len(all) - len(shown); more > 0 {
		lines = append(lines, p.paint(dim, fmt.Sprintf("  … %d more lines", more)))
	}
	return lines
}

// spawned starts a subagent. Its tool's line is its head if there is one.
func (p *Printer) spawned(parent *lane, e event.SubagentSpawned) {
	p.spawn(parent, e)
	if tool := p.tools[e.ToolUseID]; tool != nil && tool.announced && e.ChildSessionID == "" {
		return
	}
	p.emit(unit{lane: parent, group: groupWork, lines: []string{p.agentHead(parent, e)}})
}

func (p *Printer) agentHead(parent *lane, e event.SubagentSpawned) string {
	what := oneLine(cmp.Or(e.Description, e.Prompt))
	if e.ChildSessionID != "" {
		what = strings.TrimSpace("session " + oneLine(e.ChildSessionID) + "  " + what)
	}
	label := p.lanes[e.ToolUseID].label
	if what == label {
		what = ""
	}
	room := p.room(parent) - width(markAgent) - width(label) - 2
	return p.paint(cyan, markAgent) + strings.TrimRight(p.paint(bold, label)+"  "+cut(what, max(8, room)), " ")
}

// completed ends a subagent, unless its tool's result has just shown that or is
// still to come. The result of one in the background came long ago.
func (p *Printer) completed(parent *lane, e event.SubagentCompleted) {
	l := p.lanes[e.ToolUseID]
	if l != nil {
		p.endText(l)
	}
	tool := p.tools[e.ToolUseID]
	shown := l != nil && l.resultShown || tool != nil && !tool.resulted
	if l == nil || shown && e.ChildSessionID == "" {
		return
	}
	mark, color := markOK, green
	if e.Status != event.SubagentCompletedOK {
		mark, color = markFailed, red
	}
	tail := ""
	if e.DurationMS != nil {
		tail = " · " + Duration(time.Duration(*e.DurationMS)*time.Millisecond)
	}
	line := p.paint(color, mark) + p.paint(bold, l.label) + " is done" + p.paint(dim, tail)
	p.emit(unit{lane: parent, group: groupWork, lines: []string{line}})
}
