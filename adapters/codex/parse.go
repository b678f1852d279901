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

// Parse turns rollouts into events. Several are merged by time, a subagent's not
// before the call that started it, so that the subagents are in the order of the
// live stream.
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
	ready []turnPart
	turn  reading
	// size is that of the line being read.
	size int
	// plain: `codex exec` wrote it.
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

// readAll emits the files to their ends, and reports whether the reader of the
// events wants more.
func (p *parser) readAll() bool {
	for !p.Stopped {
		f := p.earliest()
		if f == nil {
			return true
		}
		t := f.ready[0]
		f.ready = f.ready[1:]
		p.Time, p.plain = t.time(), f.plain
		t.emit(&p.emitter, p.thread(f.ID), f.ID)
		p.Flush(&p.Emitter)
		p.advance(f)
	}
	return false
}

// earliest returns the file whose next part is the oldest; of equals, the first.
// If only subagents of unknown origin are left, the first of them becomes a
// conversation under its own name. If the session's own file is there, a subagent
// without a call in it is left out: the program died before it wrote the call.
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

// advance reads until there is something to emit.
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

// finish closes what the files leave open.
func (p *parser) finish() {
	p.endThreads(false)
	p.Emit(event.Main, event.SessionIdle{})
	p.Flush(&p.Emitter)
}

// turnPart is one part of a turn, with its place in time.
type turnPart struct {
	at int64
	// late, rank and phase order what happened in the same millisecond.
	late  int
	rank  int
	phase int
	// item is the id of its item.
	item string
	// size is that of its line.
	size int
	emit func(s *emitter, th *thread, id string)
}

func (t turnPart) time() time.Time {
	if t.at <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(t.at).UTC()
}

func (t turnPart) compare(u turnPart) int {
	return slices.Compare([]int64{t.at, int64(t.late), int64(t.rank), int64(t.phase)},
		[]int64{u.at, int64(u.late), int64(u.rank), int64(u.phase)})
}
