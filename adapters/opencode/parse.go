package opencode

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/event"
)

// Parse turns a database into events: the agent's own, with its write-ahead
// log where that is beside it, or one that was exported as lines. Also what
// `opencode export` and the server's list of messages give is read.
func (*Adapter) Parse(sources []adapters.Source) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		p := &parser{Yielder: emit.Yielder{Yield: yield}}
		for _, src := range sources {
			if src.ID == walID {
				continue
			}
			p.source(src, sources)
		}
	}
}

// source emits what one of the sources says.
func (p *parser) source(src adapters.Source, all []adapters.Source) {
	b, errs := read(src.Path, all)
	for _, err := range errs {
		p.Fault(err)
	}
	root, err := b.choose(src.Path)
	if err == nil {
		p.tell(b, root)
	}
	if err = errors.Join(err, b.close()); err != nil {
		p.Fault(err)
	}
}

// parser emits what books say.
type parser struct {
	emitter
	emit.Yielder
}

// tell emits the conversations below a root.
func (p *parser) tell(b *book, root string) {
	if root == "" || p.Stopped {
		return
	}
	p.emitter = newEmitter(newState())
	p.Main = root
	p.thread(root)
	for id, parent := range b.sessions {
		if parent != "" && id != root && b.root(id) == root {
			p.adopt(id, parent)
		}
	}
	prompts := b.prompts(root)
	for _, s := range b.steps(root) {
		p.Time = s.time()
		p.step(b, s, prompts)
		if p.Flush(&p.Emitter); p.Stopped {
			return
		}
	}
	p.abandonLost(b)
	p.Emit(event.Main, event.SessionIdle{})
	p.Flush(&p.Emitter)
}

// time is when a step was, as far as the database says.
func (s step) time() time.Time {
	var ms int64
	switch {
	case s.part == nil:
		ms = s.page.info.Time.Completed
	case s.what == ends:
		ms = s.part.part.State.Time.End
	case s.what == begins:
		ms = s.part.part.State.Time.Start
	default:
		ms = s.part.made
	}
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// prompts are the parts of users' messages below a root, in order.
func (b *book) prompts(root string) map[string][]*entry {
	var entries []*entry
	for _, e := range b.parts {
		if m := b.messages[e.part.MessageID]; m != nil && m.info.Role == "user" && b.root(e.part.SessionID) == root {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(x, y *entry) int {
		if x.row != y.row {
			return int(x.row - y.row)
		}
		return strings.Compare(x.part.ID, y.part.ID)
	})
	out := map[string][]*entry{}
	for _, e := range entries {
		out[e.part.MessageID] = append(out[e.part.MessageID], e)
	}
	return out
}

func (p *parser) step(b *book, s step, prompts map[string][]*entry) {
	if s.page != nil {
		th := p.thread(s.page.info.SessionID)
		m, _ := th.learn(s.page.info)
		p.failed(th, m, s.page.info.Error)
		return
	}
	q := s.part.part
	th := p.thread(q.SessionID)
	row := b.messages[q.MessageID]
	if row == nil {
		p.tell1(b, th, &message{ID: q.MessageID, Role: "assistant"}, s)
		return
	}
	m, _ := th.learn(row.info)
	if m.Role != "user" {
		p.tell1(b, th, m, s)
		return
	}
	if parts := prompts[q.MessageID]; len(parts) > 0 {
		p.abandonLost(b)
		p.user(b, th, parts)
		delete(prompts, q.MessageID)
	}
}

func (p *parser) tell1(b *book, th *thread, m *message, s step) {
	q, err := b.whole(s.part)
	if err != nil {
		p.Fault(err)
		return
	}
	p.emitter.tell(th, m, mark{what: s.what, part: q})
	if kind := q.Type; !slices.Contains(partTypes, kind) {
		p.Native(th.Conversation, "", "part/"+kind, nil)
	}
}

// partTypes are those of answers that are known.
var partTypes = []string{
	"text", "reasoning", "tool", "step-start", "step-finish", "snapshot", "patch", "agent", "retry", "file", "subtask", "compaction",
}

// user writes a prompt when its first part comes.
func (p *parser) user(b *book, th *thread, parts []*entry) {
	shown := false
	for _, e := range parts {
		q, err := b.whole(e)
		if err != nil {
			p.Fault(err)
			continue
		}
		if q.Type == "compaction" {
			p.compaction(th, q)
			continue
		}
		shown = p.addPrompt(th, q) || shown
	}
	if shown {
		p.showPrompt(th)
	}
}

// abandonLost settles the calls that never end. Their process is gone: they
// come before the next prompt, and at the end.
func (p *parser) abandonLost(b *book) {
	for _, id := range slices.Sorted(maps.Keys(p.Tools)) {
		if e := b.parts[id]; e == nil || !e.part.State.ended() {
			p.toolLost(id, p.Tools[id])
		}
	}
}

// failure names the file, and the line where there are lines.
func failure(path string, line int, err error) error {
	if line == 0 {
		return fmt.Errorf("opencode: transcript %s: %w", path, err)
	}
	return fmt.Errorf("opencode: transcript %s: line %d: %w", path, line, err)
}
