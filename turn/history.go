package turn

import (
	"slices"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
)

// Scope names the execution that a [History] is about, and where its part of the
// stream begins.
type Scope struct {
	ExecutionID, MessageID string
	// BlockIDs are the ids that the message's blocks may have; see [PromptIDs].
	BlockIDs []string
	// After is a sequence number before everything of the execution, and of those before
	// it that may not be archived whole; Anchor is the last block there.
	After  uint64
	Anchor string
	// Blocks are the blocks that [History.Streamed] is to have. Default: all. A turn
	// may stream more than a process can hold, so whoever needs few names them.
	Blocks func(event.Event) bool
}

// History is what the stream holds of an execution, from one pass over its tail.
// Events that it has are ignored, so the pass can continue where it stopped. Not
// safe for concurrent use.
type History struct {
	scope    Scope
	last     uint64
	streamed *reducer.Builder
	server   loss.ServerBlocks
	// asked are the user's messages of this execution as the agent streamed them, and
	// prompted reports whether there is any, the server's included.
	asked    []string
	prompted bool
	// Incomplete reports whether events are missing: past the stream's retention, or
	// deleted with it. What is left is all that can be told of what was streamed.
	Incomplete bool
	// Started reports whether the stream has the execution's beginning.
	Started bool
	// Ended is the event that ended the execution; nil while there is none.
	Ended *event.Event
	// LastBlock is the last block in words, for people.
	LastBlock string
}

// NewHistory begins behind scope.After.
func NewHistory(scope Scope) *History {
	return &History{
		scope: scope, last: scope.After,
		streamed: reducer.NewBuilder(reducer.State{}), server: loss.NewServerBlocks(scope.Anchor),
	}
}

// Next is the sequence number behind which the pass continues.
func (h *History) Next() uint64 { return h.last }

// Add takes the next event of the stream.
func (h *History) Add(ev event.Event) {
	seq := ev.Context.Seq
	if seq <= h.last {
		return
	}
	h.Incomplete = h.Incomplete || seq != h.last+1
	h.last = seq
	h.server.Add(ev)
	if h.scope.Blocks == nil || h.scope.Blocks(ev) {
		h.streamed.Add(ev)
	}
	switch p := ev.Payload.(type) {
	case event.QueryStarted:
		h.Started = h.Started || p.ExecutionID == h.scope.ExecutionID
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

// addBlock takes the next block of the main conversation.
func (h *History) addBlock(b event.Block) {
	h.LastBlock = Describe(b, h.LastBlock)
	// Some agents choose another id, behind the execution's beginning.
	if b.Type != event.BlockUserMessage || !h.Started && !slices.Contains(h.scope.BlockIDs, b.ID) {
		return
	}
	h.prompted = true
	if b.Source != event.SourceServer {
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

// Ending is how the execution ended by the stream; nil while it has no end.
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

// Streamed is the conversation as it was streamed.
func (h *History) Streamed() reducer.State { return h.streamed.State() }

// DropBlocks releases the memory of Streamed. The rest of the history is kept, and
// the pass can continue.
func (h *History) DropBlocks() {
	h.scope.Blocks = func(event.Event) bool { return false }
	h.streamed = reducer.NewBuilder(reducer.State{})
}

// Asked returns the block of the message that the execution is about, as the
// agent streamed it: the first that is not lost.
func (h *History) Asked() (event.Block, bool) {
	for _, b := range h.Streamed().Blocks {
		if slices.Contains(h.asked, b.ID) && b.Type == event.BlockUserMessage && b.Source != event.SourceServer && !reducer.Lost(b) {
			return b, true
		}
	}
	return event.Block{}, false
}

// Server returns the server's events with their places, for Sojourn's own
// transcript, and the last permanent block of the main conversation.
func (h *History) Server() (placed []loss.Placed, last string) {
	return h.server.Placed(), h.server.Last()
}
