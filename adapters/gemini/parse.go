package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
	"github.com/sojourn-run/sojourn/event"
)

// Parse turns chat files into events: the main ones one after the other, each
// subagent's behind the call that started it.
func (*Adapter) Parse(sources []adapters.Source) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		p := newParser(emit.Yielder{Yield: yield})
		mains := p.sort(sources)
		for _, src := range mains {
			if p.Stopped {
				return
			}
			p.main(src)
		}
		p.orphans()
		p.Emit(event.Main, event.SessionIdle{})
		p.Flush(&p.Emitter)
	}
}

// parser reads the files of a session.
type parser struct {
	emit.Yielder
	emit.Emitter
	// prompts counts the prompts of each native session: one may have two files.
	prompts map[string]int
	threads []*thread
}

func newParser(y emit.Yielder) *parser {
	return &parser{Yielder: y, Emitter: emit.Emitter{Agent: Name}, prompts: map[string]int{}}
}

// isMain reports whether a transcript is a main conversation.
func isMain(id string) bool { return id == event.Main || strings.HasPrefix(id, event.Main+".") }

// sort separates the subagents' files, and sorts the main ones.
func (p *parser) sort(sources []adapters.Source) []adapters.Source {
	var mains []adapters.Source
	for _, src := range sources {
		if isMain(src.ID) {
			mains = append(mains, src)
		} else {
			p.threads = append(p.threads, &thread{Source: src})
		}
	}
	slices.SortStableFunc(mains, func(a, b adapters.Source) int { return numberOf(a.ID) - numberOf(b.ID) })
	return mains
}

// at sets the time of what is emitted next.
func (p *parser) at(stamp string) {
	if t := parseTime(stamp); !t.IsZero() {
		p.Time = t
	}
}

// patchMessages is the beginning of a patch that replaces all messages.
const patchMessages = `{"$set":{"messages":`

// legacySuffix is the suffix of a file in one piece, as older versions wrote it.
const legacySuffix = ".json"

// read passes on the records of a file, one by one; of its patches only those of
// the messages, without their content. A broken line costs that line.
func (p *parser) read(src adapters.Source, each func(*record) error) {
	in, err := lines.Open(Name, src)
	if err != nil {
		p.Fail(&p.Emitter, err)
		return
	}
	defer in.Close()
	if strings.HasSuffix(src.Path, legacySuffix) {
		p.readWhole(in, each)
		return
	}
	in.Each(func() bool { return !p.Stopped }, func(line []byte) error {
		err := readLine(line, each)
		p.Flush(&p.Emitter)
		return err
	}, func(err error) { p.Fail(&p.Emitter, err) })
}

func readLine(raw []byte, each func(*record) error) error {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return nil
	case isPatch(raw):
		if !json.Valid(raw) {
			return errors.New("a patch that is no JSON")
		}
		if bytes.HasPrefix(raw, []byte(patchMessages)) {
			return each(&record{Set: raw})
		}
		return nil
	}
	r, err := decodeRecord(raw)
	if err != nil {
		return err
	}
	return each(r)
}

// readWhole reads a file in one piece.
func (p *parser) readWhole(in *lines.Reader, each func(*record) error) {
	data, err := in.Rest()
	var r *record
	if err == nil {
		r, err = decodeRecord(data)
	}
	if err == nil {
		err = each(r)
	}
	if err != nil {
		p.Fail(&p.Emitter, in.At(err))
	}
	p.Flush(&p.Emitter)
}

// main emits one main file.
func (p *parser) main(src adapters.Source) {
	b := &chatLog{parser: p}
	p.read(src, b.record)
	b.endTurn()
	p.Flush(&p.Emitter)
}
