package codex

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
	"github.com/sojourn-run/sojourn/event"
)

// Parse turns rollouts into events. Several are merged by time, a subagent's
// not before the call that started it, so that the subagents come in the order
// in which the live stream has them.
func (*Adapter) Parse(sources []adapters.Source) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		p := &parser{emitter: newEmitter(newState()), Yielder: emit.Yielder{Yield: yield}}
		p.open(sources)
		defer p.close()
		if p.readAll() {
			p.finish()
		}
	}
}

// parser merges the files of a session.
type parser struct {
	emitter
	emit.Yielder
	files []*file
	// hasMain: the session's own file is among them.
	hasMain bool
}

// file is one rollout being read, a turn at a time.
type file struct {
	adapters.Transcript
	in    *lines.Reader
	ended bool
	// ready is what is emitted next, in order.
	ready []told
	turn  reading
	// size is that of the line being read.
	size int
	// plain: `codex exec` made it.
	plain bool
}

func (p *parser) open(sources []adapters.Source) {
	for _, src := range sources {
		in, err := lines.Open(Name, src)
		if err != nil {
			p.Fail(&p.Emitter, err)
			continue
		}
		f := &file{Transcript: src.Transcript, in: in}
		if f.ID == event.Main {
			p.thread(f.ID).Conversation, p.hasMain = event.Main, true
		}
		p.files = append(p.files, f)
		p.advance(f)
	}
}

func (p *parser) close() {
	for _, f := range p.files {
		f.in.Close()
	}
}

// readAll emits the files until nothing is left, and reports whether the reader of
// the events wants more.
func (p *parser) readAll() bool {
	for !p.Stopped {
		f := p.earliest()
		if f == nil {
			return true
		}
		t := f.ready[0]
		f.ready = f.ready[1:]
		p.Time, p.plain = t.time(), f.plain
		t.tell(&p.emitter, p.thread(f.ID), f.ID)
		p.Flush(&p.Emitter)
		p.advance(f)
	}
	return false
}

// earliest is the file whose next part is the oldest; of equals, the first.
// When only subagents of unknown origin are left, the first of them becomes a
// conversation under its own name. The session's own file, if it is there, shows
// none that it has no call of: the program died before it wrote the call.
func (p *parser) earliest() *file {
	var best, orphan *file
	for _, f := range p.files {
		if len(f.ready) == 0 {
			continue
		}
		switch {
		case p.thread(f.ID).Conversation == "":
			if orphan == nil {
				orphan = f
			}
		case best == nil || f.ready[0].at < best.ready[0].at:
			best = f
		}
	}
	if best == nil && orphan != nil {
		p.Time = orphan.ready[0].time()
		if th := p.thread(orphan.ID); p.hasMain {
			th.Conversation, th.Parent = orphan.ID, event.Main
		} else {
			p.spawn(event.Main, orphan.ID, orphan.ID, "")
		}
		return orphan
	}
	return best
}

// advance reads on until there is something to emit.
func (p *parser) advance(f *file) {
	for len(f.ready) == 0 && !f.ended && !p.Stopped {
		raw, err := f.in.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			p.Fail(&p.Emitter, f.in.At(err))
		}
		if err != nil {
			f.ended = true
		}
		if len(bytes.TrimSpace(raw)) > 0 {
			if err := f.line(raw); err != nil {
				p.Fail(&p.Emitter, f.in.At(err))
			}
		}
		if f.ended {
			f.flushTurn(false)
		}
	}
}

// finish settles what the files leave open.
func (p *parser) finish() {
	p.abandon(false)
	p.Emit(event.Main, event.SessionIdle{})
	p.Flush(&p.Emitter)
}

// told is one part of a turn, at its place in time.
type told struct {
	at int64
	// late, rank and phase order what happened in the same millisecond.
	late  int
	rank  int
	phase int
	// item is the item that it is about.
	item string
	// size is that of the line that it was made of.
	size int
	tell func(s *emitter, th *thread, id string)
}

func (t told) time() time.Time {
	if t.at <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(t.at).UTC()
}

func (t told) compare(u told) int {
	return slices.Compare([]int64{t.at, int64(t.late), int64(t.rank), int64(t.phase)},
		[]int64{u.at, int64(u.late), int64(u.rank), int64(u.phase)})
}
