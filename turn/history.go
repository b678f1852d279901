package turn

import (
	"iter"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/reducer/loss"
)

// Scope names the execution that a [History] is about, and where its part of the stream
// starts.
type Scope struct {
	ExecutionID, MessageID string
	// BlockIDs are the ids that the message's blocks may have; see [PromptIDs].
	BlockIDs []string
	// After is a sequence number before all events of the execution, and of earlier ones
	// that may not be archived whole; Anchor is the last block there.
	After  uint64
	Anchor string
	// Earlier are the messages of those earlier ones.
	Earlier []Message
	// Blocks selects the blocks that [History.Streamed] has. Default: all. A turn may
	// stream more than fits into memory, so a caller that needs few selects them.
	Blocks func(event.Event) bool
}

// History is what the stream holds of an execution, from one pass over its tail. Events
// that it has are ignored, so the pass can continue where it stopped. Not safe for
// concurrent use.
type History struct {
	scope    Scope
	last     uint64
	streamed loss.Tail
	server   loss.ServerBlocks
	calls    effects.Calls
	requests []event.Event // without an answer
	prompts  loss.Prompts
	// asked are the user's messages of this execution as the agent streamed them.
	asked []string
	// Incomplete reports whether events are missing: past the stream's retention, or
	// deleted with it. Only the rest is known of what was streamed.
	Incomplete bool
	// Started reports whether the stream has the execution's start.
	Started bool
	// Refused are the messages that the agent's server refused, by id.
	Refused map[string]bool
	// Ended is the event that ended the execution; nil if there is none.
	Ended *event.Event
	// LastBlock describes the last block.
	LastBlock string
}

// NewHistory starts after scope.After.
func NewHistory(scope Scope) *History {
	named := slices.Clone(scope.BlockIDs)
	for _, m := range scope.Earlier {
		named = append(named, m.BlockIDs...)
	}
	return &History{
		scope: scope, last: scope.After, prompts: loss.NewPrompts(named), Refused: map[string]bool{},
		streamed: loss.NewTail(), server: loss.NewServerBlocks(scope.Anchor), calls: effects.Calls{ExecutionID: scope.ExecutionID},
	}
}

// Next returns the sequence number after which the pass continues.
func (h *History) Next() uint64 { return h.last }

// Add adds the next event of the stream.
func (h *History) Add(ev event.Event) {
	seq := ev.Context.Seq
	if seq <= h.last {
		return
	}
	h.Incomplete = h.Incomplete || seq != h.last+1
	h.last = seq
	h.server.Add(ev)
	h.calls.Add(ev)
	h.requests = permission.StillOpen(h.requests, ev)
	h.prompts.Add(ev)
	if h.scope.Blocks == nil || h.scope.Blocks(ev) {
		h.streamed.Add(ev)
	}
	switch p := ev.Payload.(type) {
	case event.QueryStarted:
		h.Started = h.Started || p.ExecutionID == h.scope.ExecutionID
	case event.Error:
		h.Refused[p.MessageID] = true
	case event.BlockUpsert:
		if ev.Context.Conversation() == event.Main {
			h.addBlock(p.Block)
		}
	default:
		if q, ends := endOf(p); ends && h.Ended == nil && q.ExecutionID == h.scope.ExecutionID && slices.Contains(q.MessageIDs, h.scope.MessageID) {
			h.Ended = &ev
		}
	}
}

// addBlock adds the next block of the main conversation.
func (h *History) addBlock(b event.Block) {
	h.LastBlock = brief.Describe(b, h.LastBlock)
	// Some agents choose another id, after the execution's start.
	if b.Type == event.BlockUserMessage && b.Source != event.SourceServer && (h.Started || slices.Contains(h.scope.BlockIDs, b.ID)) {
		h.asked = append(h.asked, b.ID)
	}
}

// endOf returns the query that an event ends.
func endOf(p event.Payload) (q event.Query, ends bool) {
	switch p := p.(type) {
	case event.QueryCompleted:
		return p.Query, true
	case event.QueryFailed:
		return p.Query, true
	case event.QueryInterrupted:
		return p.Query, true
	}
	return q, false
}

// Ending returns how the execution ended by the stream; nil while it has no end.
func (h *History) Ending() *Ending {
	if h.Ended == nil {
		return nil
	}
	switch p := h.Ended.Payload.(type) {
	case event.QueryFailed:
		return &Ending{Outcome: Failed, Failure: p.Error}
	case event.QueryInterrupted:
		return &Ending{Outcome: Interrupted}
	}
	return &Ending{Outcome: Completed}
}

// Streamed returns the conversation as it was streamed.
func (h *History) Streamed() reducer.State { return h.streamed.State() }

// Persisted returns what the agent's transcripts have of it; see [loss.Persisted].
func (h *History) Persisted(transcripts iter.Seq2[event.Event, error]) reducer.State {
	return loss.Persisted(transcripts, h.prompts.Named, h.Streamed())
}

// Difference returns the events that make the stream and the transcripts agree, see
// [loss.Difference], and those that keep the earlier messages that neither has: the stream
// was deleted behind them.
func (h *History) Difference(persisted reducer.State, o loss.Options) (events []event.Event) {
	for _, m := range h.scope.Earlier {
		events = append(events, m.keepPrompt(h, persisted, o.At)...)
	}
	o.Chosen = h.prompts.Chosen()
	return append(events, loss.Difference(h.Streamed(), persisted, o)...)
}

// DropBlocks releases the memory of Streamed. The rest of the history is kept, and the pass
// can continue.
func (h *History) DropBlocks() {
	h.scope.Blocks = func(event.Event) bool { return false }
	h.streamed = loss.NewTail()
}

// Asked returns the block of the execution's message, as the agent streamed it: the first
// that is not lost.
func (h *History) Asked() (event.Block, bool) {
	for _, b := range h.Streamed().Blocks {
		if slices.Contains(h.asked, b.ID) && b.Type == event.BlockUserMessage && b.Source != event.SourceServer && !reducer.Lost(b) {
			return b, true
		}
	}
	return event.Block{}, false
}

// unanswered returns the execution's calls whose effect is unknown since its agent exited,
// and the events that mark them where the stream has no mark and withdraw its requests.
func (h *History) unanswered(m Message, persisted reducer.State, at time.Time) ([]effects.Call, []event.Event) {
	h.calls.AddPersisted(persisted)
	h.calls.Waited(m.Waited)
	return h.calls.Unknown(), append(h.calls.Marks(at), permission.Withdrawn(h.requests, m.Waits, at)...)
}

// Server returns the server's events with their places, for Sojourn's own transcript, and
// the last permanent block of the main conversation.
func (h *History) Server() (placed []loss.Placed, last string) {
	return h.server.Placed(), h.server.Last()
}
