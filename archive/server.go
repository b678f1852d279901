package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Anchor is the block that a server entry follows.
type Anchor struct {
	// ConversationID is event.Main (also when empty) or the subagent's.
	ConversationID string `json:"conversationId,omitempty"`
	// AfterBlockID is the conversation's last block when the entry was made, native
	// or the server's; "" is the beginning. A block that may still disappear (text
	// that is pending and empty) is a bad anchor.
	AfterBlockID string `json:"afterBlockId,omitempty"`
}

// ServerEntry is a server entry: something that Sojourn itself added to a
// conversation, such as a failure, a limit, a restore notice or a permission's
// outcome.
type ServerEntry struct {
	// ID makes a repeated entry harmless: readers use the first with an id. Default:
	// derived from the content.
	ID     string      `json:"id"`
	Anchor Anchor      `json:"anchor"`
	Event  event.Event `json:"event"`
}

// serverFile is the transcript of server entries as a file; it is never written to a
// home.
var serverFile = adapters.Transcript{ID: ServerTranscript, Path: "sojourn.jsonl", Kind: adapters.Append}

// AppendServerEntries writes entries to the session's transcript of server entries, all or
// none, in their order. Several writers of one epoch may append at once.
func (a *Archive) AppendServerEntries(ctx context.Context, session string, epoch uint64, entries ...ServerEntry) error {
	if len(entries) == 0 {
		return nil
	}
	data, err := encodeServer(entries)
	if err == nil {
		err = a.appendAtEnd(ctx, session, epoch, serverFile, data)
	}
	if err != nil {
		return fmt.Errorf("archive: append to the own transcript of session %s: %w", session, err)
	}
	return nil
}

// appendAtEnd appends at the current end. If an answer was lost, it looks for its
// bytes where it tried to put them before it tries again.
func (a *Archive) appendAtEnd(ctx context.Context, session string, epoch uint64, t adapters.Transcript, data []byte) error {
	tried := int64(-1)
	return a.changeTranscript(ctx, session, epoch, t, func(h *transcriptHead, exists bool) (bool, error) {
		if tried >= 0 {
			rest, err := a.missing(ctx, session, *h, tried, data)
			if err == nil && len(rest) == 0 {
				return false, nil
			}
			if err != nil && !errors.Is(err, ErrConflict) {
				return false, err
			}
		}
		tried = h.Size
		return true, a.grow(ctx, session, epoch, h, data)
	})
}

func encodeServer(entries []ServerEntry) ([]byte, error) {
	var b bytes.Buffer
	for _, e := range entries {
		line, err := json.Marshal(e)
		if err == nil && e.ID == "" {
			sum := sha256.Sum256(line)
			e.ID = hex.EncodeToString(sum[:12])
			line, err = json.Marshal(e)
		}
		if err != nil {
			return nil, fmt.Errorf("encode entry %q: %w", e.ID, err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// ServerEntries reads the session's server entries, in order and each once. A line that
// can't be decoded is an error that names it; the valid ones are yielded all the
// same. It yields nothing for a session without any.
func (a *Archive) ServerEntries(ctx context.Context, session string) ([]ServerEntry, error) {
	r, err := a.open(ctx, session, ServerTranscript)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("archive: read the own transcript of session %s: %w", session, err)
	}
	entries, err := decodeServer(r)
	if err != nil {
		err = fmt.Errorf("archive: read the own transcript of session %s: %w", session, err)
	}
	return entries, err
}

func decodeServer(r io.Reader) (entries []ServerEntry, bad error) {
	in, seen := bufio.NewReader(r), map[string]bool{}
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e ServerEntry
			if derr := json.Unmarshal(line, &e); derr != nil {
				bad = errors.Join(bad, fmt.Errorf("line %d: %w: %w", n, ErrCorrupt, derr))
			} else if e.ID == "" || !seen[e.ID] {
				seen[e.ID] = true
				entries = append(entries, e)
			}
		}
		if err == io.EOF {
			return entries, bad
		}
		if err != nil {
			return entries, errors.Join(bad, err)
		}
	}
}

// Events returns the session's conversation as events: the native transcripts
// through an adapter's parse, with the server entries in their places. Folding
// them with package reducer makes the state that subscribers saw. Errors don't
// end it: each names what is broken, and the rest is yielded.
func (a *Archive) Events(ctx context.Context, session string, parse func([]adapters.Source) iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		sources, err := a.Sources(ctx, session)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		own, err := a.ServerEntries(ctx, session)
		if err != nil && !yield(event.Event{}, err) {
			return
		}
		for ev, err := range Merge(parse(sources), own) {
			if !yield(ev, err) {
				return
			}
		}
	}
}

// Merge puts server entries after the blocks they are anchored to. A block's
// place in a conversation is that of its first upsert, so an entry comes right
// after its anchor's first upsert and before the next created block; entries on
// one anchor keep their order, and an entry may be anchored to another's block.
// An entry for the beginning comes before the conversation's first block.
//
// An entry may be a block that the agent lost. The agent may have created another
// one under its id since: entries made before the block was lost follow the lost
// one, later ones follow the other one.
//
// An entry may be a call of which the agent had sent no end when its turn ended. What the
// agent wrote about that call's end all the same, in the same moment, is left out.
//
// An entry may be the place of one of the agent's blocks. What the agent wrote about that
// block before its anchor waits for it; until the agent is idle at the latest.
//
// Entries whose anchor never appears are at the end, each conversation's in
// order, followed by one error per anchor that wraps [ErrAnchorLost]. Errors of
// native pass through. Memory is that of own, and of what waits for its place.
func Merge(native iter.Seq2[event.Event, error], own []ServerEntry) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		m := merger{
			yield: yield, begun: map[string]bool{}, names: map[string]string{}, waiting: map[Anchor][]int{},
			lost: map[Anchor]int{}, calls: map[Anchor]bool{}, own: own, placed: make([]bool, len(own)), early: newEarly(),
		}
		for i, e := range own {
			at := e.anchor()
			m.waiting[at] = append(m.waiting[at], i)
			if block, lost := e.lost(); lost {
				m.lost[block] = i
			} else if e.call() {
				m.calls[block] = true
			}
			m.early.expect(e, i)
		}
		for ev, err := range native {
			if err != nil {
				if !yield(ev, err) {
					return
				}
				continue
			}
			if !m.native(ev) {
				return
			}
		}
		if m.releaseAll() {
			m.rest()
		}
	}
}

func (e ServerEntry) anchor() Anchor {
	return Anchor{event.Context{ConversationID: e.Anchor.ConversationID}.Conversation(), e.Anchor.AfterBlockID}
}

type merger struct {
	yield func(event.Event, error) bool
	begun map[string]bool
	// names maps the agent's names of subagents to their conversations.
	names   map[string]string
	waiting map[Anchor][]int
	// lost is the last entry of each block that was lost.
	lost map[Anchor]int
	// calls are the entries that are calls.
	calls  map[Anchor]bool
	own    []ServerEntry
	placed []bool
	early  early
}

// native yields an event of the agent's, unless it is of a call that had no end, or waits.
func (m *merger) native(ev event.Event) bool {
	if _, idle := ev.Payload.(event.SessionIdle); idle && !m.releaseAll() {
		return false
	}
	return m.ofCall(ev) || m.hold(ev) || m.event(ev, len(m.own))
}

// event yields an event and the entries anchored around it: of those anchored to
// its block the first n.
func (m *merger) event(ev event.Event, n int) bool {
	id := creates(ev.Payload)
	if id == "" {
		return m.yield(ev, nil)
	}
	conversation := m.conversation(ev)
	if !m.begin(conversation) || !m.yield(ev, nil) {
		return false
	}
	if p, ok := ev.Payload.(event.SubagentSpawned); ok && p.ToolUseID != "" {
		m.names[p.AgentID] = p.ToolUseID
		delete(m.names, "")
		if !m.begin(p.ToolUseID) {
			return false
		}
	}
	return m.place(Anchor{conversation, id}, n)
}

// conversation returns that of an event, which the agent may have under another name.
func (m *merger) conversation(ev event.Event) string {
	id := ev.Context.Conversation()
	return cmp.Or(m.names[id], id)
}

// begin yields the entries before a conversation's first block.
func (m *merger) begin(conversation string) bool {
	if m.begun[conversation] {
		return true
	}
	m.begun[conversation] = true
	return m.place(Anchor{ConversationID: conversation}, len(m.own))
}

// creates returns the block that an event creates in its conversation unless it
// exists already; "" for none.
func creates(p event.Payload) string {
	switch p := p.(type) {
	case event.BlockUpsert:
		return p.Block.ID
	case event.SubagentSpawned:
		return event.SubagentBlockID(cmp.Or(p.ToolUseID, p.AgentID))
	}
	return ""
}

// place yields the entries that wait for an anchor, among the first n.
func (m *merger) place(at Anchor, n int) bool {
	waiting := m.waiting[at]
	due, _ := slices.BinarySearch(waiting, n)
	m.waiting[at] = waiting[due:]
	for _, i := range waiting[:due] {
		m.placed[i] = true
		if !m.entry(i) {
			return false
		}
	}
	return true
}

// entry yields a server entry and those anchored to it. Of a block that was lost,
// created again and lost again the last entry counts.
func (m *merger) entry(i int) bool {
	block, lost := m.own[i].lost()
	placed, places := m.own[i].places()
	switch {
	case places:
		return m.release(placed)
	case !lost:
		return m.event(m.own[i].Event, len(m.own))
	case m.lost[block] > i:
		return m.place(block, i)
	}
	return m.event(m.own[i].Event, i)
}

// lost returns the block of an entry, if it is a block that the agent lost.
func (e ServerEntry) lost() (block Anchor, ok bool) {
	p, ok := e.Event.Payload.(event.BlockUpsert)
	return Anchor{e.Event.Context.Conversation(), p.Block.ID}, ok && string(p.Block.Metadata["lost"]) == "true"
}

// call reports whether an entry is a call that had no end.
func (e ServerEntry) call() bool {
	p, ok := e.Event.Payload.(event.BlockUpsert)
	return ok && p.Block.Type == event.BlockToolUse
}

// ofCall reports whether an event is about a call of the entries, or its result.
func (m *merger) ofCall(ev event.Event) bool {
	p, ok := ev.Payload.(event.BlockUpsert)
	at := ev.Context.Conversation()
	return ok && m.calls[Anchor{at, cmp.Or(p.Block.ToolUseID, p.Block.ID)}]
}

// rest places the remaining entries: those for the beginning of conversations
// without native blocks first, then those whose anchor is lost.
func (m *merger) rest() {
	for i, e := range m.own {
		if !m.placed[i] && e.Anchor.AfterBlockID == "" && !m.place(e.anchor(), len(m.own)) {
			return
		}
	}
	for i, e := range m.own {
		if m.placed[i] {
			continue
		}
		if !m.place(e.anchor(), len(m.own)) {
			return
		}
		lost := fmt.Errorf("archive: own entry %s after block %q of conversation %s: %w", e.ID, e.anchor().AfterBlockID, e.anchor().ConversationID, ErrAnchorLost)
		if !m.yield(event.Event{}, lost) {
			return
		}
	}
}
