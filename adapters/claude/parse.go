package claude

import (
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/event"
)

// Parse turns transcripts into events. Several files are merged by the time of
// their lines, a subagent's not before the call that started it, so that the
// subagents are in the order of the live stream. A file is open only while it is
// read.
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
	// reading are the files whose conversation is known, in the order of the
	// sources; waiting are the others.
	reading, waiting []*file
	// hasMain: the session's own file is among the sources.
	hasMain bool
	// looked is the value of started when waiting was last checked.
	looked int
}

func (p *parser) open(sources []adapters.Source) {
	links := p.readLinks(sources)
	warm := linkByCalls(sources, links)
	for i, src := range sources {
		if strings.HasSuffix(src.ID, metaID) || warm[src.ID] {
			continue
		}
		f := &file{Transcript: src.Transcript, source: src, rank: i, link: links[src.ID]}
		if src.ID == event.Main {
			p.hasMain = true
			p.begin(f, event.Main)
			continue
		}
		p.waiting = append(p.waiting, f)
	}
	for _, agentID := range slices.Sorted(maps.Keys(links)) {
		p.Early[links[agentID].ToolUseID] = agentID
	}
}

// begin opens a file whose conversation is known.
func (p *parser) begin(f *file, conversation string) {
	f.conversation = conversation
	if err := f.open(); err != nil {
		p.Fail(&p.Emitter, err)
		return
	}
	at, _ := slices.BinarySearchFunc(p.reading, f, func(a, b *file) int { return a.rank - b.rank })
	p.reading = slices.Insert(p.reading, at, f)
	p.advance(f)
}

func (p *parser) close() {
	for _, f := range p.reading {
		f.in.Close()
	}
}

// readLinks reads the companion files: agent → the call that started it.
func (p *parser) readLinks(sources []adapters.Source) map[string]link {
	links := map[string]link{}
	for _, src := range sources {
		agentID, isMeta := strings.CutSuffix(src.ID, metaID)
		if !isMeta {
			continue
		}
		l, err := readLink(src)
		if errors.Is(err, io.EOF) {
			continue // the program was killed between creating and writing it: the calls name the agent too
		}
		if err != nil {
			p.Fail(&p.Emitter, err)
			continue
		}
		links[agentID] = l
	}
	return links
}

// readAll reads the files to their ends, and reports whether the reader of the
// events wants more.
func (p *parser) readAll() bool {
	for !p.Stopped {
		f := p.earliest()
		if f == nil {
			return true
		}
		p.Time = f.time
		p.line(f.conversation, &f.next)
		p.Flush(&p.Emitter)
		p.advance(f)
		p.beginStarted()
	}
	return false
}

// earliest returns the file whose next line is the oldest; of equals, the first.
// If only subagents of unknown origin are left, the first of them becomes a
// conversation under its own name.
func (p *parser) earliest() *file {
	for len(p.reading) == 0 && len(p.waiting) > 0 && !p.Stopped {
		f := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.emitOrphan(f)
	}
	var first *file
	for _, f := range p.reading {
		if first == nil || f.time.Before(first.time) {
			first = f
		}
	}
	return first
}

// beginStarted begins the files of subagents whose call has been read.
func (p *parser) beginStarted() {
	if p.started == p.looked || len(p.waiting) == 0 {
		return
	}
	p.looked = p.started
	waiting := p.waiting
	p.waiting = nil
	for _, f := range waiting {
		if conversation := p.startedBy(f); conversation != "" {
			p.begin(f, conversation)
			continue
		}
		p.waiting = append(p.waiting, f)
	}
}

// startedBy returns the call that started a subagent, once the call has been
// read.
func (p *parser) startedBy(f *file) string {
	if f.link.ToolUseID != "" {
		if p.Agents[f.link.ToolUseID] != nil {
			return f.link.ToolUseID
		}
		return ""
	}
	for _, toolUseID := range slices.Sorted(maps.Keys(p.Agents)) {
		if p.Agents[toolUseID].ID == f.ID {
			return toolUseID
		}
	}
	return ""
}

// emitOrphan emits a subagent whose start is in no file. If the session's own file is
// there without the call, the program died before it wrote the call, and the
// subagent with it.
func (p *parser) emitOrphan(f *file) {
	conversation := f.link.ToolUseID
	if conversation == "" {
		conversation = agentPrefix + f.ID
	}
	delete(p.Early, conversation)
	p.begin(f, conversation)
	if p.Stopped || len(p.reading) == 0 {
		return // there is nothing to emit
	}
	p.Time = f.time
	a := &agent{Conversation: event.Main, ID: f.ID, Prompt: f.next.Message.text(), Adopted: true}
	a.Cut = p.hasMain && f.link.ToolUseID != ""
	p.Emit(event.Main, event.SubagentSpawned{
		ToolUseID: conversation, AgentID: f.ID, Prompt: a.Prompt,
		SubagentType: f.link.AgentType, Description: f.link.Description,
	})
	p.Agents[conversation] = a
	if a.Prompt != "" {
		p.userMessage(conversation, promptOf(conversation), []part{{Type: "text", Text: a.Prompt}})
	}
}

// advance reads the next valid line of a file, and closes the file at its end.
func (p *parser) advance(f *file) {
	for !p.Stopped {
		more, err := f.advance()
		if err != nil {
			p.Fail(&p.Emitter, err)
		}
		if more && err == nil {
			return
		}
		if !more {
			break
		}
	}
	p.reading = slices.DeleteFunc(p.reading, func(g *file) bool { return g == f })
	f.in.Close()
}

// finish closes what the files leave open.
func (p *parser) finish() {
	p.flushCommand(event.Main)
	p.endOpen()
	p.Emit(event.Main, event.SessionIdle{})
	p.Flush(&p.Emitter)
}
