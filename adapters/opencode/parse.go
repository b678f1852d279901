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

// Parse turns a database into events: the agent's own, with its write-ahead log
// if that is beside it, or one that was exported as lines. The output of
// `opencode export` and the server's list of messages can be read too.
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

// source emits one of the sources.
func (p *parser) source(src adapters.Source, all []adapters.Source) {
	b, errs := read(src.Path, all)
	for _, err := range errs {
		p.Fault(err)
	}
	root, err := b.choose(src.Path)
	if err == nil {
		p.emitRoot(b, root)
	}
	if err = errors.Join(err, b.close()); err != nil {
		p.Fault(err)
	}
}

// parser emits snapshots.
type parser struct {
	emitter
	emit.Yielder
	// at is the step that is being emitted.
	at step
}

// emitRoot emits the conversations below a root.
func (p *parser) emitRoot(b *snapshot, root string) {
	if root == "" || p.Stopped {
		return
	}
	p.emitter = newEmitter(newState())
	p.Main = root
	p.thread(root)
	for id, parent := range b.sessions {
		if parent != "" && id != root && b.root(id) == root {
			p.addChild(id, parent)
		}
	}
	prompts := b.prompts(root)
	for _, s := range b.steps(root) {
		p.at, p.Time = s, s.time()
		p.step(b, s, prompts)
		if p.Flush(&p.Emitter); p.Stopped {
			return
		}
	}
	p.at = step{}
	p.endLost(b)
	p.Emit(event.Main, event.SessionIdle{})
	p.Flush(&p.Emitter)
}

// time returns when a step was, as far as the database has it.
func (s step) time() time.Time {
	var ms int64
	switch {
	case s.part == nil:
		ms = s.messageRow.info.Time.Completed
	case s.part.part.State == nil: // also of a part that the log has in another form
		ms = s.part.made
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

// prompts returns the parts of users' messages below a root, in order.
func (b *snapshot) prompts(root string) map[string][]*partRow {
	var entries []*partRow
	for _, e := range b.parts {
		if m := b.messages[e.part.MessageID]; m != nil && m.info.Role == "user" && b.root(e.part.SessionID) == root {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(x, y *partRow) int {
		if x.row != y.row {
			return int(x.row - y.row)
		}
		return strings.Compare(x.part.ID, y.part.ID)
	})
	out := map[string][]*partRow{}
	for _, e := range entries {
		out[e.part.MessageID] = append(out[e.part.MessageID], e)
	}
	return out
}

func (p *parser) step(b *snapshot, s step, prompts map[string][]*partRow) {
	if s.messageRow != nil {
		th := p.thread(s.messageRow.info.SessionID)
		m, _ := th.learn(s.messageRow.info)
		p.failed(th, m, s.messageRow.info.Error)
		return
	}
	q := s.part.part
	th := p.thread(q.SessionID)
	row := b.messages[q.MessageID]
	if row == nil {
		p.emitPart(b, th, &message{ID: q.MessageID, Role: "assistant"}, s)
		return
	}
	m, _ := th.learn(row.info)
	if m.Role != "user" {
		p.emitPart(b, th, m, s)
		return
	}
	if parts := prompts[q.MessageID]; len(parts) > 0 {
		if th.Conversation == event.Main && !strings.HasPrefix(parts[0].part.ID, ofSteered) {
			p.endLost(b) // a subagent's prompt ends nothing of the main conversation
		}
		p.user(b, th, parts)
		delete(prompts, q.MessageID)
	}
}

func (p *parser) emitPart(b *snapshot, th *thread, m *message, s step) {
	q, err := b.whole(s.part)
	if err != nil {
		p.Fault(err)
		return
	}
	p.emitter.emitPhase(th, m, mark{what: s.what, part: q})
	if kind := q.Type; !slices.Contains(partTypes, kind) {
		p.Native(th.Conversation, "", "part/"+kind, nil)
	}
}

// partTypes are the known types of parts of answers.
var partTypes = []string{
	"text", "reasoning", "tool", "step-start", "step-finish", "snapshot", "patch", "agent", "retry", "file", "subtask", "compaction",
}

// user emits a prompt at its first part.
func (p *parser) user(b *snapshot, th *thread, parts []*partRow) {
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

// endLost closes the calls that never end. Their process has ended: they are
// closed before the next prompt that found no agent at work, and at the end.
func (p *parser) endLost(b *snapshot) {
	for _, id := range slices.Sorted(maps.Keys(p.Tools)) {
		if e := b.parts[id]; e == nil || !e.part.State.ended() {
			p.toolLost(id, p.Tools[id])
		}
	}
}

// failure adds the file to an error, and the line if there are lines.
func failure(path string, line int, err error) error {
	if line == 0 {
		return fmt.Errorf("opencode: transcript %s: %w", path, err)
	}
	return fmt.Errorf("opencode: transcript %s: line %d: %w", path, line, err)
}
