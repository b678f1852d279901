package render

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

func (p *Printer) upsert(l *lane, b event.Block, at time.Time) {
	k := key{l.id, b.ID}
	known := p.blocks[k]
	if known != nil && known.recreatedBy(b) {
		p.finish(known)
		known = nil
	}
	if known == nil {
		known = &block{lane: l, typ: b.Type, begun: at}
		p.blocks[k] = known
	}
	known.noteLost(b)
	switch known.typ {
	case event.BlockAssistantText, event.BlockThinking:
		p.textBlock(known, b)
	case event.BlockUserMessage:
		p.userBlock(known, b)
	case event.BlockToolUse:
		p.toolUse(known, b)
	case event.BlockToolResult:
		p.toolResult(known, b, at)
	case event.BlockSystem, event.BlockError, event.BlockSkillLoad:
		p.small(known, b)
	}
}

// recreatedBy reports whether given creates a lost block again, as the reducer does: the
// agent emits it anew, and what was shown of it is not valid any more. A user's message is
// the same in both, so it is not shown twice.
func (b *block) recreatedBy(given event.Block) bool {
	begins := given.Type != "" && (given.Status == event.StatusPending || given.Status == event.StatusComplete)
	return begins && b.lost && !reducer.Lost(given) && b.typ != event.BlockUserMessage
}

func (b *block) noteLost(given event.Block) {
	if _, marked := given.Metadata["lost"]; marked {
		b.lost = reducer.Lost(given)
	}
}

// small shows blocks that take one line.
func (p *Printer) small(known *block, b event.Block) {
	if known.done {
		return
	}
	known.done = true
	text := ""
	if b.Message != nil {
		text = *b.Message
	}
	switch known.typ {
	case event.BlockError:
		p.fault(known.lane, text)
	case event.BlockSystem:
		p.note(known.lane, dim, "· "+cmp.Or(text, b.Subtype))
	case event.BlockSkillLoad:
		p.note(known.lane, dim, "+ skill "+b.SkillName)
	}
}

func (p *Printer) userBlock(known *block, b event.Block) {
	text := userText(b)
	if known.done || text == "" {
		return
	}
	known.done = true
	if i := slices.Index(p.typed, text); i >= 0 && known.lane == p.main {
		p.typed = slices.Delete(p.typed, i, i+1)
		p.group = groupUser
		return
	}
	var lines []string
	mark := "› "
	for line := range strings.SplitSeq(strings.Trim(clean(text), "\n"), "\n") {
		lines = append(lines, p.paint(user, mark)+p.paint(bold, line))
		mark = "  "
	}
	p.emit(unit{lane: known.lane, group: p.groupOf(known), lines: lines})
}

// groupOf keeps a subagent's lines together, with no blank lines between.
func (p *Printer) groupOf(b *block) string {
	if b.lane != p.main {
		return groupWork
	}
	switch b.typ {
	case event.BlockUserMessage:
		return groupUser
	case event.BlockThinking:
		return groupThink
	case event.BlockAssistantText:
		return groupText
	}
	return groupWork
}

func (p *Printer) delta(l *lane, d event.BlockDelta) {
	b := p.blocks[key{l.id, d.BlockID}]
	if b == nil || b.done || b.typ != event.BlockAssistantText && b.typ != event.BlockThinking {
		return
	}
	b.seen.WriteString(d.Delta)
	p.text(b, d.Delta)
}

// textBlock shows the part of a block that was not shown yet. A block that was
// rewritten is shown again from its beginning.
func (p *Printer) textBlock(known *block, b event.Block) {
	if known.done {
		return
	}
	if b.Content != nil {
		rest, follows := strings.CutPrefix(*b.Content, known.seen.String())
		if !follows {
			p.finish(known)
			known.done, known.started, known.blank = false, false, 0
			known.seen.Reset()
			rest = *b.Content
		}
		known.seen.WriteString(rest)
		p.text(known, rest)
	}
	switch b.Status {
	case event.StatusComplete:
		p.finish(known)
	case event.StatusError:
		p.text(known, " … (lost)")
		p.finish(known)
	}
}

// text shows a block's text as it arrives, or holds it back while another
// conversation has an open line.
func (p *Printer) text(b *block, s string) {
	s = clean(s)
	if p.open && p.holder != b {
		if p.holder.lane != b.lane {
			p.textLater(b, s)
			return
		}
		p.endLine()
		p.release()
	}
	p.holder = b
	s, b.pending = b.pending+s, ""
	for s != "" {
		line, rest, ended := strings.Cut(s, "\n")
		p.textPiece(b, line)
		if ended && b.started {
			p.endLine()
			p.release()
			b.blank++
		}
		s = rest
	}
}

// textPiece shows a piece of one line.
func (p *Printer) textPiece(b *block, piece string) {
	if piece == "" {
		return
	}
	if !p.open {
		p.beginLine(b)
	}
	p.write(p.paint(textStyle(b), piece))
	p.last = nil
}

func (p *Printer) beginLine(b *block) {
	if !b.started && b.lane == p.main && p.group == p.groupOf(b) {
		p.group = groupNext // texts that follow each other are two paragraphs
	}
	p.separate(p.groupOf(b))
	gutter := p.gutter(b.lane)
	for range b.blank - 1 {
		p.write(strings.TrimRight(gutter, " ") + "\n")
	}
	p.write(gutter + p.paint(textStyle(b), mark(b)))
	b.blank, b.started, p.open = 0, true, true
	b.lane.resultShown = false
}

func textStyle(b *block) style {
	if b.typ == event.BlockThinking {
		return italic
	}
	return plain
}

// mark returns the beginning of a line: thinking has a sign and then an indent.
func mark(b *block) string {
	switch {
	case b.typ != event.BlockThinking:
		return ""
	case b.started:
		return "  "
	}
	return "∴ "
}

// textLater holds text back and passes on its whole lines.
func (p *Printer) textLater(b *block, s string) {
	if b.pending == "" {
		p.waiting = append(p.waiting, b)
	}
	b.pending += s
	whole, rest, found := cutLast(b.pending, "\n")
	if found {
		b.pending = rest
		p.emitText(b, whole)
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func (p *Printer) emitText(b *block, text string) {
	if !b.started {
		text = strings.TrimLeft(text, "\n")
	}
	if text == "" {
		return
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, p.paint(textStyle(b), mark(b)+line))
		b.started = true
	}
	p.emit(unit{lane: b.lane, group: p.groupOf(b), lines: lines})
}

// finish ends a text block.
func (p *Printer) finish(b *block) {
	if b.pending != "" {
		pending := strings.TrimRight(b.pending, "\n")
		b.pending = ""
		p.emitText(b, pending)
	}
	if p.holder == b {
		p.endLine()
		p.holder = nil
		p.release()
	}
	b.done = true
	b.seen.Reset()
}

// endText ends the text of a conversation that has become idle; nil means all.
func (p *Printer) endText(l *lane) {
	waiting := p.waiting
	p.waiting = nil
	for _, b := range waiting {
		switch {
		case b.done:
		case l != nil && b.lane != l:
			p.waiting = append(p.waiting, b)
		default:
			p.finish(b)
		}
	}
	if p.holder != nil && (l == nil || p.holder.lane == l) {
		p.finish(p.holder)
	}
}
