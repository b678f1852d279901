package modelsim

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// part is one piece of an answer, with its timing.
type part interface {
	play(p *player) error
}

type (
	textPart   struct{ text string }
	thinkPart  struct{ text string }
	callPart   struct{ call Call }
	slowPart   struct{ span time.Duration }
	hangPart   struct{ span time.Duration }
	deltasPart struct{ n int }
	bigPart    struct{ n int }
	gatePart   struct{ name string }
	failPart   struct {
		status  int
		message string
	}
	cutPart struct{}
)

type blockKind string

const (
	blockText  blockKind = "text"
	blockThink blockKind = "thinking"
)

// sink is a response in some protocol. Each method is called by one goroutine
// in the order of the answer: open, delta…, shut per block of text; call for a
// tool call. fail and cut end the response.
type sink interface {
	open(kind blockKind) error
	delta(text string) error
	shut() error
	call(c Call) error
	// fail reports an error in the protocol's own form, with the HTTP status
	// if nothing has been sent yet.
	fail(status int, message string) error
	// cut breaks the connection.
	cut() error
	// flush hands what was written to the network.
	flush() error
}

// player performs the parts of one answer.
type player struct {
	ctx   context.Context
	out   sink
	pace  time.Duration
	gates *gates
	// over is set by a part that ended the response.
	over bool
}

// perform plays the parts; over reports whether the response has ended early, by a
// scripted error or cut.
func (p *player) perform(parts []part) (over bool, err error) {
	for _, part := range parts {
		if err := part.play(p); err != nil {
			return true, err
		}
		if p.over {
			return true, nil
		}
	}
	return false, nil
}

func (t textPart) play(p *player) error  { return p.block(blockText, pieces(t.text)) }
func (t thinkPart) play(p *player) error { return p.block(blockThink, pieces(t.text)) }
func (c callPart) play(p *player) error  { return p.out.call(c.call) }

func (f failPart) play(p *player) error {
	p.over = true
	return p.out.fail(f.status, f.message)
}

// cutDelay lets the text before a cut arrive on its own: a reader that gets
// both at once may drop the text and take the answer for one that never began.
// A test that needs certainty puts a GATE before the CUT.
const cutDelay = 100 * time.Millisecond

// The cut comes after some text, so that the reader has begun to rely on it.
func (c cutPart) play(p *player) error {
	p.over = true
	if err := p.out.open(blockText); err != nil {
		return err
	}
	if err := p.say("cut in the "); err != nil {
		return err
	}
	if err := p.wait(cutDelay); err != nil {
		return err
	}
	return p.out.cut()
}

// slow is the rate of SLOW: a word each quarter of a second.
const slow = 250 * time.Millisecond

func (s slowPart) play(p *player) error {
	return p.within(func() error {
		for i := range int(s.span / slow) {
			if err := p.say("tick" + strconv.Itoa(i) + " "); err != nil {
				return err
			}
			if err := p.wait(slow); err != nil {
				return err
			}
		}
		return p.wait(s.span % slow)
	})
}

func (h hangPart) play(p *player) error {
	if err := p.wait(h.span); err != nil {
		return err
	}
	return p.block(blockText, []string{fmt.Sprintf("hung for %v", h.span)})
}

// DELTAS measures readers, so nothing is flushed in between.
func (d deltasPart) play(p *player) error {
	return p.within(func() error {
		for i := range d.n {
			if err := p.out.delta("w" + strconv.Itoa(i) + " "); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b bigPart) play(p *player) error {
	const size = 16 << 10
	line := strings.Repeat("0123456789abcdef", 4)[:63] + "\n"
	chunk := strings.Repeat(line, size/len(line))
	return p.within(func() error {
		for left := b.n; left > 0; left -= min(left, size) {
			if err := p.out.delta(chunk[:min(left, size)]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (g gatePart) play(p *player) error {
	return p.within(func() error {
		if err := p.say("waiting at " + g.name + " "); err != nil {
			return err
		}
		if err := p.gates.pass(p.ctx, g.name); err != nil {
			return err
		}
		return p.say("passed")
	})
}

func (p *player) block(kind blockKind, texts []string) error {
	if err := p.out.open(kind); err != nil {
		return err
	}
	for i, text := range texts {
		if i > 0 {
			if err := p.wait(p.pace); err != nil {
				return err
			}
		}
		if err := p.say(text); err != nil {
			return err
		}
	}
	return p.out.shut()
}

func (p *player) within(body func() error) error {
	if err := p.out.open(blockText); err != nil {
		return err
	}
	if err := body(); err != nil {
		return err
	}
	return p.out.shut()
}

func (p *player) say(text string) error {
	if err := p.out.delta(text); err != nil {
		return err
	}
	return p.out.flush()
}

func (p *player) wait(d time.Duration) error {
	if d <= 0 {
		return p.ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// spaced is a word with the blanks around it.
var spaced = regexp.MustCompile(`\s*\S+\s*`)

// pieces cuts a text at blanks into about four parts, as a model streams it.
func pieces(text string) []string {
	words := spaced.FindAllString(text, -1)
	if len(words) < 2 {
		return []string{text}
	}
	n := max(1, len(words)/3)
	var out []string
	for ; len(words) > n; words = words[n:] {
		out = append(out, strings.Join(words[:n], ""))
	}
	return append(out, strings.Join(words, ""))
}
