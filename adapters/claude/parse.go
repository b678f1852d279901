package claude

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Parse turns transcripts into events. Several files are merged by the time of
// their lines, a subagent's not before the call that started it, so that the
// subagents come in the order in which the live stream told of them.
func (*Adapter) Parse(sources []adapters.Source) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		p := &parser{scribe: scribe{state: newState()}, yield: yield}
		p.open(sources)
		defer p.close()
		if p.readAll() {
			p.finish()
		}
	}
}

// parser merges the files of a session.
type parser struct {
	scribe
	yield   func(event.Event, error) bool
	files   []*file
	stopped bool
}

// file is one transcript being read.
type file struct {
	adapters.Transcript
	// conversation is "" until the call that started the subagent is found.
	conversation string
	// linked: the companion file names the call.
	linked string
	in     io.ReadCloser
	lines  *bufio.Reader
	number int
	next   *line
	time   time.Time
	ended  bool
	// seen are the lines read, by a hash of their uuid: a compaction writes
	// the lines that it keeps once more.
	seen map[[16]byte]struct{}
}

// repeats says whether a line has been read before.
func (f *file) repeats(l *line) bool {
	if l.UUID == "" {
		return false
	}
	h := fnv.New128a()
	_, _ = io.WriteString(h, l.UUID) // a hash takes everything
	id := [16]byte(h.Sum(nil))
	_, before := f.seen[id]
	f.seen[id] = struct{}{}
	return before
}

func (p *parser) open(sources []adapters.Source) {
	links := p.readLinks(sources)
	for _, src := range sources {
		if strings.HasSuffix(src.ID, metaID) {
			continue
		}
		in, err := src.Open()
		if err != nil {
			p.fail(fmt.Errorf("claude: open transcript %s: %w", src.Path, err))
			continue
		}
		f := &file{Transcript: src.Transcript, in: in, lines: bufio.NewReaderSize(in, 1<<16),
			linked: links[src.ID], seen: map[[16]byte]struct{}{}}
		if src.ID == event.Main {
			f.conversation = event.Main
		}
		p.files = append(p.files, f)
		p.advance(f)
	}
	for _, agentID := range slices.Sorted(maps.Keys(links)) {
		p.Early[links[agentID]] = agentID
	}
}

func (p *parser) close() {
	for _, f := range p.files {
		_ = f.in.Close() // nothing was written
	}
}

// readLinks reads the companion files: agent → the call that started it.
func (p *parser) readLinks(sources []adapters.Source) map[string]string {
	links := map[string]string{}
	for _, src := range sources {
		agentID, isMeta := strings.CutSuffix(src.ID, metaID)
		if !isMeta {
			continue
		}
		toolUseID, err := readLink(src)
		if err != nil {
			p.fail(err)
			continue
		}
		links[agentID] = toolUseID
	}
	return links
}

// maxMeta bounds a companion file, which holds a few short fields.
const maxMeta = 1 << 20

func readLink(src adapters.Source) (string, error) {
	in, err := src.Open()
	if err != nil {
		return "", fmt.Errorf("claude: open %s: %w", src.Path, err)
	}
	defer in.Close()
	var meta struct {
		ToolUseID string `json:"toolUseId"`
	}
	if err := json.NewDecoder(io.LimitReader(in, maxMeta)).Decode(&meta); err != nil {
		return "", fmt.Errorf("claude: read %s: line 1: %w", src.Path, err)
	}
	return meta.ToolUseID, nil
}

// readAll reads the files until nothing is left, and says whether the reader
// of the events wants more.
func (p *parser) readAll() bool {
	for !p.stopped {
		f := p.earliest()
		if f == nil {
			return true
		}
		l := f.next
		p.time = f.time
		if err := p.line(f.conversation, l); err != nil {
			p.fail(f.errorAt(err))
		}
		p.flush()
		p.advance(f)
		if f.ended {
			p.files = slices.DeleteFunc(p.files, func(g *file) bool { return g == f })
			_ = f.in.Close() // nothing was written
		}
	}
	return false
}

// earliest is the file whose next line is the oldest; of equals, the first.
// When only subagents of unknown origin are left, the first of them becomes a
// conversation under its own name.
func (p *parser) earliest() *file {
	var first, orphan *file
	for _, f := range p.files {
		if f.ended {
			continue
		}
		if f.conversation == "" {
			f.conversation = p.startedBy(f)
		}
		switch {
		case f.conversation == "":
			if orphan == nil {
				orphan = f
			}
		case first == nil || f.time.Before(first.time):
			first = f
		}
	}
	if first == nil && orphan != nil {
		p.adopt(orphan)
		return orphan
	}
	return first
}

// startedBy is the call that started a subagent, once the call has been read.
func (p *parser) startedBy(f *file) string {
	if f.linked != "" {
		if p.Agents[f.linked] != nil {
			return f.linked
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

// adopt shows a subagent whose start is in no file.
func (p *parser) adopt(f *file) {
	f.conversation = f.linked
	if f.conversation == "" {
		f.conversation = agentPrefix + f.ID
	}
	delete(p.Early, f.conversation)
	p.time = f.time
	p.emit(event.Main, event.SubagentSpawned{ToolUseID: f.conversation, AgentID: f.ID})
	p.Agents[f.conversation] = &agent{Conversation: event.Main, ID: f.ID, Adopted: true}
}

// advance reads the next good line of a file.
func (p *parser) advance(f *file) {
	f.next = nil
	for f.next == nil && !f.ended && !p.stopped {
		raw, err := f.lines.ReadBytes('\n')
		f.number++
		if err != nil && !errors.Is(err, io.EOF) {
			f.ended = true
			p.fail(f.errorAt(err))
			return
		}
		f.ended = err != nil && len(raw) == 0
		if len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		l, err := decodeLine(raw)
		if err != nil {
			p.fail(f.errorAt(err))
			continue
		}
		if f.repeats(l) {
			continue
		}
		f.next = l
		if !l.Timestamp.IsZero() {
			f.time = l.Timestamp
		}
	}
}

func (f *file) errorAt(err error) error {
	return fmt.Errorf("claude: transcript %s: line %d: %w", f.Path, f.number, err)
}

// fail hands an error on; the reading goes on behind it.
func (p *parser) fail(err error) {
	p.flush()
	if !p.stopped && !p.yield(event.Event{}, err) {
		p.stopped = true
	}
}

func (p *parser) flush() {
	for _, e := range p.out {
		if p.stopped || !p.yield(e, nil) {
			p.stopped = true
			break
		}
	}
	p.out = p.out[:0]
}

// finish settles what the files leave open.
func (p *parser) finish() {
	p.flushCommand(event.Main)
	p.abandon()
	p.emit(event.Main, event.SessionIdle{})
	p.flush()
}

// line writes what a transcript line says. Most of what is in a transcript is
// not conversation: what the model was told of tools, modes and titles.
func (p *parser) line(conversation string, l *line) error {
	switch l.Type {
	case "assistant":
		return p.assistant(conversation, l)
	case "user":
		return p.userLine(conversation, l)
	case "system":
		p.systemLine(conversation, l)
	case "attachment":
		return p.attached(conversation, l)
	case "queue-operation":
		if text := plainString(l.Content); strings.HasPrefix(text, markNotification) {
			p.notification(text)
		}
	default:
		if !slices.Contains(bookkeeping, l.Type) {
			p.native(conversation, "", l.kind(), l.raw)
		}
	}
	return nil
}

// bookkeeping are line types that say nothing about the conversation.
var bookkeeping = []string{
	"last-prompt", "mode", "custom-title", "ai-title", "agent-name", "summary", "tag",
	"file-history-snapshot", "permission-mode", "pr-link", "progress",
}

func (p *parser) userLine(conversation string, l *line) error {
	l.asked = l.PromptSource != "" && (len(l.Origin) == 0 || string(l.Origin) == "null")
	if l.Message != nil && conversation == event.Main && !l.asked && p.command(l, plainString(l.Message.Content)) {
		return nil
	}
	rest, err := p.user(conversation, l)
	if err != nil || rest == nil {
		return err
	}
	p.flushCommand(conversation)
	id := l.UUID
	if a := p.Agents[conversation]; a != nil && a.Adopted && !a.Prompted {
		a.Prompted = true
		id = promptOf(conversation)
	}
	p.userMessage(conversation, id, rest)
	return nil
}

func (p *parser) systemLine(conversation string, l *line) {
	switch l.Subtype {
	case "compact_boundary":
		p.compacted(conversation, l)
	case "local_command":
		text := plainString(l.Content)
		if isCommand(text) {
			p.holdCommand(conversation, prompt{ID: l.UUID, Content: rawText(text)})
			return
		}
		p.commandOutput(conversation, l.UUID, untag(text))
	}
}

// attached takes messages that were handed over while a turn ran.
func (p *parser) attached(conversation string, l *line) error {
	a := l.Attachment
	if a == nil || a.Type != "queued_command" {
		return nil
	}
	parts, err := decodeParts(a.Prompt)
	if err != nil {
		return err
	}
	if text := joinText(parts); strings.HasPrefix(text, markNotification) {
		p.notification(text)
		return nil
	}
	id := a.SourceUUID
	if id == "" {
		id = l.UUID
	}
	p.userMessage(conversation, id, parts)
	return nil
}
