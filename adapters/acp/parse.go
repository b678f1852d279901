package acp

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/acp"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// Parse translates the records that are a session's transcript, in whole blocks.
// The program's own files have no events.
func (*Adapter) Parse(sources []adapters.Source) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		tr, err := acp.New(newDialect(), adapters.Launch{}, nil)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		p := &parser{Yielder: emit.Yielder{Yield: yield}, tr: tr, texts: map[string]*text{}}
		for _, src := range sources {
			if src.ID == event.Main && !p.Stopped {
				p.read(src)
			}
		}
		p.end("exit (end of records)")
		p.Emit(event.Main, event.SessionIdle{})
		p.flush()
	}
}

// parser steps through records and holds back a turn's events until it is known
// which of them are final.
type parser struct {
	emit.Yielder
	emit.Emitter
	tr      *acp.Translator
	started bool // a process was started
	texts   map[string]*text
}

// text is a block that arrives in pieces.
type text struct {
	at     int // its index in the events
	pieces strings.Builder
}

func (p *parser) read(src adapters.Source) {
	in, err := lines.Open(Name, src)
	if err != nil {
		p.Fault(err)
		return
	}
	defer in.Close()
	in.Each(func() bool { return !p.Stopped }, p.line, p.Fault)
}

func (p *parser) line(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var r traffic.Record
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if opensProcess(r) {
		if p.started {
			p.end("exit (another process begins)")
		}
		p.started = true
	}
	p.step(r)
	return nil
}

// opensProcess reports whether a record is the first line to a new process.
func opensProcess(r traffic.Record) bool {
	if r.Dir != event.DirIn || !strings.Contains(r.Line, `"initialize"`) {
		return false
	}
	var m struct{ Method string }
	return json.Unmarshal([]byte(r.Line), &m) == nil && m.Method == "initialize"
}

// end adds the end of a process, which its recorder could not record.
func (p *parser) end(how string) {
	p.step(traffic.Record{TS: p.Time, Dir: event.DirSig, Line: how})
	p.flush()
}

func (p *parser) step(r traffic.Record) {
	p.Time = r.TS
	for _, e := range p.tr.Step(r) {
		switch e := e.Payload.(type) {
		case event.BlockUpsert:
			p.upsert(e.Block)
		case event.BlockDelta:
			p.texts[e.BlockID].pieces.WriteString(e.Delta)
		case event.Native:
			p.Emit(event.Main, e)
		case event.Error:
			if e.Code == "malformed" {
				p.Emit(event.Main, e)
			}
		case event.SessionIdle:
			p.flush()
		}
	}
}

// upsert adds a block. A text has one event, whose content is set last.
func (p *parser) upsert(b event.Block) {
	known := p.texts[b.ID]
	switch {
	case string(b.Metadata["lost"]) == "true":
		p.drop(b.ID)
	case known != nil:
		known.merge(&p.Events[known.at], b)
	case b.Type == event.BlockAssistantText || b.Type == event.BlockThinking:
		p.texts[b.ID] = &text{at: len(p.Events)}
		p.Emit(event.Main, event.BlockUpsert{Block: b})
	default:
		p.Emit(event.Main, event.BlockUpsert{Block: b})
	}
}

func (t *text) merge(e *event.Event, b event.Block) {
	held := e.Payload.(event.BlockUpsert)
	held.Block.Status = b.Status
	e.Payload = held
}

// drop discards what was held of a block.
func (p *parser) drop(id string) {
	for i, e := range p.Events {
		if u, is := e.Payload.(event.BlockUpsert); is && u.Block.ID == id {
			p.Events[i].Payload = nil
		}
	}
}

// flush yields the held events.
func (p *parser) flush() {
	for _, t := range p.texts {
		if u, is := p.Events[t.at].Payload.(event.BlockUpsert); is {
			u.Block.Content = new(t.pieces.String())
			p.Events[t.at].Payload = u
		}
	}
	clear(p.texts)
	p.Events = slices.DeleteFunc(p.Events, func(e event.Event) bool { return e.Payload == nil })
	p.Flush(&p.Emitter)
}
