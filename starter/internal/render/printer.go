package render

import (
	"bufio"
	"io"
	"math"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// Options of a [Printer]. The zero value suits a pipe.
type Options struct {
	// Color turns colours on. Default: none.
	Color bool
	// Width is the terminal's width in columns: long lines that are not the
	// answer itself are cut or wrapped there, and a permission request is
	// wrapped. Default: 0, which neither wraps nor cuts.
	Width int
	// Rewrite lets the line of a running tool be replaced by its result, for
	// terminals. Default: lines are only added.
	Rewrite bool
	// OutputLines is how much of a tool's output is shown. Default: 5.
	OutputLines int
	// Interactive leaves out how to answer a permission request from elsewhere.
	// Default: it is shown.
	Interactive bool
}

// Printer shows events as they arrive. It keeps what it needs to distinguish
// running from finished tools, not the conversation. Not safe for concurrent use.
type Printer struct {
	w   *bufio.Writer
	o   Options
	err error

	main   *lane
	lanes  map[string]*lane
	labels map[string]int
	blocks map[key]*block
	tools  map[string]*block
	// typed are messages that the person has already on the screen.
	typed []string
	// lastError is not printed twice.
	lastError string

	// The screen. holder is the block whose text is being shown, open means that its
	// line has not ended yet, and held is what waits for that.
	holder *block
	open   bool
	held   []unit
	// waiting are the blocks with text that waits for the end of its own line.
	waiting []*block
	// group is the kind of what was shown last, for blank lines between kinds.
	group string
	// last is the tool whose line is the last on the screen.
	last *block
}

// key names a block: ids are unique within a conversation.
type key struct{ conversation, id string }

// block is the state of a block that was started.
type block struct {
	lane *lane
	typ  event.BlockType
	// seen is the text so far, while it may still change.
	seen strings.Builder
	done bool
	// lost means that the agent has withdrawn the block, or died before it stored it.
	lost bool
	// blank counts line ends that are shown only if text follows; started says
	// that some text was shown, pending is text that waits for its line's end.
	blank   int
	started bool
	pending string

	tool      event.Block
	announced bool
	resulted  bool
	begun     time.Time
}

// unit is some whole lines that are shown together.
type unit struct {
	lane  *lane
	group string
	lines []string
	// tool is set when the one line is that of a running tool.
	tool *block
}

// The kinds that are separated by a blank line.
const (
	groupUser  = "user"
	groupThink = "think"
	groupText  = "text"
	groupWork  = "work"
	groupNote  = "note"
	groupNext  = "next"
)

// maxHeld is how many units wait for a line's end before they break it.
const maxHeld = 8

// New returns a printer.
func New(w io.Writer, o Options) *Printer {
	if o.OutputLines == 0 {
		o.OutputLines = 5
	}
	p := &Printer{
		w: bufio.NewWriter(w), o: o, main: &lane{id: event.Main},
		labels: map[string]int{}, blocks: map[key]*block{}, tools: map[string]*block{},
	}
	p.lanes = map[string]*lane{event.Main: p.main}
	return p
}

// Midline reports whether a line is shown whose end is still to come.
func (p *Printer) Midline() bool { return p.open }

// Flush ends what is open and shows what is held back. It returns the first write
// error, if there was one.
func (p *Printer) Flush() error {
	p.endLine()
	p.holder = nil
	p.release()
	return p.push()
}

// Typed records that the person has typed a message with this text, and the line
// end after it: its block is not shown again.
func (p *Printer) Typed(text string) {
	p.typed = append(p.typed, text)
	p.Moved()
}

// Moved records that something else was written to the screen, up to a line's
// end: no line above may be rewritten, and none is open.
func (p *Printer) Moved() { p.last, p.open = nil, false }

// Break ends an open line, so that something else can be written.
func (p *Printer) Break() {
	p.endLine()
	p.release()
	_ = p.push() // an error is kept for Flush
}

func (p *Printer) push() error {
	if err := p.w.Flush(); p.err == nil {
		p.err = err
	}
	return p.err
}

// write is the one place that writes text; an error is kept for Flush.
func (p *Printer) write(s string) {
	if _, err := p.w.WriteString(s); p.err == nil {
		p.err = err
	}
}

// emit shows a unit now, or when the open line has ended.
func (p *Printer) emit(u unit) {
	u.lane.resultShown = false
	if p.open && p.holder.lane != u.lane {
		p.held = append(p.held, u)
		if len(p.held) <= maxHeld {
			return
		}
		p.endLine()
		p.release()
		return
	}
	p.endLine()
	p.release()
	p.put(u)
}

// release shows what was held back, in order.
func (p *Printer) release() {
	held := p.held
	p.held = nil
	for _, u := range held {
		p.put(u)
	}
}

func (p *Printer) put(u unit) {
	p.separate(u.group)
	gutter := p.gutter(u.lane)
	for _, line := range u.lines {
		for _, piece := range p.fit(u.lane, line) {
			p.write(gutter + piece + "\n")
		}
	}
	p.last = u.tool
}

// fit wraps a subagent's line, so that the terminal does not break it without its
// name. Coloured lines are not wrapped: they are cut when they are made.
func (p *Printer) fit(l *lane, line string) []string {
	if p.o.Width == 0 || l == p.main || strings.Contains(line, "\x1b") {
		return []string{line}
	}
	return wrap(line, p.room(l))
}

// separate puts a blank line between kinds.
func (p *Printer) separate(group string) {
	if p.group != "" && p.group != group {
		p.write("\n")
		p.last = nil
	}
	p.group = group
}

func (p *Printer) endLine() {
	if p.open {
		p.write("\n")
		p.open = false
	}
}

// room returns the number of columns for a line of a conversation.
func (p *Printer) room(l *lane) int {
	if p.o.Width == 0 {
		return math.MaxInt / 2 // sums of columns must not overflow
	}
	return max(20, p.o.Width-1-width(l.plainGutter()))
}
